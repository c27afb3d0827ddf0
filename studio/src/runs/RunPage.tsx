/** One run: its input, its timeline and its result; live while it is active. */

import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { FlowGraph } from "../graph/FlowGraph";
import { graphOf } from "../graph/graph";
import { Guarded } from "../shell/Guarded";
import { Json } from "../shell/Json";
import { ChildTree } from "./ChildTree";
import { Failure } from "./Failure";
import { RunActions } from "./RunActions";
import { RunFacts } from "./RunFacts";
import type { Voice } from "./live";
import { argumentsOf, type Run, useRun } from "./run";
import { Talk } from "./Talk";
import { Timeline } from "./Timeline";
import { talkOf } from "./talk";
import type { Item } from "./timeline";
import { useTimeline } from "./useTimeline";
import "./runs.css";

export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  return <RunOf key={id} id={id} />;
}

function RunOf({ id }: { id: string }) {
  const found = useRun(id);
  const { items, voices, isLive } = useTimeline(id);
  const { refetch } = found;
  const isThere = found.data !== undefined;
  useEffect(() => {
    // A response to a request from before the end may arrive after it, with the old state.
    if (!isLive && isThere) void refetch();
  }, [isLive, isThere, refetch]);
  useEffect(() => {
    document.title = `${id} - Signoff`;
  }, [id]);
  if (found.isError) return <p className="trouble">{found.error.message}</p>;
  if (found.data === undefined) return null;
  return (
    <Guarded name={`Run ${id}`}>
      <Details run={found.data} items={items} voices={voices} isLive={isLive} />
    </Guarded>
  );
}

interface Looks {
  run: Run;
  items: readonly Item[];
  voices: readonly Voice[];
  isLive: boolean;
}

function Details({ run, items, voices, isLive }: Looks) {
  const awaited = items.filter(({ kind, state }) => kind === "signal" && state === "open");
  const hasChildren = items.some(({ kind }) => kind === "child");
  const lines = talkOf(items, voices);
  const graph = graphOf(items);
  const { args, kwargs } = argumentsOf(run);
  const isGiven = args.length > 0 || Object.keys(kwargs).length > 0;
  return (
    <article className="run" aria-labelledby="run-id">
      <h2 id="run-id">{run.id}</h2>
      <RunFacts run={run} />
      {run.suspended_at !== undefined && (
        <p role="status">
          Suspended by {run.suspended_by ?? "Signoff"}
          {run.suspended_reason === undefined ? "." : `: ${run.suspended_reason}`}
        </p>
      )}
      <RunActions run={run} awaited={awaited.map(({ name }) => name)} />
      {isGiven && (
        <details className="part">
          <summary>Arguments</summary>
          <Json
            value={
              Object.keys(kwargs).length === 0 ? args : { ...Object.fromEntries(args.entries()), ...kwargs }
            }
          />
        </details>
      )}
      {run.result !== undefined && (
        <section>
          <h3>Result</h3>
          <Json value={run.result} />
        </section>
      )}
      {run.error !== undefined && (
        <section>
          <h3>Error</h3>
          <Guarded name="The error">
            <Failure error={run.error} />
          </Guarded>
          {run.retryable && <p>Everything is kept. Fix the code, then retry it.</p>}
        </section>
      )}
      {lines.length > 0 && (
        <section>
          <h3>Conversation</h3>
          <Guarded name="The conversation">
            <Talk lines={lines} />
          </Guarded>
        </section>
      )}
      {graph !== undefined && (
        <Guarded name="The flow">
          <FlowGraph
            runId={run.id}
            graph={graph}
            items={items}
            voices={voices}
            hasSucceeded={run.state === "succeeded"}
            hasFailed={run.state === "failed"}
          />
        </Guarded>
      )}
      {(items.length > 0 || !isLive) && (
        <section>
          <h3>Timeline</h3>
          <Timeline items={items} isLive={isLive} />
        </section>
      )}
      {hasChildren && (
        <section>
          <h3>Child runs</h3>
          <ChildTree run={run} label="Child runs" />
        </section>
      )}
    </article>
  );
}
