/** What the palette offers: the pages, what the page before it can do, and the questions and runs that were loaded. */

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

/** Each button that says which key it has. */
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

/** Open or not: of those that were settled the run may be looked at. */
export function knownQuestions(client: QueryClient): Question[] {
  const known = new Map<string, Question>();
  for (const [, data] of client.getQueriesData<InfiniteData<QuestionPage>>({ queryKey: ["questions"] }))
    for (const page of data?.pages ?? []) for (const each of page.items) known.set(each.id, each);
  // each as it became since
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

/** Return what has all words, and the run of that very id, which may not have been loaded. */
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
