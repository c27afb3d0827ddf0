/** A graph with its progress, as positioned nodes and arrows. */

import type { Counts, Items } from "./counts";
import { type Facts, type Happened, stateOf } from "./facts";
import {
  type Chunk,
  type Collect,
  type ForEach,
  type Graph,
  type Line,
  type Op,
  operationsOf,
  type Root,
  type Source,
  sourceLabel,
} from "./graph";
import { type Box, EMPTY, type End, row, stack } from "./layout";

export interface DrawnNode {
  id: string;
  kind: "chunk" | "choice" | "source" | "label" | "join" | "group";
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
  depth: number;
  facts?: Facts | undefined;
  note?: string | undefined;
  isReached: boolean;
}

export interface DrawnEdge {
  id: string;
  from: string;
  to: string;
  label?: string | undefined;
  isTaken: boolean;
  /** For an event that leads to the start of another line: where the arrow passes beside that line. */
  via?: number | undefined;
}

export interface Drawn {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  width: number;
  height: number;
  /** The chunks that wait, run or have failed. */
  live: string[];
}

const CHUNK = { width: 220, height: 70 };
const SMALL = { width: 150, height: 34 };
const PADDING = 18;
const TITLE = 40;
const ASIDE = 14;

export function drawn(graph: Graph, happened: Happened, counts: Counts): Drawn {
  return new Drawing(happened, counts).all(graph);
}

/** The progress of a list. */
export function itemWords({ total, done }: Items): string | undefined {
  if (total === undefined) return undefined;
  if (total === 0) return "no items";
  const items = total === 1 ? "1 item" : `${total} items`;
  return done === undefined ? items : `${items}, ${done} done`;
}

/** An inner flow of the execution, or its own flow. */
interface Scope {
  graph: Graph;
  path: string;
  depth: number;
}

/** The horizontal extent of a line. */
interface Column {
  left: number;
  right: number;
}

class Drawing {
  private readonly nodes: DrawnNode[] = [];
  private readonly edges: DrawnEdge[] = [];
  private readonly sources: { source: Source; path: string; node: DrawnNode; column: Column }[] = [];
  private readonly chunks: { op: Chunk; path: string; node: DrawnNode }[] = [];
  private readonly collections = new Map<string, string>();
  private readonly collected: { key: string; op: Collect; begins: readonly End[] }[] = [];

  constructor(
    private readonly happened: Happened,
    private readonly counts: Counts,
  ) {}

  all(graph: Graph): Drawn {
    const box = this.graph({ graph, path: "", depth: 0 });
    box.draw(0, 0, []);
    for (const { key, op, begins } of this.collected) {
      const node = this.collections.get(key);
      if (node !== undefined) this.link(begins, node, op.branch);
    }
    this.events();
    const live = this.nodes
      .filter(({ facts }) => facts !== undefined && !["done", "none", "cancelled"].includes(stateOf(facts)))
      .map(({ id }) => id);
    return { nodes: this.nodes, edges: this.edges, width: box.width, height: box.height, live };
  }

  private graph(scope: Scope): Box {
    const starts = scope.graph.roots.filter(isStart);
    const others = scope.graph.roots.filter((root) => !isStart(root));
    const [first] = starts;
    const boxes = others.map((root) => this.root(root, scope));
    if (first === undefined) return row(boxes);
    const lines = row(
      starts.map(({ then }) => this.line(then, scope)),
      undefined,
      (index) => index === 0,
    );
    const begin = this.source({ kind: "start", name: "" }, scope);
    return row([stack([begin, lines]), ...boxes], (index, begins) => (index === 0 ? begins : []));
  }

  private root({ begins, mode, then }: Root, scope: Scope): Box {
    const column: Column = { left: 0, right: 0 };
    const sources = row(begins.map((source) => this.source(source, scope, column)));
    const entered = this.counts.entered.get(then) ?? 0;
    const join =
      mode === "and" && begins.length > 1 ? [this.small("join", "all of them", entered, scope)] : [];
    const box = stack([sources, ...join, this.line(then, scope)]);
    return {
      ...box,
      draw(x, y, ends) {
        Object.assign(column, { left: x, right: x + box.width });
        return box.draw(x, y, ends);
      },
    };
  }

  private source(source: Source, scope: Scope, column?: Column): Box {
    const { path } = scope;
    const came = this.counts.came(source, path, scope.graph);
    return this.small("source", sourceLabel(source), came, scope, (node) => {
      if (column !== undefined) this.sources.push({ source, path, node, column });
    });
  }

  private small(
    kind: DrawnNode["kind"],
    label: string,
    count: number,
    { depth }: Scope,
    onDrawn?: (node: DrawnNode) => void,
  ): Box {
    const width = Math.min(CHUNK.width, Math.max(70, 34 + 7 * label.length));
    const height = SMALL.height;
    return this.node({ kind, label, width, height, depth, isReached: count > 0 }, count, onDrawn);
  }

  private node(
    what: Omit<DrawnNode, "id" | "x" | "y">,
    count: number,
    onDrawn?: (node: DrawnNode) => void,
  ): Box {
    return {
      width: what.width,
      height: what.height,
      draw: (x, y, begins) => {
        const node = { ...what, id: `n${this.nodes.length}`, x, y };
        this.nodes.push(node);
        this.link(begins, node.id);
        onDrawn?.(node);
        return [{ from: node.id, count }];
      },
    };
  }

