/** Questions that were settled from this page, of which the list is told a second later. */

import { useSyncExternalStore } from "react";

let settled: ReadonlySet<string> = new Set();
const listeners = new Set<() => void>();

export function settle(ids: readonly string[]): void {
  settled = new Set([...settled, ...ids]);
  for (const each of listeners) each();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSettledHere(): ReadonlySet<string> {
  return useSyncExternalStore(subscribe, () => settled);
}
