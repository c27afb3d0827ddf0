/** A flow's graph as of the start of its execution; the journal has it as the value of a step. */

import type { Item } from "../runs/timeline";

export type Line = readonly Op[];

export interface Branch {
  label: string;
  line: Line;
}

interface Operation {
  /** Lines that begin beside the next element. */
  sides: readonly Line[];
}

export interface Chunk extends Operation {
  kind: "chunk";
  id: string;
  chunk: string;
}

/** Of an `if`, or of a `match` that stops at its first hit, one branch is taken. */
export interface Choice extends Operation {
  kind: "choice";
  label: string;
  branches: readonly Branch[];
}

/** Concurrent branches whose results are joined. */
export interface Batch extends Operation {
  kind: "batch";
  label: string;
  branches: readonly Branch[];
}

export interface ForEach extends Operation {
  kind: "for each";
  each: Line;
}

export interface Collect extends Operation {
  kind: "collect";
  name: string;
  branch: string;
  then: Line;
}

export interface Within extends Operation {
  kind: "flow";
  id: string;
  graph: Graph;
}

export type Op = Chunk | Choice | Batch | ForEach | Collect | Within;

export interface Source {
  kind: "start" | "event" | "state" | "chunk";
  name: string;
}

export interface Root {
  begins: readonly Source[];
  mode: "and" | "or";
  then: Line;
}

export interface Graph {
  name: string;
  roots: readonly Root[];
}

const STEP = ":graph";

/** Return the graph that a run follows; undefined if it is not an execution of a flow. */
export function graphOf(items: readonly Item[]): Graph | undefined {
  const found = items.findLast(({ kind, name, value }) => kind === "step" && isGraph(name, value));
  return found === undefined ? undefined : known(found.value as StoredGraph);
}

function isGraph(step: string, value: unknown): boolean {
  const { name, roots, format } = (value ?? {}) as Partial<StoredGraph>;
  return typeof name === "string" && step === name + STEP && Array.isArray(roots) && format === 1;
}

const read = new WeakMap<StoredGraph, Graph | undefined>();

/** Read each graph once. An altered one, for example with a masked part, does not count. */
function known(stored: StoredGraph): Graph | undefined {
  if (!read.has(stored)) {
    try {
      read.set(stored, graphFrom(stored));
    } catch {
      read.set(stored, undefined);
    }
  }
  return read.get(stored);
}

// As `signoff.flows.graph` writes it

interface StoredGraph {
  name: string;
  roots: { begins: Source[]; mode: "and" | "or"; then: StoredOp[] }[];
  format: number;
}

type StoredOp = { sides: StoredOp[][] } & (
  | { op: "chunk"; id: string; chunk: string }
  | { op: "if"; cases: { when: string; then: StoredOp[] }[]; otherwise: StoredOp[] | null }
  | {
      op: "match";
      hits: "first" | "all";
      subject: string | null;
      cases: { value: unknown; when: string | null; then: StoredOp[] }[];
      default: StoredOp[] | null;
    }
  | { op: "batch"; branches: Record<string, StoredOp[]> }
  | { op: "for_each"; each: StoredOp[] }
  | { op: "collect"; name: string; branch: string; then: StoredOp[] }
  | { op: "flow"; flow: string; id?: string; graph: StoredGraph | null }
);

function graphFrom({ name, roots }: StoredGraph): Graph {
  return { name, roots: roots.map(({ begins, mode, then }) => ({ begins, mode, then: lineFrom(then) })) };
}

function lineFrom(line: readonly StoredOp[]): Line {
  return line.map(opFrom);
}

function opFrom(stored: StoredOp): Op {
  const sides = stored.sides.map(lineFrom);
  switch (stored.op) {
    case "chunk":
      return { kind: "chunk", id: stored.id || stored.chunk, chunk: stored.chunk, sides };
    case "if": {
      const branches = stored.cases.map(({ when, then }) => ({ label: when, line: lineFrom(then) }));
      const otherwise = { label: "else", line: lineFrom(stored.otherwise ?? []) };
      return { kind: "choice", label: "if", branches: [...branches, otherwise], sides };
    }
    case "match": {
      const cases = stored.cases.map(({ when, value, then }) => ({
        label: when ?? JSON.stringify(value),
        line: lineFrom(then),
      }));
      const branches = [...cases, { label: "default", line: lineFrom(stored.default ?? []) }];
      const label = stored.subject === null ? "match" : `match ${stored.subject}`;
      if (stored.hits === "first") return { kind: "choice", label, branches, sides };
      return { kind: "batch", label: `${label}, all matches`, branches, sides };
    }
    case "batch": {
      const branches = Object.entries(stored.branches).map(([label, line]) => ({
        label,
        line: lineFrom(line),
      }));
      return { kind: "batch", label: "batch", branches, sides };
    }
    case "for_each":
      return { kind: "for each", each: lineFrom(stored.each), sides };
    case "collect":
      return {
        kind: "collect",
        name: stored.name,
        branch: stored.branch,
        then: lineFrom(stored.then),
        sides,
      };
    case "flow": {
      const graph = stored.graph === null ? { name: stored.flow, roots: [] } : graphFrom(stored.graph);
      return { kind: "flow", id: stored.id || stored.flow, graph, sides };
    }
    default:
      throw new TypeError("not an operation of a graph");
  }
}

/** The sources of a line, in words. */
export function sourceLabel({ kind, name }: Source): string {
  if (kind === "start") return "start";
  return kind === "chunk" ? `after ${name}` : `${kind} ${name}`;
}

/** Return all lines of a graph, also nested ones, without those of inner flows. */
export function linesOf(graph: Graph): Line[] {
  return graph.roots.flatMap(({ then }) => linesFrom(then));
}

function linesFrom(line: Line): Line[] {
  return [line, ...line.flatMap((op) => [...linesIn(op), ...op.sides].flatMap(linesFrom))];
}

function linesIn(op: Op): readonly Line[] {
  switch (op.kind) {
    case "choice":
    case "batch":
      return op.branches.map(({ line }) => line);
    case "for each":
      return [op.each];
    case "collect":
      return [op.then];
    default:
      return [];
  }
}

/** Return the operations of a line and of its nested lines, without those of inner flows. */
export function operationsOf(line: Line): Op[] {
  return linesFrom(line).flat();
}
