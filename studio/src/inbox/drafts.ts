/** Unsent input, by question. It survives navigation, other people's answers and reloads. */

import { useSyncExternalStore } from "react";
import { Listeners } from "../shell/listeners";
import type { Alike } from "./alike";

export interface Draft {
  value?: unknown;
  note?: string;
  comment?: string;
  /** The rule to approve others with it. */
  alike?: Alike | undefined;
}

const EMPTY: Draft = {};
const PREFIX = "signoff.draft.";
const drafts = new Map<string, Draft>();
const listeners = new Listeners();

function read(id: string): Draft {
  const known = drafts.get(id);
  if (known !== undefined) return known;
  const kept = sessionStorage.getItem(PREFIX + id);
  const draft = kept === null ? EMPTY : (JSON.parse(kept) as Draft);
  drafts.set(id, draft);
  return draft;
}

function keep(id: string, draft: Draft): void {
  drafts.set(id, draft);
  const text = JSON.stringify(draft);
  if (text === "{}") sessionStorage.removeItem(PREFIX + id);
  else sessionStorage.setItem(PREFIX + id, text);
  listeners.tell();
}

export function write(id: string, draft: Draft): void {
  keep(id, { ...read(id), ...draft });
}

/** Discard the input of the answer, but not that of the comment. */
export function forgetAnswer(id: string): void {
  const { comment } = read(id);
  keep(id, comment === undefined ? EMPTY : { comment });
}

/** Whether the user has begun an answer, or an edit of the proposal. */
export function hasEdits(id: string): boolean {
  return read(id).value !== undefined;
}

export function useDraft(id: string): Draft {
  return useSyncExternalStore(listeners.subscribe, () => read(id));
}
