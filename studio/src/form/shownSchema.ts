/** A JSON Schema as a form shows it: equivalent, but rewritten so that each value gets the simplest field. */

export interface Schema {
  [keyword: string]: unknown;
  type?: string | string[];
  title?: string;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  $ref?: string;
  $defs?: Record<string, Schema>;
}

const SCALARS = new Set(["string", "integer", "number", "boolean"]);

const NAMES: Readonly<Record<string, string>> = {
  array: "List",
  boolean: "Yes or no",
  date: "Date",
  "date-time": "Date and time",
  integer: "Whole number",
  null: "Nothing",
  number: "Number",
  object: "Fields",
  string: "Text",
  time: "Time",
};

/** The initial value of a field that is added to an object. */
const BEGINNINGS: Readonly<Record<string, unknown>> = { integer: 0, string: "" };

/** The keywords with schemas and lists of schemas. */
const PARTS = ["items", "additionalProperties", "not", "if", "then", "else"];
const LISTS = ["anyOf", "oneOf", "allOf"];
const TABLES = ["properties", "$defs", "patternProperties"];

/** The remaining alternatives if a field may be left empty instead: `X | None` is a field of X. */
function merged(schema: Schema): Schema {
  const { anyOf, ...rest } = schema;
  if (anyOf === undefined) return schema;
  const others = anyOf.filter((each) => each.type !== "null");
  const mayBeEmpty = others.length < anyOf.length;
  const one = others.length === 1 ? others[0] : decimal(others);
  const isField = typeof one?.type === "string" && SCALARS.has(one.type);
  const isThreefold = one?.type === "boolean" && mayBeEmpty; // a box is either ticked or not
  if (one !== undefined && isField && !isThreefold) {
    const { default: given, ...more } = rest;
    const kept = given === null || given === undefined ? {} : { default: given };
    return { ...one, ...more, ...kept, type: mayBeEmpty ? [String(one.type), "null"] : String(one.type) };
  }
  return { ...rest, anyOf: anyOf.map((each) => ({ title: nameOf(each), ...each })) };
}

/** A decimal number is a number or its text: the text keeps all digits. */
function decimal(options: readonly Schema[]): Schema | undefined {
  const [number, text] = options;
  const isDecimal = options.length === 2 && number?.type === "number" && text?.type === "string";
  return isDecimal ? text : undefined;
}

function nameOf({ type, format, $ref }: Schema): string {
  if ($ref !== undefined) return $ref.split("/").at(-1) ?? "";
  const kind = Array.isArray(type) ? type[0] : type;
  return NAMES[String(format)] ?? NAMES[String(kind)] ?? "Anything";
}

/** A referenced enum or the like, so that it can be a field of its own. */
function resolved(schema: Schema, root: Schema): Schema {
  const name = schema.$ref?.match(/^#\/\$defs\/([^/]+)$/)?.[1];
  const found = name === undefined ? undefined : root.$defs?.[decodeURIComponent(name)];
  if (found === undefined || typeof found.type !== "string" || !SCALARS.has(found.type)) return schema;
  const whole = { ...found, ...schema };
  delete whole.$ref;
  return whole;
}

export function shownSchema(schema: Schema, root: Schema = schema): Schema {
  const shown: Schema = { ...resolved(schema, root) };
  delete shown.pattern; // a form only uses it to choose alternatives, and matching may never end
  for (const keyword of TABLES) {
    const table = shown[keyword] as Record<string, Schema> | undefined;
    if (table === undefined) continue;
    shown[keyword] = Object.fromEntries(
      Object.entries(table).map(([name, each]) => [name, shownSchema(each, root)]),
    );
  }
  for (const keyword of LISTS) {
    const list = shown[keyword] as Schema[] | undefined;
    if (list !== undefined) shown[keyword] = list.map((each) => shownSchema(each, root));
  }
  for (const keyword of PARTS) {
    const part = shown[keyword];
    if (typeof part === "object" && part !== null) shown[keyword] = shownSchema(part as Schema, root);
  }
  const further = shown.additionalProperties as Schema | boolean | undefined;
  if (typeof further === "object" && typeof further.type === "string" && further.type in BEGINNINGS) {
    shown.additionalProperties = { default: BEGINNINGS[further.type], ...further };
  }
  if (Array.isArray(shown.prefixItems)) {
    shown.items = (shown.prefixItems as Schema[]).map((each) => shownSchema(each, root));
    delete shown.prefixItems;
  }
  if (shown.required !== undefined)
    shown.required = shown.required.filter((name) => !mayBeNull(schema.properties?.[name] ?? {}));
  return merged(shown);
}

/** A value with null in required nullable fields: empty fields are left out otherwise. */
export function withNulls(value: unknown, schema: Schema, root: Schema = schema): unknown {
  const found = target(schema, root);
  if (Array.isArray(value)) {
    const items = found.items;
    if (typeof items !== "object" || items === null) return value as unknown[];
    return (value as unknown[]).map((each) => withNulls(each, items as Schema, root));
  }
  if (typeof value !== "object" || value === null || found.properties === undefined) return value;
  const filled: Record<string, unknown> = { ...value };
  for (const [name, property] of Object.entries(found.properties)) {
    if (filled[name] !== undefined) filled[name] = withNulls(filled[name], property, root);
    else if (found.required?.includes(name) && mayBeNull(property)) filled[name] = null;
  }
  return filled;
}

function target(schema: Schema, root: Schema): Schema {
  const name = schema.$ref?.match(/^#\/\$defs\/([^/]+)$/)?.[1];
  return (name === undefined ? undefined : root.$defs?.[decodeURIComponent(name)]) ?? schema;
}

function mayBeNull(schema: Schema): boolean {
  return schema.type === "null" || (schema.anyOf?.some((each) => each.type === "null") ?? false);
}
