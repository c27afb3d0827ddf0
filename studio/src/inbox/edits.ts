/** The changes to a value, found as the server finds those it records (`signoff.people.questions.edits`). */

export interface Edit {
  op: "add" | "remove" | "replace";
  /** A JSON Pointer; empty for the whole value. */
  path: string;
  value?: unknown;
  old?: unknown;
}

export function editsBetween(old: unknown, now: unknown, path = ""): Edit[] {
  if (Array.isArray(old) && Array.isArray(now)) return ofLists(old, now, path);
  if (isObject(old) && isObject(now)) return ofObjects(old, now, path);
  return isSame(old, now) ? [] : [{ op: "replace", path, value: now, old }];
}

type JsonObject = Record<string, unknown>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function ofObjects(old: JsonObject, now: JsonObject, path: string): Edit[] {
  const kept = Object.entries(old).flatMap(([name, item]): Edit[] =>
    isThere(now, name)
      ? editsBetween(item, now[name], under(path, name))
      : [{ op: "remove", path: under(path, name), old: item }],
  );
  const added = Object.entries(now)
    .filter(([name]) => isThere(now, name) && !isThere(old, name))
    .map(([name, value]): Edit => ({ op: "add", path: under(path, name), value }));
  return [...kept, ...added];
}

/** A member that a form has emptied is undefined, which JSON leaves out. */
function isThere(value: JsonObject, name: string): boolean {
  return Object.hasOwn(value, name) && value[name] !== undefined;
}

function ofLists(old: unknown[], now: unknown[], path: string): Edit[] {
  const shorter = Math.min(old.length, now.length);
  let head = 0;
  while (head < shorter && isSame(old[head], now[head])) head += 1;
  let tail = 0;
  while (tail < shorter - head && isSame(old.at(-1 - tail), now.at(-1 - tail))) tail += 1;
  const both = shorter - tail;
  const edits: Edit[] = [];
  for (let at = head; at < both; at += 1) edits.push(...editsBetween(old[at], now[at], under(path, at)));
  for (let at = both; at < now.length - tail; at += 1) {
    edits.push({ op: "add", path: under(path, at), value: now[at] });
  }
  for (let at = old.length - tail - 1; at >= both; at -= 1) {
    edits.push({ op: "remove", path: under(path, at), old: old[at] });
  }
  return edits;
}

export function isSame(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((each, at) => isSame(each, other[at]));
  }
  if (isObject(one) && isObject(other)) {
    const names = (value: JsonObject) => Object.keys(value).filter((name) => isThere(value, name));
    const known = names(one);
    return (
      known.length === names(other).length &&
      known.every((name) => isThere(other, name) && isSame(one[name], other[name]))
    );
  }
  return one === other;
}

function under(path: string, key: string | number): string {
  return `${path}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
