/** Checks a value by interpreting its schema: the page's policy forbids compiling it, as Ajv would. */

import { type OutputUnit, type Schema, Validator } from "@cfworker/json-schema";

export interface Wrong {
  field: string;
  message: string;
}

/** Keywords whose errors only point to errors below them. */
const OUTER = new Set([
  "properties",
  "patternProperties",
  "items",
  "prefixItems",
  "$ref",
  "allOf",
  "additionalProperties",
]);

export function problems(schema: object, value: unknown): OutputUnit[] {
  try {
    return new Validator(schema as Schema, "2020-12", false).validate(value).errors;
  } catch {
    return []; // an unreadable schema: the server can read it
  }
}

/** Return a value's errors with their places; none if the schema cannot be read here. */
export function wrongOf(schema: object, value: unknown): Wrong[] {
  const found = problems(schema, value);
  const inner = found.filter(({ keyword }) => !OUTER.has(keyword));
  return (inner.length > 0 ? inner : found).map(({ instanceLocation, error }) => ({
    field: placeOf(instanceLocation),
    message: error,
  }));
}

export function placeOf(location: string): string {
  return location.replace(/^#\/?/, "").replaceAll("/", ".");
}
