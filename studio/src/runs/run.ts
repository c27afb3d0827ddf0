/** Runs as the API shows them. */

import { useQuery } from "@tanstack/react-query";
import { api, given } from "../api/client";
import { parseRecord } from "../api/exact";
import type { components } from "../api/schema";

export type Run = components["schemas"]["Run"];
export type RunState = components["schemas"]["RunState"];

export const STATES: readonly RunState[] = ["ready", "running", "paused", "succeeded", "failed", "cancelled"];

export interface Arguments {
  args: unknown[];
  kwargs: Record<string, unknown>;
}

export function hasEnded(run: Run): boolean {
  return ["succeeded", "failed", "cancelled"].includes(run.state);
}

/** Whether a run waits for earlier runs of its session. */
export function awaitsTurn(run: Run): boolean {
  return (
    run.state === "paused" && run.session_id !== undefined && run.epoch === 0 && run.wake_at === undefined
  );
}

export function argumentsOf(run: Run): Arguments {
  return readArguments(run.arguments);
}

function readArguments(given: unknown): Arguments {
  const { args, kwargs } = Object(given ?? {}) as Partial<Arguments>; // a worker may have written anything
  return { args: Array.isArray(args) ? args : [], kwargs: Object(kwargs ?? {}) as Arguments["kwargs"] };
}

/** A run as a call, such as `refund("o-1", 7000)`. */
export function callOf(run: Pick<Run, "workflow" | "arguments">): string {
  return `${run.workflow}${argumentsText(run.arguments)}`;
}

/** A run's arguments in the form of a call, such as `("o-1", 7000)`. */
export function argumentsText(given: unknown): string {
  const { args, kwargs } = readArguments(given);
  const named = Object.entries(kwargs).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `(${[...args.map((each) => JSON.stringify(each)), ...named].join(", ")})`;
}

/** One run, with exact numbers in its payloads. */
export function useRun(id: string) {
  return useQuery({
    queryKey: ["run", id],
    queryFn: async () => {
      const path = { params: { path: { run_id: id } } };
      const text = await given<string>(api.GET("/v1/runs/{run_id}", { ...path, parseAs: "text" }));
      return parseRecord<Run>(text, ["arguments", "result", "error"]);
    },
  });
}
