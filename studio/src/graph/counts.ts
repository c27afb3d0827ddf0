/**
 * How often an execution passed each place of its graph, at least. Conditions leave no journal entries, so a taken
 * branch is known only by the chunks after it.
 */

import { begunOf, type Happened } from "./facts";
import {
  type Batch,
  type Branch,
  type Choice,
  type ForEach,
  type Graph,
  type Line,
  type Op,
  operationsOf,
  type Source,
} from "./graph";

export interface Items {
  total: number | undefined;
  done: number | undefined;
}

export class Counts {
  /** The number of starts of a line. */
  readonly entered = new Map<Line, number>();
  /** How often the code after an operation was started by it. */
  readonly left = new Map<Op, number>();
  readonly items = new Map<ForEach, Items>();

  /** Whether a started line always reaches its end, so that the chunks after it account for all starts. */
  private readonly isWhole: boolean;

  constructor(
    graph: Graph,
    private readonly happened: Happened,
    hasSucceeded: boolean,
  ) {
    this.isWhole = happened.isWhole;
    this.graph(graph, "", hasSucceeded && this.isWhole ? 1 : 0);
  }

  /** The number of events from a source of a flow. */
  came({ kind, name }: Source, path: string, graph: Graph): number {
    const begun = graph.roots.filter(({ begins }) =>
      begins.some((each) => each.kind === kind && each.name === name),
    );
    const least = Math.max(
      0,
      ...begun
        .filter(({ begins, mode }) => begins.length === 1 || mode === "and")
        .map(({ then }) => this.entered.get(then) ?? 0),
    );
    if (kind === "start") return least;
    if (kind === "chunk") return this.happened.at(path + name).passed;
    const outside = kind === "event" && path === "" ? this.happened.came(name) : 0;
    const inside = graph.roots
      .flatMap(({ then }) => operationsOf(then))
      .filter((op) => op.kind === "chunk")
      .map((op) => this.happened.at(path + op.id))
      .flatMap(({ emitted, written }) => (kind === "event" ? emitted : written))
      .filter((each) => each === name);
    return Math.max(least, outside + inside.length);
  }

  private graph({ roots }: Graph, path: string, starts: number): number {
    const begun = roots.map(({ begins, then }) => {
      const isStart = begins.some(({ kind }) => kind === "start");
      return isStart ? this.line(then, path, 0, starts) : (this.line(then, path, 0, 0), 0);
    });
    return Math.max(0, ...begun);
  }

  /** Count the contents of a line that was left at least this often. */
  private line(line: Line, path: string, depth: number, left: number): number {
    let after = left;
    for (const op of line.toReversed()) {
      for (const side of op.sides) after = Math.max(after, this.line(side, path, depth, 0));
      after = Math.max(after, this.operation(op, path, depth, after));
    }
    this.entered.set(line, Math.max(after, this.entered.get(line) ?? 0));
    return after;
  }

  private operation(op: Op, path: string, depth: number, after: number): number {
    switch (op.kind) {
      case "chunk": {
        const facts = this.happened.at(path + op.id);
        this.left.set(op, facts.passed);
        return begunOf(facts);
      }
      case "choice":
        return this.choice(op, path, depth, after);
      case "batch":
        return this.batch(op, path, depth, after);
      case "for each":
        return this.forEach(op, path, depth, after);
      case "collect": {
        const then = this.line(op.then, path, depth, 0);
        this.left.set(op, then);
        return then;
      }
      case "flow": {
        const begun = this.graph(op.graph, `${path}${op.id}/`, this.isWhole ? after : 0);
        const [first] = op.graph.roots.filter(({ begins }) => begins.some(({ kind }) => kind === "start"));
        const last = first?.then.at(-1);
        this.left.set(op, Math.max(after, last === undefined ? 0 : (this.left.get(last) ?? 0)));
        return begun;
      }
    }
  }

  private choice(op: Choice, path: string, depth: number, after: number): number {
    const empty = op.branches.filter(({ line }) => line.length === 0);
    let entered = 0;
    let left = 0;
    for (const { line } of op.branches) {
      if (line.length === 0) continue;
      const begun = this.line(line, path, depth, 0);
      entered += begun;
      left += this.passed(line, begun);
    }
    const skipped = Math.max(0, after - left);
    // Among several branches without chunks, the taken one is unknown.
    const [only] = empty;
    if (only !== undefined && empty.length === 1) this.entered.set(only.line, skipped);
    this.left.set(op, Math.max(after, left));
    return entered + skipped;
  }

  private batch(op: Batch, path: string, depth: number, after: number): number {
    const begun = op.branches.map(({ line }) => this.line(line, path, depth, 0));
    this.left.set(op, Math.max(after, this.joined(op.branches)));
    return Math.max(0, ...begun);
  }

  private joined(branches: readonly Branch[]): number {
    const lines = branches.map(({ line }) => line).filter(({ length }) => length > 0);
    return lines.length === 0 ? 0 : Math.min(...lines.map((line) => this.passed(line, 0)));
  }

  private forEach(op: ForEach, path: string, depth: number, after: number): number {
    const total = this.total(op, path, depth) ?? (after > 0 && op.each[0]?.kind === "chunk" ? 0 : undefined);
    const begun = this.line(op.each, path, depth + 1, this.isWhole && after > 0 ? (total ?? 0) : 0);
    const last = op.each.at(-1);
    const ended =
      last?.kind === "chunk" ? this.happened.at(path + last.id).done : last && this.left.get(last);
    const done =
      after > 0 ? total : total === undefined || ended === undefined ? ended : Math.min(ended, total);
    this.items.set(op, { total, done });
    this.left.set(op, Math.max(after, total !== undefined && done === total ? 1 : 0));
    return begun > 0 ? 1 : 0;
  }

  /** The number of items, according to the chunks that were started for them. */
  private total(op: ForEach, path: string, depth: number): number | undefined {
    const places = operationsOf(op.each).filter((each) => each.kind === "chunk");
    const chains = places.map(({ id }) =>
      this.happened.at(path + id).chains.filter((chain) => chain.length > depth),
    );
    const firsts = chains.map((each) =>
      each
        .filter((chain) => chain.slice(depth).every(([index]) => index === 0))
        .reduce((sum, chain) => sum + (chain[depth]?.[1] ?? 0), 0),
    );
    const counts = [...firsts, ...chains.flat().map((chain) => chain[depth]?.[1] ?? 0)];
    return counts.length === 0 ? undefined : Math.max(...counts) || undefined;
  }

  /** How often a line was left; the given number if that is unknown. */
  private passed(line: Line, otherwise: number): number {
    const last = line.at(-1);
    return last === undefined ? otherwise : (this.left.get(last) ?? otherwise);
  }
}
