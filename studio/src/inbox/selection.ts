/** The questions of the list that are selected to be decided together. */

import { useMemo, useState } from "react";
import type { Question } from "./question";

const NONE: ReadonlySet<string> = new Set();

/** Hidden questions are not selected: users decide only what they see. */
export function useSelection(shown: readonly Question[]) {
  const [chosen, setChosen] = useState(NONE);
  const [last, setLast] = useState<string>();
  const picked = useMemo(
    () =>
      chosen.size === 0 ? NONE : new Set(shown.filter((each) => chosen.has(each.id)).map((each) => each.id)),
    [chosen, shown],
  );
  const pick = (id: string, isRange: boolean) => {
    const next = new Set(picked);
    if (isRange) for (const each of between(shown, last ?? id, id)) next.add(each);
    else if (!next.delete(id)) next.add(id);
    setChosen(next);
    setLast(id);
  };
  const pickAll = () => setChosen(new Set(shown.map((each) => each.id)));
  const clear = () => setChosen(NONE);
  return { picked, pick, pickAll, clear };
}

function between(shown: readonly Question[], from: string, to: string): string[] {
  const ends = [from, to].map((id) => shown.findIndex((each) => each.id === id));
  const [first, end] = [Math.min(...ends), Math.max(...ends)];
  return first < 0 ? [to] : shown.slice(first, end + 1).map((each) => each.id);
}
