/** A form's values, as the API takes them. */

/** A text without surrounding blanks; undefined if it is empty. */
export function text(said: FormData, name: string): string | undefined {
  const value = said.get(name);
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** A number; undefined if there is none. */
export function number(said: FormData, name: string): number | undefined {
  const value = text(said, name);
  return value === undefined ? undefined : Number(value);
}

/** Texts separated by commas; undefined if there are none. */
export function texts(said: FormData, name: string): string[] | undefined {
  const found = (text(said, name) ?? "").split(",").map((each) => each.trim());
  const kept = found.filter((each) => each !== "");
  return kept.length === 0 ? undefined : kept;
}
