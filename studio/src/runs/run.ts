/** Runs as the API shows them. */

import type { components } from "../api/schema";

export type Run = components["schemas"]["Run"];
export type RunState = components["schemas"]["RunState"];

export const STATES: readonly RunState[] = ["ready", "running", "paused", "succeeded", "failed", "cancelled"];

export function hasEnded(run: Run): boolean {
  return ["succeeded", "failed", "cancelled"].includes(run.state);
}

interface Arguments {
  args: unknown[];
  kwargs: Record<string, unknown>;
}

/** A run as the call that it is, such as `refund("o-1", 7000)`. */
export function callOf(run: Pick<Run, "workflow" | "arguments">): string {
  const { args, kwargs } = run.arguments as Arguments;
  const named = Object.entries(kwargs).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `${run.workflow}(${[...args.map((each) => JSON.stringify(each)), ...named].join(", ")})`;
}
