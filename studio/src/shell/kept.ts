/** What this browser keeps: whoever shows it is told when it changes, in another tab, too. */

import { Listeners } from "./listeners";

const listeners = new Listeners();

/** Keep a text under a key, and tell. */
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
