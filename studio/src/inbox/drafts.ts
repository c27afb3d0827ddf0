/** What people have typed and not sent, by question: it outlives other views, other people's answers and reloads. */

import { useSyncExternalStore } from "react";

export interface Draft {
  value?: unknown;
  note?: string;
}

const EMPTY: Draft = {};
const PREFIX = "signoff.draft.";
const drafts = new Map<string, Draft>();
const listeners = new Set<() => void>();

function read(id: string): Draft {
  const known = drafts.get(id);
  if (known !== undefined) return known;
  const kept = sessionStorage.getItem(PREFIX + id);
  const draft = kept === null ? EMPTY : (JSON.parse(kept) as Draft);
  drafts.set(id, draft);
  return draft;
}

export function write(id: string, draft: Draft): void {
  const next = { ...read(id), ...draft };
  drafts.set(id, next);
  sessionStorage.setItem(PREFIX + id, JSON.stringify(next));
  for (const each of listeners) each();
}

export function forget(id: string): void {
  drafts.set(id, EMPTY);
  sessionStorage.removeItem(PREFIX + id);
  for (const each of listeners) each();
}

/** Whether an answer, or an edit of what is proposed, was begun. */
export function hasEdits(id: string): boolean {
  return read(id).value !== undefined;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useDraft(id: string): Draft {
  return useSyncExternalStore(subscribe, () => read(id));
}
