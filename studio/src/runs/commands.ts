/** A run's start, as a command and as Python code. All values are quoted. */

import { rawNumber } from "../api/exact";
import { argumentsOf, type Run } from "./run";

/** The request that starts such a run again: without its id, so that it is a new one. */
export function startOf(run: Run): Record<string, unknown> {
  const { args, kwargs } = argumentsOf(run);
  const start = {
    workflow: run.workflow,
    args: args.length > 0 ? args : undefined,
    kwargs: Object.keys(kwargs).length > 0 ? kwargs : undefined,
    group: run.group,
    priority: run.priority === 0 ? undefined : run.priority,
    session_id: run.session_id,
  };
  return Object.fromEntries(Object.entries(start).filter(([, value]) => value !== undefined));
}

/** The parameters of `Client.start` itself: a workflow's own arguments of these names are passed differently. */
const OPTIONS = new Set([
  "id",
  "group",
  "timeout_seconds",
  "priority",
  "start_at",
  "delay_seconds",
  "started_by",
  "session_id",
]);

/**
 * @param server The address of the API.
 * @param isGuarded Whether the server authenticates callers: the key is taken from the environment.
 */
export function curlOf(run: Run, server: string, isGuarded: boolean): string {
  const headers = ["-H 'content-type: application/json'"];
  if (isGuarded) headers.push('-H "authorization: Bearer $SIGNOFF_KEY"');
  return `curl -X POST ${shell(startUrl(server))} ${headers.join(" ")} -d ${shell(JSON.stringify(startOf(run)))}`;
}

/** @param server The address of the API; a key is taken from `SIGNOFF_KEY`. */
export function pythonOf(run: Run, server: string): string {
  const { args, kwargs } = argumentsOf(run);
  const names = Object.keys(kwargs);
  if (names.some((name) => OPTIONS.has(name))) {
    const post = `httpx.post(${text(startUrl(server))}, json=${python(startOf(run))})`;
    return ["import httpx", "", `print(${post}.raise_for_status().json()["id"])`, ""].join("\n");
  }
  const given = [
    python(run.workflow),
    ...args.map(python),
    // In a mapping, names need not be Python identifiers.
    ...(names.length > 0 ? [`**${python(kwargs)}`] : []),
  ];
  const options = [
    `group=${python(run.group)}`,
    ...(run.priority === 0 ? [] : [`priority=${run.priority}`]),
    ...(run.session_id === undefined ? [] : [`session_id=${python(run.session_id)}`]),
  ];
  return [
    "from signoff import Client",
    "",
    `with Client(${python(server)}) as client:`,
    `    run = client.start(${given.join(", ")}, ${options.join(", ")})`,
    "    print(run.id)",
    "",
  ].join("\n");
}

function startUrl(server: string): string {
  return new URL("v1/runs", server).href;
}

function shell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A JSON value as a Python literal. */
function python(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return text(value);
  if (typeof value === "number") return JSON.stringify(value);
  const raw = rawNumber(value);
  if (raw !== undefined) return raw;
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  const fields = Object.entries(value).map(([name, each]) => `${text(name)}: ${python(each)}`);
  return `{${fields.join(", ")}}`;
}

/** JSON's escapes are Python's, except for pairs of surrogates, which stay as they are. */
function text(value: string): string {
  return JSON.stringify(value);
}
