/** Schedules as the API shows them, and their arguments as people write them. */

import { rawNumber } from "../api/exact";
import type { components } from "../api/schema";
import { text } from "../lists/said";
import { readJson } from "../shell/JsonText";

export type Schedule = components["schemas"]["Schedule"];

interface Arguments {
  args: unknown[];
  kwargs: Record<string, unknown>;
}

/** The times and arguments in a form. */
export function said(form: FormData) {
  return {
    ...argumentsOf(text(form, "arguments") ?? "[]"),
    cron: text(form, "cron") ?? "",
    timezone: text(form, "timezone") ?? "UTC",
    catch_up: form.get("catch_up") as Schedule["catch_up"],
    group: text(form, "group") ?? null,
  };
}

/** Arguments as edited: a list, or an object by name, or both. */
export function written({ arguments: given }: Pick<Schedule, "arguments">): string {
  const { args = [], kwargs = {} } = given as Partial<Arguments>;
  if (Object.keys(kwargs).length === 0) return JSON.stringify(args);
  return JSON.stringify(args.length === 0 && !isBoth(kwargs) ? kwargs : { args, kwargs });
}

/** Read arguments that ``written`` or a person has written. Throws an error with a message for people. */
function argumentsOf(text: string): Partial<Arguments> {
  const value = readJson("Arguments", text);
  if (Array.isArray(value)) return { args: value as unknown[] };
  if (!isObject(value)) throw new Error("Arguments must be a list, or an object by name.");
  return isBoth(value) ? value : { kwargs: value };
}

function isBoth(value: Record<string, unknown>): value is Record<string, unknown> & Arguments {
  const { args, kwargs, ...others } = value;
  return Array.isArray(args) && isObject(kwargs) && Object.keys(others).length === 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && rawNumber(value) === undefined
  );
}
