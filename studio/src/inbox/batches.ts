/** Decisions about many questions at once. They wait five seconds like a single one, and are sent in parts. */

import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { api, given, type Problem } from "../api/client";
import { freshId } from "../api/freshId";
import { UNDO_SECONDS } from "./decisions";
import { write } from "./drafts";
import type { Question } from "./question";
import { settle } from "./settled";
import { Listeners } from "../shell/listeners";

/** The key of the reason's draft. */
export const REASON = "selected questions";
/** The most answers that the server takes at once. */
const PART = 100;
/** How long success is shown. */
const READ_MILLISECONDS = 10_000;
/** The most that a browser still sends for a page that is left. */
const KEPT_ALIVE_BYTES = 60_000;

interface Item {
  question: Question;
  /** Identifies the answer to the server, however often it is sent. */
  request_id: string;
}

export interface NotTaken {
  question: Question;
  problem: Problem;
}

export interface Batch {
  id: string;
  at: number;
  approved: boolean;
  note: string | undefined;
  user_id: string;
  groups: string[];
  items: readonly Item[];
  state: "waiting" | "sending" | "done";
  taken: number;
  refused: readonly NotTaken[];
  /** The answers that could not be sent, and why: they may be sent again. */
  unsent: readonly Item[];
  trouble?: string;
}

interface Result {
  question_id: string;
  question?: Question;
  problem?: Problem;
}

type Said = Pick<Batch, "approved" | "note" | "user_id" | "groups">;

let batches: readonly Batch[] = [];
const timers = new Map<string, number>();
const listeners = new Listeners();

function change(next: readonly Batch[]): void {
  batches = next;
  listeners.tell();
}

function update(id: string, more: Partial<Batch>): void {
  change(batches.map((each) => (each.id === id ? { ...each, ...more } : each)));
}

export function dropBatch(id: string): void {
  window.clearTimeout(timers.get(id));
  timers.delete(id);
  change(batches.filter((each) => each.id !== id));
}

/** Undo all of it, and restore the typed reason. */
export function takeBatchBack({ id, note }: Batch): void {
  dropBatch(id);
  if (note !== undefined) write(REASON, { note });
}

/** Decide all of these; they are sent unless they are undone within five seconds. */
export function decideAll(client: QueryClient, questions: readonly Question[], said: Said): void {
  const id = freshId();
  const items = questions.map((question) => ({ question, request_id: freshId() }));
  const batch: Batch = {
    ...said,
    id,
    items,
    at: performance.now(),
    state: "waiting",
    taken: 0,
    refused: [],
    unsent: [],
  };
  change([...batches, batch]);
  timers.set(
    id,
    window.setTimeout(() => sendBatch(client, id), UNDO_SECONDS * 1000),
  );
}

/** Send the unsent answers. */
export async function sendBatch(client: QueryClient, id: string): Promise<void> {
  const batch = batches.find((each) => each.id === id);
  if (batch === undefined || batch.state === "sending") return;
  timers.delete(id);
  const items = batch.state === "waiting" ? batch.items : batch.unsent;
  update(id, { state: "sending", unsent: [] });
  let { taken } = batch;
  const refused = [...batch.refused];
  const unsent: Item[] = [];
  let trouble: string | undefined;
  for (const part of partsOf(items)) {
    if (trouble !== undefined) {
      unsent.push(...part);
      continue;
    }
    try {
      const results = await post(batch, part);
      settle(results.flatMap(({ question }) => (isSettled(question) ? [question.id] : [])));
      results.forEach(({ question, problem }, at) => {
        const item = part[at] as Item;
        if (question !== undefined) {
          taken += 1;
          client.setQueryData(["question", question.id], question);
        } else if (problem !== undefined && problem.status >= 500) {
          unsent.push(item);
          trouble = problem.detail ?? problem.title;
        } else if (problem !== undefined) {
          refused.push({ question: item.question, problem });
          client.invalidateQueries({ queryKey: ["question", item.question.id] });
        }
      });
    } catch (error) {
      unsent.push(...part);
      trouble = (error as Error).message;
    }
    update(id, { taken, refused: [...refused] });
  }
  update(id, { state: "done", unsent, ...(trouble !== undefined && { trouble }) });
  if (refused.length + unsent.length === 0) window.setTimeout(() => dropBatch(id), READ_MILLISECONDS);
}

function isSettled(question: Question | undefined): question is Question {
  return question !== undefined && question.state !== "pending";
}

function* partsOf(items: readonly Item[]): Generator<readonly Item[]> {
  for (let at = 0; at < items.length; at += PART) yield items.slice(at, at + PART);
}

async function post(said: Said, part: readonly Item[], keepalive = false): Promise<Result[]> {
  const { items } = await given(api.POST("/v1/questions/answers", { body: bodyOf(said, part), keepalive }));
  return items as unknown as Result[];
}

function bodyOf({ approved, note, user_id, groups }: Said, part: readonly Item[]) {
  const answers = part.map(({ question, request_id }) => ({
    question_id: question.id,
    value: { approved },
    request_id,
    digest: question.data.digest,
    ...(note !== undefined && { note }),
  }));
  return { answers, user_id, groups, roles: [] };
}

/** Send waiting answers when the page is left, as for a single decision. */
window.addEventListener("pagehide", () => {
  for (const each of batches) {
    if (each.state !== "waiting") continue;
    for (const part of partsOf(each.items)) void post(each, part, true).catch(() => undefined);
  }
});

/** Ask the user to stay if there is more to send than a browser sends for a page that is left. */
window.addEventListener("beforeunload", (event) => {
  const waiting = batches.filter((each) => each.state === "waiting");
  const bytes = waiting.reduce((sum, each) => sum + JSON.stringify(bodyOf(each, each.items)).length, 0);
  if (bytes > KEPT_ALIVE_BYTES || batches.some((each) => each.state === "sending")) event.preventDefault();
});

export function useBatches(): readonly Batch[] {
  return useSyncExternalStore(listeners.subscribe, () => batches);
}
