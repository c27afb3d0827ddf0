/** The state of each chunk so far, from the journal. */

import type { Voice } from "../runs/live";
import type { Item } from "../runs/timeline";

/** The index of an item in its list, and the list's length; the outermost list first. */
export type Chain = readonly (readonly [index: number, count: number])[];

export interface Facts {
  /** How often it finished. */
  done: number;
  /** How often it started the chunk after it: not where an answer became an event. */
  passed: number;
  running: number;
  retrying: number;
  failed: number;
  /** How often it was started and will never finish. */
  cancelled: number;
  failedAttempts: number;
  /** The questions that it waits for. */
  waiting: readonly string[];
  /** Whether one of them asks whether an interrupted attempt happened. */
  isInDoubt: boolean;
  emitted: readonly string[];
  written: readonly string[];
  /** The items that it was started for. */
  chains: readonly Chain[];
}

type Gathered = {
  -readonly [Name in keyof Facts]: Facts[Name] extends readonly (infer T)[] ? T[] : Facts[Name];
};

export type State = "failed" | "waiting" | "retrying" | "running" | "cancelled" | "done" | "none";

const NOTHING: Facts = {
  done: 0,
  passed: 0,
  running: 0,
  retrying: 0,
  failed: 0,
  cancelled: 0,
  failedAttempts: 0,
  waiting: [],
  isInDoubt: false,
  emitted: [],
  written: [],
  chains: [],
};

/** A chunk's journaled result, written by `signoff.flows.chunks`. */
interface Left {
  signoff_chunk: number;
  events: [string, unknown][];
  writes: [string, string, unknown][];
  pause: { resume_to: unknown } | null;
  items?: Chain;
}

interface Interrupt {
  chunk?: string;
  resume_to?: unknown;
}

const ANSWERED = new Set(["succeeded", "timed_out"]);

/** Return the number of events emitted from outside, and the states of the chunks, by place. */
export function factsOf(items: readonly Item[], voices: readonly Voice[], hasFailed: boolean): Happened {
  const gathering = new Gathering(new Set(voices.map(({ n }) => n)), hasFailed);
  for (const item of items) gathering.add(item);
  for (const { name } of voices) gathering.of(name).running += 1;
  return new Happened(gathering.places, gathering.emitted);
}

export class Happened {
  constructor(
    private readonly places: ReadonlyMap<string, Facts>,
    private readonly emitted: ReadonlyMap<string, number>,
  ) {}

  at(place: string): Facts {
    return this.places.get(place) ?? NOTHING;
  }

  /** The number of times that an event came from outside. */
  came(event: string): number {
    return this.emitted.get(event) ?? 0;
  }

  /** Whether every line has reached its end. */
  get isWhole(): boolean {
    return [...this.places.values()].every(({ done, passed, cancelled, failed }) => {
      return done === passed && cancelled + failed === 0;
    });
  }
}

class Gathering {
  readonly places = new Map<string, Gathered>();
  readonly emitted = new Map<string, number>();
  private readonly again = new Map<string, number>();

  constructor(
    private readonly speaking: ReadonlySet<number>,
    private readonly hasFailed: boolean,
  ) {}

  of(place: string): Gathered {
    let facts = this.places.get(place);
    if (facts === undefined) {
      facts = { ...NOTHING, waiting: [], emitted: [], written: [], chains: [] };
      this.places.set(place, facts);
    }
    return facts;
  }

  add(item: Item): void {
    if (item.kind === "step") this.step(item);
    else if (item.kind === "question") this.question(item);
    else if (item.kind === "signal" && item.name === "signoff.flow") this.signal(item.value);
  }

