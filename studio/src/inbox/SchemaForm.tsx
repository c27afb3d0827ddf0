/** A form made of a JSON Schema. The server checks what it gives; this checks what a browser can show at once. */

import Form from "@rjsf/core/lib/components/Form.js"; // the package itself brings its tests' Ajv
import type { RJSFSchema, UiSchema } from "@rjsf/utils";
import { validator } from "./validator";

const UI: UiSchema = { "ui:submitButtonOptions": { norender: true } };

interface SchemaFormProps {
  schema: object;
  value: unknown;
  onChange: (value: unknown) => void;
  isReadOnly: boolean;
}

export default function SchemaForm({ schema, value, onChange, isReadOnly }: SchemaFormProps) {
  return (
    <Form
      tagName="div"
      className="schema-form"
      schema={schema as RJSFSchema}
      uiSchema={UI}
      formData={value}
      readonly={isReadOnly}
      validator={validator}
      showErrorList={false}
      onChange={({ formData }) => onChange(formData)}
    />
  );
}
