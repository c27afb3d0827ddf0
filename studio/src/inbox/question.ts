/** Questions as the API shows them: a promise whose `data` says what is asked. */

import type { Promised } from "../api/client";

export type InputType = "approval" | "text" | "select" | "multiselect" | "form" | "external";

export interface Option {
  value: string;
  label?: string;
  help?: string;
}

export interface Asked {
  text: string;
  input_type: InputType;
  answer_schema: Record<string, unknown>;
  options: Option[];
  metadata: Record<string, unknown>;
  skippable: boolean;
  digest: string;
  help?: string;
  default?: unknown;
  other?: string;
  proposal?: unknown;
  action?: { tool: string; arguments: unknown };
  attachments?: { name: string; url: string; media_type?: string }[];
  policy?: { asked_at?: number; quorum?: number };
}

export interface Question extends Promised {
  data: Asked;
}

/** Whether one of these names, or anybody, may answer. */
export function isFor(question: Question, names: ReadonlySet<string>): boolean {
  return question.assignees.length === 0 || question.assignees.some((each) => names.has(each));
}

export function askedAt(question: Question): number {
  return question.data.policy?.asked_at ?? question.created_at;
}

/** Such as `1 question`, `1,200 questions`. */
export function counted(count: number): string {
  return `${count.toLocaleString("en")} question${count === 1 ? "" : "s"}`;
}
