/** The palette's entries: the pages, the actions of the current page, and the loaded questions and runs. */

import type { InfiniteData, QueryClient } from "@tanstack/react-query";
import type { Question } from "../inbox/question";
import type { QuestionPage } from "../inbox/useInbox";

export interface Command {
  id: string;
  kind: "Action" | "Page" | "Question" | "Run";
  text: string;
  more?: string;
  keys?: string;
  run: () => void;
}

const MOST_FOUND = 50;

/** Each button with a keyboard shortcut. */
export function actionsHere(): Command[] {
  const buttons = document.querySelectorAll<HTMLButtonElement>("button[aria-keyshortcuts]:enabled");
  return [...buttons]
    .filter((each) => each.checkVisibility())
    .map((button, at) => ({
      id: `${at}`,
      kind: "Action",
      text: button.textContent,
      keys: button.getAttribute("aria-keyshortcuts") ?? "",
      run: () => button.click(),
    }));
}

/** Open and settled questions: the run of a settled one may be of interest. */
export function knownQuestions(client: QueryClient): Question[] {
  const known = new Map<string, Question>();
  for (const [, data] of client.getQueriesData<InfiniteData<QuestionPage>>({ queryKey: ["questions"] }))
    for (const page of data?.pages ?? []) for (const each of page.items) known.set(each.id, each);
  // each in its current state
  for (const [, question] of client.getQueriesData<Question>({ queryKey: ["question"] }))
    if (question !== undefined) known.set(question.id, question);
  return [...known.values()];
}

export function knownRuns(client: QueryClient, questions: readonly Question[]): string[] {
  const known = new Set<string>();
  for (const [, data] of client.getQueriesData<InfiniteData<{ items: { id: string }[] }>>({
    queryKey: ["runs"],
  }))
    for (const page of data?.pages ?? []) for (const each of page.items) known.add(each.id);
  for (const { run_id } of questions) if (run_id !== undefined) known.add(run_id);
  return [...known];
}

/** Return the entries that match all words, and the run with that exact id, which may not be loaded. */
export function find(commands: readonly Command[], typed: string, goToRun: (id: string) => void): Command[] {
  const text = typed.trim();
  const words = text.toLowerCase().split(/\s+/);
  const found: Command[] = [];
  for (const each of commands) {
    if (found.length === MOST_FOUND) break;
    const within = `${each.kind} ${each.text} ${each.more ?? ""}`.toLowerCase();
    if (words.every((word) => within.includes(word))) found.push(each);
  }
  if (text === "" || found.some((each) => each.kind === "Run" && each.text === text)) return found;
  return [...found, { id: "run", kind: "Run", text: `Open the run ${text}`, run: () => goToRun(text) }];
}