  private step({ name, n, state, value, attempts, doubt }: Item): void {
    const facts = this.of(name);
    facts.failedAttempts += attempts.length + (state === "failed" ? 1 : 0);
    // Chunks with live output are running.
    const isRunning = n !== undefined && this.speaking.has(n);
    if (isRunning && (state === "open" || state === "retrying")) return;
    if (state === "succeeded") this.ended(name, value);
    // A failed execution keeps its failed step open, for an operator to retry.
    else if (state === "failed" || (state === "retrying" && this.hasFailed)) facts.failed += 1;
    else if (state === "retrying") facts.retrying += 1;
    else if (state === "abandoned" || state === "cancelled") facts.cancelled += 1;
    else if (doubt !== undefined) {
      facts.waiting.push(doubt);
      facts.isInDoubt = true;
    } else facts.running += 1;
  }

  private ended(place: string, value: unknown): void {
    const facts = this.of(place);
    const left = value as Partial<Left> | null;
    if (left?.signoff_chunk === undefined) {
      facts.done += 1;
      facts.passed += 1;
      return;
    }
    const { events, writes, pause } = left as Left;
    const items = listOf(left.items) as Chain;
    facts.emitted.push(...listOf(events).map(([event]) => event));
    facts.written.push(...listOf(writes).map(([, key]) => key));
    const moment = JSON.stringify([place, items]);
    const resumes = this.again.get(moment) ?? 0;
    if (resumes === 0) facts.chains.push(items);
    const more = pause?.resume_to === "self" ? 1 : 0;
    this.again.set(moment, Math.max(resumes - 1, 0) + more);
    if (pause === null) {
      facts.done += 1;
      facts.passed += 1;
    }
  }

  private question({ state, id, opened, error }: Item): void {
    const { metadata } = (opened ?? {}) as { metadata?: Record<string, Interrupt> };
    const { chunk, resume_to } = metadata?.["signoff.interrupt"] ?? {};
    if (chunk === undefined) return;
    const facts = this.of(chunk);
    if (state === "open") facts.waiting.push(id ?? "");
    else if (!ANSWERED.has(state) || error !== undefined) facts.cancelled += 1;
    else if (resume_to !== "self") {
      const { event } = (resume_to ?? {}) as { event?: string };
      facts.done += 1;
      if (event === undefined) facts.passed += 1;
      else facts.emitted.push(event);
    }
  }

  private signal(value: unknown): void {
    const { emit } = (value ?? {}) as { emit?: unknown };
    if (typeof emit === "string") this.emitted.set(emit, (this.emitted.get(emit) ?? 0) + 1);
  }
}

/** A masked value is not a list. */
function listOf<T>(value: readonly T[] | undefined): readonly T[] {
  return Array.isArray(value) ? (value as readonly T[]) : [];
}

/** How often a chunk was started, at least. */
export function begunOf(facts: Facts): number {
  const { done, running, retrying, failed, cancelled, waiting } = facts;
  return done + running + retrying + failed + cancelled + waiting.length;
}

export function stateOf(facts: Facts): State {
  if (facts.failed > 0) return "failed";
  if (facts.waiting.length > 0) return "waiting";
  if (facts.retrying > 0) return "retrying";
  if (facts.running > 0) return "running";
  if (facts.cancelled > 0) return "cancelled";
  return facts.done > 0 ? "done" : "none";
}

/** A chunk's state in words; `waitWords` names the people it waits for. */
export function words(facts: Facts): string[] {
  const { done, running, retrying, failed, cancelled, failedAttempts } = facts;
  const said = [
    failed > 0 && counted("failed", failed),
    retrying > 0 && counted("retrying", retrying),
    failedAttempts > failed && `${failedAttempts} failed ${failedAttempts === 1 ? "attempt" : "attempts"}`,
    running > 0 && (running === 1 ? "running" : `${running} running`),
    done > 0 && counted("done", done),
    cancelled > 0 && counted("cancelled", cancelled),
  ].filter((each) => each !== false);
  return said.length === 0 && facts.waiting.length === 0 ? ["not begun"] : said;
}

export function waitWords({ waiting, isInDoubt }: Facts): string {
  if (waiting.length > 1) return `${waiting.length} wait for people`;
  return isInDoubt ? "interrupted: did it happen?" : "waits for a person";
}

function counted(word: string, times: number): string {
  return times === 1 ? word : `${word} ${times} times`;
}
