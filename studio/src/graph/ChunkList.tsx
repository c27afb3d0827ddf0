/** A graph as a list, for screen readers and for text search. */

import { Fragment, type ReactNode } from "react";
import { visible } from "../shell/visible";
import type { Counts } from "./counts";
import { itemWords } from "./drawing";
import { type Happened, stateOf, words } from "./facts";
import type { Branch, Graph, Line, Op, Source } from "./graph";
import { sourceLabel } from "./graph";
import { Waiting } from "./Waiting";

interface Looks {
  graph: Graph;
  happened: Happened;
  counts: Counts;
  runId: string;
}

export function ChunkList(looks: Looks) {
  return (
    <ul className="chunks" aria-label={`Chunks of ${looks.graph.name}`}>
      <Roots {...looks} path="" />
    </ul>
  );
}

interface Within extends Looks {
  path: string;
}

function Roots(within: Within) {
  const { graph, counts } = within;
  return graph.roots.map(({ begins, mode, then }, index) => (
    <li key={index}>
      {begins.map((source, number) => (
        <Fragment key={number}>
          {number > 0 && (mode === "and" ? " and " : " or ")}
          <Begun source={source} within={within} />
        </Fragment>
      ))}
      {!isBegun(begins, within) && counts.entered.get(then) === 0 && <Fact>not begun</Fact>}
      <Lines lines={[then]} within={within} />
    </li>
  ));
}

function isBegun(begins: readonly Source[], { counts, path, graph }: Within): boolean {
  return begins.some((source) => counts.came(source, path, graph) > 0);
}

function Begun({ source, within }: { source: Source; within: Within }) {
  const came = within.counts.came(source, within.path, within.graph);
  return (
    <>
      <b>{visible(sourceLabel(source))}</b>
      {source.kind !== "start" && came > 0 && <Fact>{came === 1 ? "came" : `came ${came} times`}</Fact>}
    </>
  );
}

function Lines({ lines, within }: { lines: readonly Line[]; within: Within }) {
  const ops = lines.flat();
  if (ops.length === 0) return null;
  return (
    <ul>
      {ops.map((op, index) => (
        <li key={index}>
          <Operation op={op} within={within} />
          {op.sides.map((side, number) => (
            <Fragment key={number}>
              {side.length > 0 && <span className="beside">concurrently with the next</span>}
              <Lines lines={[side]} within={within} />
            </Fragment>
          ))}
        </li>
      ))}
    </ul>
  );
}

function Operation({ op, within }: { op: Op; within: Within }) {
  const { counts, happened, path, runId } = within;
  switch (op.kind) {
    case "chunk": {
      const facts = happened.at(path + op.id);
      return (
        <>
          <b>{visible(op.id)}</b>:{" "}
          <span className={`fact ${stateOf(facts)}`}>
            <Waiting facts={facts} runId={runId} />
            {facts.waiting.length > 0 && words(facts).length > 0 && ", "}
            {words(facts).join(", ")}
          </span>
        </>
      );
    }
    case "choice":
    case "batch":
      return (
        <>
          {visible(op.label)}
          <Branches branches={op.branches} taken={op.kind === "choice" ? "taken" : "begun"} within={within} />
        </>
      );
    case "for each": {
      const items = counts.items.get(op);
      const said = items && itemWords(items);
      return (
        <>
          for each
          {said !== undefined && <Fact>{said}</Fact>}
          <Lines lines={[op.each]} within={within} />
        </>
      );
    }
    case "collect":
      return (
        <>
          collect {visible(op.name)} as {visible(op.branch)}
          <Lines lines={[op.then]} within={within} />
        </>
      );
    case "flow":
      return (
        <>
          flow <b>{visible(op.id)}</b>
          <ul>
            <Roots {...within} graph={op.graph} path={`${path}${op.id}/`} />
          </ul>
        </>
      );
  }
}

interface BranchesProps {
  branches: readonly Branch[];
  taken: string;
  within: Within;
}

function Branches({ branches, taken, within }: BranchesProps) {
  return (
    <ul>
      {branches.map(({ label, line }, index) => {
        const times = within.counts.entered.get(line) ?? 0;
        return (
          <li key={index}>
            {visible(label)}
            {times > 0 && <Fact>{times === 1 ? taken : `${taken} ${times} times`}</Fact>}
            <Lines lines={[line]} within={within} />
          </li>
        );
      })}
    </ul>
  );
}

function Fact({ children }: { children: ReactNode }) {
  return (
    <>
      : <span className="fact">{children}</span>
    </>
  );
}
