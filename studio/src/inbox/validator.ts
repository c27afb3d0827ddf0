/** Checks a form's values by interpreting its schema: the page's policy lets nothing be compiled, as Ajv would. */

import { type OutputUnit, type Schema, Validator } from "@cfworker/json-schema";
import { type RJSFSchema, type RJSFValidationError, toErrorSchema, type ValidatorType } from "@rjsf/utils";

function problems(schema: RJSFSchema, value: unknown): OutputUnit[] {
  try {
    return new Validator(schema as Schema, "2020-12", false).validate(value).errors;
  } catch {
    return []; // a schema that this cannot read: the server can
  }
}

function asError({ instanceLocation, error, keyword }: OutputUnit): RJSFValidationError {
  const path = instanceLocation.replace(/^#\/?/, "").replaceAll("/", ".");
  return { name: keyword, property: `.${path}`, message: error, stack: error };
}

export const validator: ValidatorType = {
  validateFormData(value, schema) {
    const errors = problems(schema, value).map(asError);
    return { errors, errorSchema: toErrorSchema(errors) };
  },
  isValid(schema, value, root) {
    const whole = { ...schema, $defs: { ...(root as RJSFSchema).$defs, ...(schema as RJSFSchema).$defs } };
    return problems(whole, value ?? null).length === 0;
  },
  rawValidation(schema, value) {
    return { errors: problems(schema, value) as never[] };
  },
};
