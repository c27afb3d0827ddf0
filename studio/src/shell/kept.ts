/** Data stored in this browser. Its readers are notified of changes, also from another tab. */

import { Listeners } from "./listeners";

const listeners = new Listeners();

/** Store a text under a key, and notify readers. */
export function keep(key: string, text: string): void {
  localStorage.setItem(key, text);
  listeners.tell();
}

export function subscribe(listener: () => void): () => void {
  const unsubscribe = listeners.subscribe(listener);
  window.addEventListener("storage", listener);
  return () => {
    unsubscribe();
    window.removeEventListener("storage", listener);
  };
}