  private link(begins: readonly End[], to: string, name?: string): void {
    for (const { from, label, count } of begins) {
      this.edges.push({
        id: `e${this.edges.length}`,
        from,
        to,
        label: label ?? name,
        isTaken: count > 0,
      });
    }
  }

  private line(line: Line, scope: Scope): Box {
    const [op, ...rest] = line;
    if (op === undefined) return EMPTY;
    const after = this.line(rest, scope);
    if (op.sides.length === 0) return stack([this.operation(op, scope), after]);
    const sides = op.sides.map((side) => this.line(side, scope));
    return stack([this.operation(op, scope), row([after, ...sides], undefined, (index) => index === 0)]);
  }

  private operation(op: Op, scope: Scope): Box {
    switch (op.kind) {
      case "chunk":
        return this.chunk(op, scope);
      case "choice": {
        const begun = op.branches.reduce((sum, { line }) => sum + (this.counts.entered.get(line) ?? 0), 0);
        const branches = row(
          op.branches.map(({ line }) => this.line(line, scope)),
          (index, begins) =>
            begins.map(({ from }) => ({
              from,
              label: op.branches[index]?.label,
              count: this.counts.entered.get(op.branches[index]?.line ?? []) ?? 0,
            })),
        );
        return stack([this.small("choice", op.label, begun, scope), branches]);
      }
      case "batch": {
        const within = { ...scope, depth: scope.depth + 1 };
        const lines = op.branches.map(({ label, line }) => {
          const count = this.counts.entered.get(line) ?? 0;
          return stack([this.small("label", label, count, within), this.line(line, within)]);
        });
        return this.group(op, op.label, undefined, row(lines), scope);
      }
      case "for each":
        return this.forEach(op, scope);
      case "collect":
        return this.collect(op, scope);
      case "flow": {
        const { graph, id } = op;
        const inner = this.graph({ graph, path: `${scope.path}${id}/`, depth: scope.depth + 1 });
        return this.group(op, `flow ${id}`, undefined, inner, scope);
      }
    }
  }

  private chunk(op: Chunk, { path, depth }: Scope): Box {
    const facts = this.happened.at(path + op.id);
    const chunk = { kind: "chunk" as const, label: op.id, ...CHUNK, depth, facts, isReached: false };
    return this.node(chunk, facts.passed, (node) => this.chunks.push({ op, path, node }));
  }

  private forEach(op: ForEach, scope: Scope): Box {
    const items = this.counts.items.get(op);
    const inner = this.line(op.each, { ...scope, depth: scope.depth + 1 });
    return this.group(op, "for each", items && itemWords(items), inner, scope);
  }

  /** A frame around its contents; the next element follows the frame. */
  private group(op: Op, label: string, note: string | undefined, inner: Box, { depth }: Scope): Box {
    const width = Math.max(inner.width, SMALL.width) + 2 * PADDING;
    const height = inner.height + TITLE + PADDING;
    const frame = { kind: "group" as const, label, note, width, height, depth, isReached: false };
    const box = this.node(frame, this.counts.left.get(op) ?? 0);
    return {
      width,
      height,
      draw(x, y, begins) {
        const ends = box.draw(x, y, begins);
        inner.draw(x + (width - inner.width) / 2, y + TITLE, []);
        return ends;
      },
    };
  }

  /** One node for everything collected under a name, at the place where the line continues. */
  private collect(op: Collect, scope: Scope): Box {
    const key = JSON.stringify([scope.path, op.name]);
    const all = scope.graph.roots
      .flatMap(({ then }) => operationsOf(then))
      .filter((each) => each.kind === "collect" && each.name === op.name);
    const owner = all.find((each) => each.kind === "collect" && each.then.length > 0) ?? all[0];
    const arrive = (begins: readonly End[]): void => void this.collected.push({ key, op, begins });
    const nothing: Box = { ...EMPTY, draw: (_x, _y, begins) => (arrive(begins), []) };
    if (owner !== op) return nothing;
    const count = this.counts.left.get(op) ?? 0;
    const join = this.small("join", `collect ${op.name}`, count, scope);
    const after = stack([
      {
        ...join,
        draw: (x, y, begins) => {
          arrive(begins);
          const ends = join.draw(x, y, []);
          this.collections.set(key, ends[0]?.from ?? "");
          return ends;
        },
      },
      this.line(op.then, scope),
    ]);
    return { ...after, draw: (x, y, begins) => (after.draw(x, y, begins), []) };
  }

  /** Arrows to the sources of lines, from the chunks that emitted, wrote or are them. */
  private events(): void {
    for (const { op, path, node } of this.chunks) {
      const { emitted, written, passed } = this.happened.at(path + op.id);
      for (const { source, column, ...place } of this.sources) {
        if (place.path !== path) continue;
        const { kind, name } = source;
        const isMeant = kind === "chunk" ? name === op.id : kind === "event" && op.chunk === `emit ${name}`;
        const isTaken =
          kind === "chunk" ? isMeant && passed > 0 : (kind === "event" ? emitted : written).includes(name);
        if (!isMeant && !isTaken) continue;
        const via = column.left > node.x ? column.left - ASIDE : column.right + ASIDE;
        const [from, to] = [node.id, place.node.id];
        this.edges.push({ id: `e${this.edges.length}`, from, to, isTaken, via });
      }
    }
  }
}

function isStart({ begins }: Root): boolean {
  return begins.length === 1 && begins[0]?.kind === "start";
}
