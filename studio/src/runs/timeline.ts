/** A run's journal as a timeline: one item for each call, with its outcome. The command line shows the same. */

import type { Promised } from "../api/client";
import type { components } from "../api/schema";
import type { Origin } from "../audit/origin";

export type Entry = components["schemas"]["Entry"];

export interface FailedAttempt {
  number: number;
  at: number;
  nextAt: number;
  error: unknown;
}

export type ItemState =
  | "open"
  | "retrying"
  | "succeeded"
  | "failed"
  | "rejected"
  | "timed_out"
  | "cancelled"
  | "noted"
  | "abandoned";

export interface Item {
  seq: number;
  at: number;
  /** A kind of call, `run` or `patch`. */
  kind: string;
  name: string;
  n?: number | undefined;
  state: ItemState;
  /** The promise, question or child run. */
  id?: string | undefined;
  dueAt?: number | undefined;
  endedAt?: number | undefined;
  value?: unknown;
  /** The data that it was opened with. */
  opened?: unknown;
  error?: unknown;
  by?: string | undefined;
  note?: string | undefined;
  /** The origin of a question's or promise's settlement. */
  origin?: Origin | undefined;
  attempts: FailedAttempt[];
  /** The question about a step that may or may not have happened. */
  doubt?: string | undefined;
}

const OF_THE_RUN: Record<string, string> = {
  started: "started",
  continued: "continued as new",
  cancel_requested: "cancel requested",
  deadline_passed: "deadline passed",
  retried: "retried",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
};
const ENDS = new Set(["succeeded", "failed", "cancelled"]);

interface Facts {
  at?: number;
  by?: string;
  reason?: string;
  note?: string;
  id?: string;
  due_at?: number;
  started_at?: number;
  state?: string;
  attempt?: number;
  next_at?: number;
  retryable?: boolean;
}

const NUMBERS = new Set(["at", "due_at", "started_at", "attempt", "next_at"]);
const TEXTS = new Set(["by", "reason", "note", "id", "state"]);

/** An entry's details. Null and wrong types are ignored: a worker has written them. */
function factsOf(entry: Entry): Facts {
  const said = Object.entries((entry.details ?? {}) as object).filter(
    ([name, fact]) =>
      fact !== null &&
      (!NUMBERS.has(name) || typeof fact === "number") &&
      (!TEXTS.has(name) || typeof fact === "string"),
  );
  return Object.fromEntries(said) as Facts;
}

export function timelineOf(entries: readonly Entry[], createdAt: number): Item[] {
  const items: Item[] = [];
  const calls = new Map<number, Item>();
  let before = createdAt;

  const add = (entry: Entry, more: Partial<Item> & Pick<Item, "kind" | "name">): Item => {
    const item: Item = { seq: entry.seq, at: entry.at, state: "noted", attempts: [], ...more };
    items.push(item);
    return item;
  };
  const call = (entry: Entry, at: number): Item => {
    const item = add(entry, { kind: entry.call ?? "step", name: entry.name ?? "", n: entry.n, at });
    if (entry.n !== undefined) calls.set(entry.n, item);
    return item;
  };
  const known = (entry: Entry, facts: Facts): Item =>
    calls.get(entry.n ?? 0) ?? call(entry, facts.started_at ?? before);

  for (const entry of entries) {
    const facts = factsOf(entry);
    const word = OF_THE_RUN[entry.kind];
    if (word !== undefined) {
      if ((ENDS.has(entry.kind) || entry.kind === "continued") && !facts.retryable) abandon(calls);
      const state = ENDS.has(entry.kind) ? (entry.kind as ItemState) : "noted";
      const { value, error } = entry;
      add(entry, { kind: "run", name: word, value, error, by: facts.by, note: facts.reason, state });
    } else if (entry.kind === "signalled") {
      const waiting = [...calls.values()].find(
        (each) => each.kind === "signal" && each.state === "open" && each.name === entry.name,
      );
      const item = waiting ?? add(entry, { kind: "signal", name: entry.name ?? "" });
      Object.assign(item, {
        state: "succeeded",
        value: entry.value,
        endedAt: facts.at ?? entry.at,
        by: facts.by,
      });
    } else if (entry.kind === "patched") {
      add(entry, { kind: "patch", name: entry.name ?? "" });
    } else if (entry.kind === "attempt_failed") {
      const item = known(entry, facts);
      item.state = "retrying";
      const { attempt = item.attempts.length + 1, next_at = entry.at } = facts;
      item.attempts.push({ number: attempt, at: entry.at, nextAt: next_at, error: entry.error });
    } else if (entry.kind === "completed") {
      const item = known(entry, facts);
      item.state = entry.error !== undefined ? "failed" : stateOf(facts.state);
      Object.assign(item, { endedAt: facts.at ?? entry.at, value: entry.value, error: entry.error });
      Object.assign(item, { by: facts.by, note: facts.note });
    } else if (calls.has(entry.n ?? 0)) {
      // An interrupted step: a person is asked whether it happened.
      Object.assign(calls.get(entry.n ?? 0) as Item, { state: "open", doubt: facts.id });
    } else {
      const item = call(entry, entry.at);
      if (entry.kind !== "progressed" && entry.call !== "detached") item.state = "open";
      Object.assign(item, { value: entry.value, opened: entry.value, id: facts.id, dueAt: facts.due_at });
    }
    before = entry.at;
  }
  return items;
}

/** Whether it is a question, or another promise that is settled from outside. */
export function isPromised({ kind }: Item): boolean {
  return kind === "question" || kind === "promise";
}

/**
 * Add the origins of settlements, and the states of promises that the journal still shows as open: their run
 * has not received them yet.
 */
export function settle(items: readonly Item[], promises: readonly Promised[]): Item[] {
  const settled = new Map(promises.filter(({ state }) => state !== "pending").map((each) => [each.id, each]));
  return items.map((item) => {
    const promise = item.id === undefined ? undefined : settled.get(item.id);
    if (promise === undefined) return item;
    const { settled_at, settled_by, note, value } = promise;
    const origin = isPromised(item) ? promise.origin : undefined;
    if (item.state !== "open") return { ...item, origin };
    return {
      ...item,
      origin,
      state: stateOf(promise.state),
      endedAt: settled_at,
      by: settled_by,
      note,
      value,
    };
  });
}

function abandon(calls: Map<number, Item>): void {
  for (const item of calls.values()) {
    if (item.state === "open" || item.state === "retrying") item.state = "abandoned";
  }
}

function stateOf(state: string | undefined): ItemState {
  if (state === undefined || state === "resolved") return "succeeded";
  return state as ItemState;
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
