/** The values of a form of a workflow's parameters, as a call with positional and named arguments. */

import { type Schema, withNulls } from "../form/shownSchema";

export interface Call {
  args: unknown[];
  kwargs: Record<string, unknown>;
}

export type Values = Record<string, unknown>;

interface Parameters extends Schema {
  "x-by-position"?: string[];
  "x-rest"?: string;
}

/** All given values, without those that equal their default: the code provides these. */
export function valuesOf(parameters: Schema, said: unknown): Values {
  const filled = withNulls(said ?? {}, parameters) as Values;
  const properties = parameters.properties ?? {};
  return Object.fromEntries(
    Object.entries(filled).filter(([name, value]) => {
      const known = properties[name];
      return (
        value !== undefined && !(known !== undefined && "default" in known && isSame(value, known.default))
      );
    }),
  );
}

/** Formats that the code accepts more of than the standard: times without a zone, and durations. */
const READ_WIDELY = new Set(["time", "date-time", "duration"]);

/** Return parameters to check arguments with here; the worker checks them with its code. */
export function checkedBy(parameters: Schema): Schema {
  const text = JSON.stringify(parameters, (keyword, part: unknown) =>
    keyword === "format" && READ_WIDELY.has(part as string) ? undefined : part,
  );
  return JSON.parse(text) as Schema;
}

/** Return the call that passes these values, or the missing positional ones. */
export function callOf(parameters: Schema, values: Values): Call | { missing: string } {
  const { "x-by-position": names = [], "x-rest": rest } = parameters as Parameters;
  const more = rest === undefined ? [] : ((values[rest] as unknown[] | undefined) ?? []);
  const last = more.length > 0 ? names.length : names.findLastIndex((name) => name in values) + 1;
  const args: unknown[] = [];
  for (const name of names.slice(0, last)) {
    const known = parameters.properties?.[name] ?? {};
    if (!(name in values) && !("default" in known)) return { missing: name };
    args.push(name in values ? values[name] : known.default);
  }
  const passed = new Set([...names, rest]);
  const named = Object.entries(values).filter(([name]) => !passed.has(name));
  return { args: [...args, ...more], kwargs: Object.fromEntries(named) };
}

/** Return the values that a call passes, to continue in the form. */
export function valuesIn(parameters: Schema, { args, kwargs }: Call): Values {
  const { "x-by-position": only = [], "x-rest": rest } = parameters as Parameters;
  const names = only.length > 0 || rest !== undefined ? only : Object.keys(parameters.properties ?? {});
  const values: Values = { ...kwargs };
  for (const [index, name] of names.slice(0, args.length).entries()) values[name] = args[index];
  if (rest !== undefined && args.length > names.length) values[rest] = args.slice(names.length);
  return values;
}

/** Read a call as people write it; throws an Error with the reason. */
export function readCall(text: string): Call {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (error) {
    throw new Error(`It is not JSON: ${(error as Error).message}`, { cause: error });
  }
  const isObject = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject(read)) throw new Error('It must be an object: {"args": [], "kwargs": {}}');
  const { args = [], kwargs = {}, ...others } = read;
  if (!Array.isArray(args)) throw new Error("args must be a list");
  if (!isObject(kwargs)) throw new Error("kwargs must be an object");
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new Error(`Only args and kwargs are allowed, not ${unknown}`);
  return { args: args as unknown[], kwargs };
}

export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
