/** Forms for values without a schema. */

import type { RJSFSchema, UiSchema } from "@rjsf/utils";

const LONG_LINE = 80;

/** A schema for values like this one; undefined if a part of it does not show its type, such as null. */
export function schemaLike(value: unknown): RJSFSchema | undefined {
  switch (typeof value) {
    case "string":
    case "number":
    case "boolean":
      return { type: typeof value as "string" | "number" | "boolean" };
    case "object":
      return Array.isArray(value) ? listLike(value) : objectLike(value as Record<string, unknown> | null);
    default:
      return undefined;
  }
}

function objectLike(value: Record<string, unknown> | null): RJSFSchema | undefined {
  const members = Object.entries(value ?? {}).map(([name, each]) => [name, schemaLike(each)] as const);
  if (members.length === 0 || members.some(([, schema]) => schema === undefined)) return undefined;
  return { type: "object", properties: Object.fromEntries(members) as NonNullable<RJSFSchema["properties"]> };
}

function listLike(value: unknown[]): RJSFSchema | undefined {
  const items = value.map(schemaLike);
  const first = items[0];
  const isOfOneKind = items.every((each) => JSON.stringify(each) === JSON.stringify(first));
  return first !== undefined && isOfOneKind ? { type: "array", items: first } : undefined;
}

/** Multi-line fields for texts with several lines: a one-line field would join them. */
export function fieldsLike(value: unknown): UiSchema {
  if (typeof value === "string") {
    return value.includes("\n") || value.length > LONG_LINE ? { "ui:widget": "textarea" } : {};
  }
  if (Array.isArray(value)) {
    const fields = value.map(fieldsLike);
    return { items: fields.find((each) => Object.keys(each).length > 0) ?? {} };
  }
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fieldsLike(each)]));
}
