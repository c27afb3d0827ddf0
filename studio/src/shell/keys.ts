/** Keyboard shortcuts, which work wherever the user is not typing. */

import { useEffect, useEffectEvent } from "react";

export type Keys = Readonly<Record<string, () => void>>;

export function useKeys(keys: Keys): void {
  const onPress = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const action = keys[nameOf(event)];
    if (action !== undefined) {
      event.preventDefault();
      action();
    }
  });
  useEffect(() => {
    const press = (event: KeyboardEvent) => onPress(event);
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

/** The names of keys: `a`, `Shift+A`, `?`. */
function nameOf({ key, shiftKey }: KeyboardEvent): string {
  if (shiftKey && /^[a-z]$/i.test(key)) return `Shift+${key.toUpperCase()}`;
  return key.toLowerCase();
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    target.matches("input:not([type='checkbox']), textarea, select") ||
    target.closest("dialog") !== null
  );
}
