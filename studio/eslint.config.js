import js from "@eslint/js";
import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config({ ignores: ["src/api/schema.d.ts"] }, js.configs.recommended, {
  files: ["**/*.{ts,tsx}"],
  extends: [ts.configs.strict, hooks.configs.flat.recommended, a11y.flatConfigs.strict],
  rules: {
    "no-undef": "off", // the compiler knows better
    "react-hooks/incompatible-library": "off", // nothing here is compiled by React's compiler
  },
});
