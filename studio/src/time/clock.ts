/** One clock for all relative times, so that a page of a hundred rows has one timer. */

import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let now = Date.now() / 1000;
let timer: number | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= window.setInterval(() => {
    now = Date.now() / 1000;
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The text for the current time, rendered again only when the text changes. */
export function useOfNow(text: (now: number) => string): string {
  return useSyncExternalStore(subscribe, () => text(now));
}
