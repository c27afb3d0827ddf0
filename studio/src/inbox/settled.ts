/** Questions that this page has settled. The list learns of them a second later. */

import { useSyncExternalStore } from "react";
import { Listeners } from "../shell/listeners";

let settled: ReadonlySet<string> = new Set();
const listeners = new Listeners();

export function settle(ids: readonly string[]): void {
  settled = new Set([...settled, ...ids]);
  listeners.tell();
}

export function useSettledHere(): ReadonlySet<string> {
  return useSyncExternalStore(listeners.subscribe, () => settled);
}
