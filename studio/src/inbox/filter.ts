/** The inbox's filter, stored in the address, so that each filter has its own. */

import type { InputType, Question } from "./question";
import type { View } from "./useInbox";

export const INPUT_TYPES: readonly InputType[] = [
  "approval",
  "text",
  "select",
  "multiselect",
  "form",
  "external",
];

export interface Filter {
  /** Words of the text, the ids or the tool. */
  q?: string;
  run?: string;
  workflow?: string;
  group?: string;
  asked?: string;
  type?: string;
  /** `day`: only questions with a deadline within a day. */
  due?: string;
}

export type Which = Filter & { view?: View };

const NAMES = ["q", "run", "workflow", "group", "asked", "type", "due"] as const;
const DAY_SECONDS = 86_400;

/** Read an address's search. Its values are texts, even if they look like numbers. */
export function filterOf(search: Readonly<Record<string, unknown>>): Filter {
  const filter: Filter = {};
  for (const name of NAMES) {
    const value = search[name];
    if (value !== undefined && value !== null && value !== "") filter[name] = String(value);
  }
  return filter;
}

export function isEmpty(filter: Filter): boolean {
  return Object.keys(filter).length === 0;
}

/** Whether a question matches, except for workflow and group, which only the server knows. */
export function fits(question: Question, filter: Filter, now: number): boolean {
  const { data, run_id, due_at } = question;
  return (
    (filter.q === undefined || hasWords(question, filter.q)) &&
    (filter.run === undefined || has(run_id, filter.run)) &&
    (filter.asked === undefined || isAskedOf(question, filter.asked)) &&
    (filter.type === undefined || data.input_type === filter.type) &&
    (filter.due === undefined || (due_at !== undefined && due_at - now < DAY_SECONDS))
  );
}

function has(text: string | undefined, part: string): boolean {
  return text !== undefined && text.toLowerCase().includes(part.toLowerCase());
}

function hasWords(question: Question, words: string): boolean {
  const text = `${question.data.text}\n${question.id}\n${question.run_id ?? ""}\n${question.data.action?.tool ?? ""}`;
  const within = text.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => within.includes(word));
}

function isAskedOf({ assignees }: Question, name: string): boolean {
  return assignees.length === 0 ? has("anybody", name) : assignees.some((each) => has(each, name));
}
