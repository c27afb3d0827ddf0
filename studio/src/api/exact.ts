/** JSON whose numbers keep their spelling: 1.0, and integers that JavaScript cannot represent. */

interface RawJson {
  rawJSON: string;
}

/** Functions that browsers of the last two years have, and TypeScript does not know yet. */
const json = JSON as typeof JSON & {
  rawJSON?: (text: string) => RawJson;
  isRawJSON?: (value: unknown) => value is RawJson;
};

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

const keep: Reviver = (_, value, context) =>
  typeof value === "number" && context?.source !== undefined && String(value) !== context.source
    ? json.rawJSON?.(context.source)
    : value;

/** Return a value's number in its original spelling, if JavaScript's would differ. */
export function rawNumber(value: unknown): string | undefined {
  return json.isRawJSON?.(value) ? value.rawJSON : undefined;
}

/** Parse JSON. Numbers that would be written differently become objects that `JSON.stringify` writes unchanged. */
export function parseExact(text: string): unknown {
  return JSON.parse(
    text,
    json.rawJSON === undefined ? undefined : (keep as (key: string, value: unknown) => unknown),
  );
}

/** Parse a record of the API, with its payloads exact. */
export function parseRecord<T extends object>(text: string, payloads: readonly (keyof T)[]): T {
  return withExact(JSON.parse(text) as T, parseExact(text) as T, payloads);
}

function withExact<T extends object>(record: T, exact: T, payloads: readonly (keyof T)[]): T {
  for (const name of payloads) if (name in record) record[name] = exact[name];
  return record;
}
