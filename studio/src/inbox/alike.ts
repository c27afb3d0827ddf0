/** A rule that "all like this" makes: as chosen in the form, and as the server takes it. */

import type { components } from "../api/schema";
import type { Question } from "./question";

export type Where = "run" | "session" | "all";

export interface Alike {
  /** Names of arguments that may differ. */
  loose: string[];
  where: Where;
  /** The lifetime; null: until it is revoked, which is only possible for a session. */
  seconds: number | null;
  /** The maximum number of uses, as typed. */
  uses: string;
}

export const LENGTHS: readonly [number, string][] = [
  [900, "15 minutes"],
  [3_600, "1 hour"],
  [28_800, "8 hours"],
  [86_400, "1 day"],
];

/** The strictest rule. */
export function narrowest(question: Question): Alike {
  return { loose: [], where: question.run_id === undefined ? "all" : "run", seconds: 900, uses: "" };
}

/** Whether an approval may make a rule: it has a single approver, who sees the action. */
export function mayBeAlike({ data }: Question): boolean {
  return data.action !== undefined && data.policy?.quorum === undefined;
}

export function argumentsIn({ data }: Question): [string, unknown][] {
  const given = data.action?.arguments;
  return typeof given === "object" && given !== null ? Object.entries(given) : [];
}

export function bodyOf(question: Question, alike: Alike): components["schemas"]["SayAlike"] {
  const names = argumentsIn(question).map(([name]) => name);
  const same = names.filter((each) => !alike.loose.includes(each));
  const isAnything = names.length > 0 && same.length === 0;
  return {
    seconds: alike.seconds,
    same: isAnything || same.length === names.length ? null : same.map(pointerTo),
    any_arguments: isAnything,
    everywhere: alike.where === "all",
    session: alike.where === "session",
    max_uses: alike.uses === "" ? null : Number(alike.uses),
  };
}

function pointerTo(name: string): string {
  return `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The lifetime, in words. */
export function lengthOf({ seconds }: Alike): string {
  if (seconds === null) return "until it is revoked";
  return `for ${LENGTHS.find(([each]) => each === seconds)?.[1] ?? `${seconds} seconds`}`;
}
