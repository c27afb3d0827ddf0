/** Keys that do something wherever nobody types. */

import { useEffect, useEffectEvent } from "react";

export type Keys = Readonly<Record<string, () => void>>;

export function useKeys(keys: Keys): void {
  const onPress = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const action = keys[event.key.toLowerCase()];
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

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) ||
    target.closest("dialog") !== null
  );
}
