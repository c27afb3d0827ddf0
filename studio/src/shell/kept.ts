/** What this browser keeps: whoever shows it is told when it changes, in another tab, too. */

const listeners = new Set<() => void>();

/** Keep a text under a key, and tell. */
export function keep(key: string, text: string): void {
  localStorage.setItem(key, text);
  for (const each of listeners) each();
}

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("storage", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("storage", listener);
  };
}
