/** A form's validation: it also chooses among alternatives. */

import type { OutputUnit } from "@cfworker/json-schema";
import { type RJSFSchema, type RJSFValidationError, toErrorSchema, type ValidatorType } from "@rjsf/utils";
import { placeOf, problems } from "./checks";

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
