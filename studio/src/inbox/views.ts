/** Saved views: stored in this browser. */

import { useSyncExternalStore } from "react";
import { keep, subscribe } from "../shell/kept";
import { filterOf, type Which } from "./filter";

export interface SavedView {
  name: string;
  which: Which;
}

const KEY = "signoff.views";
let kept: { text: string | null; views: readonly SavedView[] } = { text: null, views: [] };

function views(): readonly SavedView[] {
  const text = localStorage.getItem(KEY);
  if (text !== kept.text) kept = { text, views: read(text) };
  return kept.views;
}

function read(text: string | null): SavedView[] {
  try {
    const items = JSON.parse(text ?? "[]") as unknown;
    return Array.isArray(items) ? items.filter(isView) : [];
  } catch {
    return [];
  }
}

function isView(item: unknown): item is SavedView {
  const view = item as Partial<SavedView> | null;
  return typeof view?.name === "string" && typeof view.which === "object" && view.which !== null;
}

function write(next: readonly SavedView[]): void {
  keep(KEY, JSON.stringify(next));
}

/** Save a view under a name, which may replace its old name. */
export function saveView(name: string, which: Which): void {
  const others = views().filter((each) => each.name !== name);
  write([...others, { name, which }]);
}

export function renameView(from: string, to: string): void {
  const others = views().filter((each) => each.name !== to || each.name === from);
  write(others.map((each) => (each.name === from ? { ...each, name: to } : each)));
}

export function removeView(name: string): void {
  write(views().filter((each) => each.name !== name));
}

export function isSame(one: Which, other: Which): boolean {
  const text = (which: Which) =>
    JSON.stringify([which.view ?? "mine", Object.entries(filterOf({ ...which })).sort()]);
  return text(one) === text(other);
}

export function useViews(): readonly SavedView[] {
  return useSyncExternalStore(subscribe, views);
}
