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

/** Keywords whose errors say that there are others below. */
const OUTER = new Set([
  "properties",
  "patternProperties",
  "items",
  "prefixItems",
  "$ref",
  "allOf",
  "additionalProperties",
]);

/** What is wrong with a value, each with its place; nothing if this cannot read the schema. */
export function wrongOf(schema: object, value: unknown): { field: string; message: string }[] {
  const json = JSON.parse(JSON.stringify(value)) as unknown;
  const found = problems(schema as RJSFSchema, json);
  const inner = found.filter(({ keyword }) => !OUTER.has(keyword));
  return (inner.length > 0 ? inner : found).map(({ instanceLocation, error }) => ({
    field: placeOf(instanceLocation),
    message: error,
  }));
}

function placeOf(location: string): string {
  return location.replace(/^#\/?/, "").replaceAll("/", ".");
}

function asError({ instanceLocation, error, keyword }: OutputUnit): RJSFValidationError {
  return { name: keyword, property: `.${placeOf(instanceLocation)}`, message: error, stack: error };
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
