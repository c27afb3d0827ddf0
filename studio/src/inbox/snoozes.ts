/** Snoozed questions: stored in this browser, for each server and person. */

import { useMemo, useSyncExternalStore } from "react";
import { keep, subscribe } from "../shell/kept";
import { useOfNow } from "../time/clock";
import { deadlineOf, type Question } from "./question";
import type { View } from "./useInbox";

/** A snooze ends this long before the deadline at the latest. */
export const BEFORE_DEADLINE_SECONDS = 3600;

/** The end of each snooze, in unix seconds, by question. */
type Snoozes = Readonly<Record<string, number>>;

let known: { text: string | null; snoozes: Snoozes } = { text: null, snoozes: {} };

function keyOf(user_id: string): string {
  return `signoff.snoozed ${new URL(document.baseURI).pathname} ${user_id}`;
}

function read(user_id: string): Snoozes {
  const text = localStorage.getItem(keyOf(user_id));
  if (text !== known.text) known = { text, snoozes: text === null ? {} : (JSON.parse(text) as Snoozes) };
  return known.snoozes;
}

/** Snooze a question until a time, in unix seconds; undefined: end the snooze. */
export function snooze(user_id: string, id: string, until: number | undefined): void {
  const now = Date.now() / 1000;
  const asleep = Object.entries(read(user_id)).filter(([each, at]) => each !== id && at > now);
  if (until !== undefined) asleep.push([id, until]);
  keep(keyOf(user_id), JSON.stringify(Object.fromEntries(asleep)));
}

function wakesAt(question: Question, until: number): number {
  const deadline = deadlineOf(question);
  return deadline === undefined ? until : Math.min(until, deadline - BEFORE_DEADLINE_SECONDS);
}

/** The snoozed ones of these questions, with the ends of their snoozes. They come back by themselves. */
export function useAsleep(questions: readonly Question[], user_id: string): ReadonlyMap<string, number> {
  const snoozes = useSyncExternalStore(subscribe, () => read(user_id));
  const found = useMemo(
    () =>
      questions.flatMap((question): [string, number][] => {
        const until = snoozes[question.id];
        return until === undefined ? [] : [[question.id, wakesAt(question, until)]];
      }),
    [questions, snoozes],
  );
  const asleep = useOfNow((now) => JSON.stringify(found.filter(([, at]) => at > now)));
  return useMemo(() => new Map(JSON.parse(asleep) as [string, number][]), [asleep]);
}

/** The questions of a view: all, the snoozed ones, or the others. */
export function useInView(questions: Question[], view: View, user_id: string): Question[] {
  const asleep = useAsleep(questions, user_id);
  return useMemo(
    () =>
      view === "all" ? questions : questions.filter(({ id }) => asleep.has(id) === (view === "snoozed")),
    [questions, view, asleep],
  );
}

export interface Later {
  name: string;
  at: number;
}

/** The available durations: those that end before the deadline. */
export function laterThan(now: number, question: Question): Later[] {
  const all: Later[] = [
    { name: "For 1 hour", at: now + 3600 },
    { name: "Until tomorrow, 9:00", at: atNine(now, 1) },
    { name: "Until Monday, 9:00", at: atNine(now, (8 - new Date(now * 1000).getDay()) % 7 || 7) },
  ];
  return all.filter(({ at }) => wakesAt(question, at) > now);
}

/** 9:00 local time, this many days from now. */
function atNine(now: number, days: number): number {
  const date = new Date(now * 1000);
  date.setDate(date.getDate() + days);
  date.setHours(9, 0, 0, 0);
  return date.getTime() / 1000;
}
