/** Which questions can be decided together, and why the others cannot. */

import type { Me } from "../shell/me";
import { hasEdits } from "./drafts";
import { type InputType, isFor, type Question } from "./question";

const ASKS_FOR: Readonly<Record<InputType, string>> = {
  approval: "a decision",
  text: "a text",
  select: "a choice",
  multiselect: "choices",
  form: "a form",
  external: "another program's answer",
};

interface Progress {
  claimed_by?: string;
  votes?: { user_id: string }[];
}

export interface Group<T> {
  name: string;
  items: T[];
}

export interface Plan {
  questions: Question[];
  /** The others, by the reason why they are not decided. */
  others: Group<Question>[];
}

export function planFor(questions: readonly Question[], me: Me, isApproval: boolean): Plan {
  const hindered = questions.map((each) => [each, hindrance(each, me, isApproval)] as const);
  return {
    questions: hindered.filter(([, why]) => why === undefined).map(([each]) => each),
    others: grouped(
      hindered.filter(([, why]) => why !== undefined),
      ([, why]) => why ?? "",
    ).map(({ name, items }) => ({ name, items: items.map(([each]) => each) })),
  };
}

export function grouped<T>(items: readonly T[], nameOf: (item: T) => string): Group<T>[] {
  const groups = new Map<string, T[]>();
  for (const each of items) {
    const name = nameOf(each);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [each]);
    else group.push(each);
  }
  return [...groups].map(([name, members]) => ({ name, items: members }));
}

function hindrance(question: Question, me: Me, isApproval: boolean): string | undefined {
  const { data } = question;
  const self = `user:${me.user_id}`;
  const { claimed_by, votes = [] } = (question.progress ?? {}) as Progress;
  const { excluded = [] } = (data.policy ?? {}) as { excluded?: string[] };
  if (question.state !== "pending") return "settled meanwhile";
  if (data.input_type !== "approval") return `asks for ${ASKS_FOR[data.input_type]}, so it is answered alone`;
  if (excluded.includes(self)) return "you may not answer it";
  if (!isFor(question, me.names)) return "assigned to others";
  if (claimed_by !== undefined && bare(claimed_by) !== me.user_id) return `claimed by ${bare(claimed_by)}`;
  if (votes.some((each) => bare(each.user_id) === me.user_id)) return "you have voted on it";
  if (isApproval && hasEdits(question.id)) return "you have edited its proposal, so it is decided alone";
  return undefined;
}

function bare(name: string): string {
  return name.replace(/^user:/, "");
}
