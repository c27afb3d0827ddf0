/** Decisions of this page. Each can be undone for five seconds, then it is sent once. */

import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { api, given, type Promised, type Refused } from "../api/client";
import { freshId } from "../api/freshId";
import { type Alike, bodyOf } from "./alike";
import { write } from "./drafts";
import type { Question } from "./question";
import { settle } from "./settled";
import { Listeners } from "../shell/listeners";

export const UNDO_SECONDS = 5;

export interface Decision {
  question: Question;
  value: unknown;
  note: string | undefined;
  /** The rule to approve others with it. */
  alike?: Alike | undefined;
  user_id: string;
  groups: string[];
  /** The toast's text, such as "Approved". */
  said: string;
  /** Identifies it to the server, however often it is sent. */
  request_id: string;
  at: number;
  state: "waiting" | "sending" | "refused";
  refusal?: Refused | Error;
}

let decisions: readonly Decision[] = [];
const timers = new Map<string, number>();
const listeners = new Listeners();

function change(next: readonly Decision[]): void {
  decisions = next;
  listeners.tell();
}

function update(id: string, more: Partial<Decision>): void {
  change(decisions.map((each) => (each.question.id === id ? { ...each, ...more } : each)));
}

export function drop(id: string): void {
  window.clearTimeout(timers.get(id));
  timers.delete(id);
  change(decisions.filter((each) => each.question.id !== id));
}

/** Decide. The answer is sent unless it is undone within five seconds. */
export function decide(client: QueryClient, decision: Omit<Decision, "state" | "request_id" | "at">): void {
  drop(decision.question.id);
  change([...decisions, { ...decision, request_id: freshId(), at: performance.now(), state: "waiting" }]);
  timers.set(
    decision.question.id,
    window.setTimeout(() => send(client, decision.question.id), UNDO_SECONDS * 1000),
  );
}

/** Restore a decision's input in its form. */
export function putBack({ question, value, note, alike }: Decision): void {
  const typed =
    question.data.input_type === "approval" ? (value as { edited?: unknown } | null)?.edited : value;
  write(question.id, {
    ...(typed != null && { value: typed }),
    ...(note !== undefined && { note }),
    ...(alike !== undefined && { alike }),
  });
}

async function send(client: QueryClient, id: string): Promise<void> {
  const decision = decisions.find((each) => each.question.id === id);
  if (decision === undefined || decision.state !== "waiting") return;
  timers.delete(id);
  update(id, { state: "sending" });
  try {
    const settled = await post(decision);
    client.setQueryData(["question", id], settled);
    if (settled.state !== "pending") settle([id]);
    drop(id);
  } catch (error) {
    putBack(decision);
    update(id, { state: "refused", refusal: error as Error });
    client.invalidateQueries({ queryKey: ["question", id] });
  }
}

function post(decision: Decision, keepalive = false): Promise<Promised> {
  const { question, value, note, alike, user_id, groups } = decision;
  return given(
    api.POST("/v1/questions/{question_id}/answer", {
      params: { path: { question_id: question.id }, header: { "Idempotency-Key": decision.request_id } },
      body: {
        value,
        user_id,
        groups,
        roles: [],
        digest: question.data.digest,
        ...(note && { note }),
        ...(alike && { alike: bodyOf(question, alike) }),
      },
      keepalive,
    }),
  );
}

/** Send waiting decisions when the page is left, without asking the user to stay. */
window.addEventListener("pagehide", () => {
  for (const each of decisions) {
    if (each.state === "waiting") void post(each, true).catch(() => undefined);
  }
});

export function useDecisions(): readonly Decision[] {
  return useSyncExternalStore(listeners.subscribe, () => decisions);
}
