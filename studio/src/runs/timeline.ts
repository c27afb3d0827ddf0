/** A run's timeline as the server sends it: one item for each call and each event of the run, changed as the run proceeds. */

import type { components } from "../api/schema";
import type { Origin } from "../audit/origin";

export type Change = components["schemas"]["TimelineChange"];

export interface FailedAttempt {
  number: number;
  at: number;
  nextAt: number;
  error: unknown;
}

export interface Item {
  /** The seq of its first entry in the journal. */
  seq: number;
  at: number;
  /** A kind of call, `run` or `patch`. */
  kind: string;
  name: string;
  n?: number | undefined;
  state: string;
  /** The promise, question or child run. */
  id?: string | undefined;
  dueAt?: number | undefined;
  endedAt?: number | undefined;
  /** Its outcome; as long as it has none, what it was opened with. */
  value?: unknown;
  opened?: unknown;
  error?: unknown;
  by?: string | undefined;
  note?: string | undefined;
  /** The origin of the settlement of a question or promise. */
  origin?: Origin | undefined;
  attempts: readonly FailedAttempt[];
  /** The question about a step whose outcome is unknown. */
  doubt?: string | undefined;
}

/** Return an item with a change, or a new item. */
export function changed(item: Item | undefined, change: Change): Item {
  const { row, at = 0, kind = "", name = "", n, id, due_at: dueAt, opened } = change;
  const known = item ?? { seq: row, at, kind, name, n, id, dueAt, opened, attempts: [] };
  const { state, ended_at: endedAt, error, by, note, origin, doubt } = change;
  const isOutcome = "value" in change || endedAt !== undefined;
  const value = isOutcome ? change.value : known.opened;
  const now = { ...known, state, endedAt, value, by, note, origin, doubt };
  if (change.attempt === undefined) return { ...now, error };
  const { attempt: number, attempt_at: failedAt = 0, next_at: nextAt = failedAt } = change;
  return {
    ...now,
    error: undefined,
    attempts: [...known.attempts, { number, at: failedAt, nextAt, error }],
  };
}

/** Whether it is a question, or a promise of another kind that is settled from outside the run. */
export function isPromised({ kind }: Item): boolean {
  return kind === "question" || kind === "promise";
}

/** This many similar items are shown one after the other before the rest is folded. */
const SHOWN_ALIKE = 5;

export interface Part {
  isFolded: boolean;
  items: Item[];
}

/** Fold the middle of many items that differ only in their outcomes, such as the steps of a loop. */
export function foldedParts(items: readonly Item[]): Part[] {
  const parts: Part[] = [];
  for (let begin = 0, end = 0; begin < items.length; begin = end) {
    while (end < items.length && isAlike(items[begin] as Item, items[end] as Item)) end += 1;
    const row = items.slice(begin, Math.max(end, begin + 1));
    end = begin + row.length;
    if (row.length <= 2 * SHOWN_ALIKE) {
      parts.push({ isFolded: false, items: row });
    } else {
      parts.push({ isFolded: false, items: row.slice(0, SHOWN_ALIKE) });
      parts.push({ isFolded: true, items: row.slice(SHOWN_ALIKE, -SHOWN_ALIKE) });
      parts.push({ isFolded: false, items: row.slice(-SHOWN_ALIKE) });
    }
  }
  return parts;
}

function isAlike(first: Item, other: Item): boolean {
  const isPlain = other.state === "succeeded" && other.attempts.length === 0 && other.kind !== "question";
  return (
    isPlain && first.state === "succeeded" && first.attempts.length === 0 && nameOf(first) === nameOf(other)
  );
}

function nameOf({ kind, name }: Item): string {
  return `${kind} ${name}`;
}
