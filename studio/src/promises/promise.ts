/** Promises as the API shows them in call trees, and the tree that they make. */

import { useQuery } from "@tanstack/react-query";
import { api, given } from "../api/client";
import { parseRecord } from "../api/exact";
import type { components } from "../api/schema";
import { argumentsText } from "../runs/run";

export type Promised = components["schemas"]["InvocationInfo"];

/** How often what is pending is read again. */
export const LOOK_AGAIN_MILLISECONDS = 5_000;

/** What settles a promise, in words. */
export const FORMS: Record<NonNullable<Promised["form"]>, string> = {
  remote: "remote call",
  local: "local call",
  timer: "timer",
  question: "question",
  plain: "promise",
};

/** Whether operators settle it here: no worker, timer or person does. */
export function isPlain(promise: Promised): boolean {
  return promise.state === "pending" && promise.form === "plain";
}

/** Whether operators cancel it here: its worker is notified. A run is cancelled on its own page. */
export function isCancellable(promise: Promised): boolean {
  return promise.state === "pending" && promise.form === "remote" && !promise.has_run;
}

/** The call, such as `pay("o-1", 7000)`; undefined if it is not a call. */
export function callOf(promise: Promised): string | undefined {
  return promise.function && `${promise.function}${argumentsText(promise.data)}`;
}

export interface Row {
  promise: Promised;
  depth: number;
}

/**
 * The calls of a promise in the order of the tree. A call whose maker is not among them is at the top, and so is the
 * first of calls that made each other.
 */
export function rowsOf(id: string, calls: readonly Promised[]): Row[] {
  const known = new Set(calls.map((each) => each.id));
  const made = new Map<string, Promised[]>();
  for (const call of calls) {
    const maker = call.parent_id !== undefined && known.has(call.parent_id) ? call.parent_id : id;
    const others = made.get(maker);
    if (others === undefined) made.set(maker, [call]);
    else others.push(call);
  }
  for (const each of made.values()) each.sort((a, b) => a.created_at - b.created_at || byCount(a.id, b.id));
  const rows: Row[] = [];
  const seen = new Set<string>();
  for (const top of [...(made.get(id) ?? []), ...calls]) {
    const waiting: Row[] = [{ promise: top, depth: 0 }];
    for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
      const { promise, depth } = row;
      if (seen.has(promise.id)) continue;
      seen.add(promise.id);
      rows.push(row);
      const below = made.get(promise.id) ?? [];
      waiting.push(...below.toReversed().map((each) => ({ promise: each, depth: depth + 1 })));
    }
  }
  return rows;
}

/** Compare ids that end in a number: r.2 is before r.10. */
function byCount(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

/** One promise, with exact numbers in its payloads. */
export function usePromise(id: string) {
  return useQuery({
    queryKey: ["promise", id],
    queryFn: async () => {
      const path = { params: { path: { promise_id: id } } };
      const text = await given<string>(api.GET("/v1/invocations/{promise_id}", { ...path, parseAs: "text" }));
      return parseRecord<Promised>(text, ["data", "value"]);
    },
    refetchInterval: ({ state }) => (state.data?.state === "pending" ? LOOK_AGAIN_MILLISECONDS : false),
  });
}
