/** Whether a schema and a value make a form that a browser can show at once. Otherwise they are edited as JSON. */

import type { Schema } from "./shownSchema";

/** A form of this many fields takes a second or two. */
const MOST_FIELDS = 1_000;
const OPTIONS_LIKE_A_FIELD = 5;
const LONGEST_PATTERN = 200;

/** Counts down; `isSpent` ends the count early. */
class Budget {
  private left = MOST_FIELDS;

  spend(fields: number) {
    this.left -= fields;
  }

  get isSpent() {
    return this.left < 0;
  }
}

export function fitsForm(schema: Schema, value: unknown): boolean {
  const budget = new Budget();
  countValue(value, budget);
  if (!budget.isSpent) countSchema(schema, schema, [], 1, budget);
  return !budget.isSpent;
}

function countValue(value: unknown, budget: Budget) {
  budget.spend(1);
  if (typeof value !== "object" || value === null) return;
  for (const each of Object.values(value)) {
    if (budget.isSpent) return;
    countValue(each, budget);
  }
}

/** Count the fields of a schema, `times` over: a list starts with its minimum number of items. */
function countSchema(
  schema: unknown,
  root: Schema,
  followed: readonly string[],
  times: number,
  budget: Budget,
) {
  if (budget.isSpent || typeof schema !== "object" || schema === null) return;
  const found = schema as Schema;
  budget.spend(times);
  if (Array.isArray(found.enum)) budget.spend((times * found.enum.length) / OPTIONS_LIKE_A_FIELD);
  if (Object.keys(tableOf(found.patternProperties)).some((pattern) => !isCheap(pattern)))
    budget.spend(MOST_FIELDS + 1);
  const count = (part: unknown, more = 1) => countSchema(part, root, followed, times * more, budget);
  if (found.$ref !== undefined && !followed.includes(found.$ref))
    countSchema(target(found.$ref, root), root, [...followed, found.$ref], times, budget);
  for (const table of [found.properties, found.patternProperties]) {
    for (const part of Object.values(tableOf(table))) count(part);
  }
  for (const keyword of ["anyOf", "oneOf", "allOf", "prefixItems"]) {
    const parts = found[keyword];
    if (Array.isArray(parts)) for (const part of parts) count(part);
  }
  for (const keyword of ["additionalProperties", "not", "if", "then", "else"]) count(found[keyword]);
  const least = typeof found.minItems === "number" ? found.minItems : 0;
  count(found.items, Math.max(1, least));
}

function tableOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function target(reference: string, root: Schema): unknown {
  const name = reference.match(/^#\/\$defs\/([^/]+)$/)?.[1];
  return name === undefined ? undefined : root.$defs?.[decodeURIComponent(name)];
}

/** Whether a backtracking engine matches a pattern quickly: it has few repetitions, and none are nested. */
function isCheap(pattern: string): boolean {
  const repetitions = pattern.match(/[*+{]/g)?.length ?? 0;
  return pattern.length <= LONGEST_PATTERN && repetitions <= 2 && !/\)[*+{]/.test(pattern);
}
