/** Questions as the API shows them: a promise with the question in `data`. */

import type { Promised } from "../api/client";
import { parseExact, rawNumber } from "../api/exact";
import type { components } from "../api/schema";

export type InputType = "approval" | "text" | "select" | "multiselect" | "form" | "external";

export type Option = components["schemas"]["AskedOption"];

export interface Asked extends Omit<components["schemas"]["Asked"], "input_type" | "metadata"> {
  input_type: InputType;
  metadata: Record<string, unknown>;
}

export interface Vote {
  user_id: string;
  approved: boolean;
  note: string | null;
  at: number;
}

interface Progress {
  votes?: Vote[];
  claimed_by?: string;
  deadline?: number;
}

export interface Question extends Promised {
  data: Asked;
  progress?: Progress;
}

const NOTHING_ASKED: Omit<Asked, "text"> = {
  input_type: "approval",
  answer_schema: {},
  options: [],
  metadata: {},
  skippable: false,
  digest: "",
};

/** A question as shown. An unreadable one says so in place of its content, and stays in the list. */
export function shownQuestion(question: Promised): Question {
  const { unreadable } = question;
  if (unreadable === undefined) return question as Question;
  const why = unreadable.map(({ field, message }) => `${field}: ${message}`).join("; ");
  const shown = { ...question, data: { ...NOTHING_ASKED, text: `Cannot be read (${why})` } };
  delete shown.progress;
  return shown as Question;
}

/** Read a question with exact numbers. A proposal whose numbers a browser can hold becomes plain data, for its form. */
export function questionOf(text: string): Question {
  const read = JSON.parse(text) as Promised;
  const plain = shownQuestion(read);
  if (read.unreadable !== undefined) return plain;
  const exact = parseExact(text) as Question;
  const { action, metadata, proposal } = exact.data;
  const data = { ...plain.data, metadata };
  if (action !== undefined) data.action = action;
  if ("proposal" in data && !isHeld(data.proposal)) data.proposal = proposal;
  return { ...plain, data, ...("value" in plain && { value: exact.value }) };
}

/** Whether a form returns all numbers unchanged. */
export function isHeld(value: unknown): boolean {
  if (typeof value === "number")
    return !Number.isInteger(value) ? Number.isFinite(value) : Number.isSafeInteger(value);
  if (rawNumber(value) !== undefined) return false;
  return typeof value !== "object" || value === null || Object.values(value).every(isHeld);
}

/** Whether one of these names, or any user, may answer. */
export function isFor(question: Question, names: ReadonlySet<string>): boolean {
  return question.assignees.length === 0 || question.assignees.some((each) => names.has(each));
}

export function askedAt(question: Question): number {
  return question.data.policy?.asked_at ?? question.created_at;
}

/** The time when it closes, or is answered by its `timeout_answer`, in unix seconds. */
export function deadlineOf(question: Question): number | undefined {
  const after = question.progress?.deadline ?? question.data.policy?.deadline;
  return after === undefined ? question.due_at : askedAt(question) + after;
}

/** The name that the server compares, with its prefix. */
export function userName(user_id: string): string {
  return user_id.startsWith("user:") ? user_id : `user:${user_id}`;
}

/** Why the user cannot answer an open question, in words; undefined if they can. */
export function hindrance(
  question: Question,
  user_id: string,
  names: ReadonlySet<string>,
): string | undefined {
  const user = userName(user_id);
  if (question.unreadable !== undefined) return "It cannot be read, so it cannot be answered.";
  const claimedBy = question.progress?.claimed_by;
  const isSame = (name: string) => userName(name).toLowerCase() === user.toLowerCase();
  if (question.data.policy?.excluded?.some(isSame)) {
    return "You requested this, so others decide on it.";
  }
  if (!isFor(question, names)) return `This question is assigned to others. You are ${user_id}.`;
  if (claimedBy !== undefined && claimedBy !== user) {
    return `${claimedBy} has claimed this; others can answer when it is released.`;
  }
  const vote = question.progress?.votes?.find((each) => isSame(each.user_id));
  if (vote !== undefined) return `You have voted: ${vote.approved ? "approved" : "rejected"}.`;
  return undefined;
}

/** For example `1 question`, `1,200 questions`. */
export function counted(count: number): string {
  return `${count.toLocaleString("en")} question${count === 1 ? "" : "s"}`;
}
