/** One run: its input, its timeline and its result; live while it is active. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { api, given } from "../api/client";
import { FlowGraph } from "../graph/FlowGraph";
import { graphOf } from "../graph/graph";
import { Guarded } from "../shell/Guarded";
import { Json } from "../shell/Json";
import { ChildTree } from "./ChildTree";
import { Failure } from "./Failure";
import { RunActions } from "./RunActions";
import { RunFacts } from "./RunFacts";
import type { Voice } from "./live";
import { argumentsOf, hasEnded, type Run, useRun } from "./run";
import { Talk } from "./Talk";
import { Timeline } from "./Timeline";
import { talkOf } from "./talk";
import { type Entry, isPromised, type Item, settle, timelineOf } from "./timeline";
import { useJournal } from "./useJournal";
import "./runs.css";

const LOOK_AGAIN_MILLISECONDS = 5_000;

export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  return <RunOf key={id} id={id} />;
}

function RunOf({ id }: { id: string }) {
  const found = useRun(id);
  const { entries, voices, isLive } = useJournal(id);
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
      <Details run={found.data} entries={entries} voices={voices} isLive={isLive} />
    </Guarded>
  );
}

interface Looks {
  run: Run;
  entries: readonly Entry[];
  voices: readonly Voice[];
  isLive: boolean;
}

function Details({ run, entries, voices, isLive }: Looks) {
  const items = useSettled(run, timelineOf(entries, run.created_at));
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

/**
 * The journal has what the run has received. Origins are looked up, as are promises that were settled
 * and not yet received, while the run waits.
 */
function useSettled(run: Run, items: Item[]): Item[] {
  const isWaiting = !hasEnded(run) && items.some(({ state, id }) => state === "open" && id !== undefined);
  const settled = items.filter((item) => isPromised(item) && item.endedAt !== undefined).length;
  const promises = useQuery({
    queryKey: ["promises", run.id, settled],
    queryFn: () => given(api.GET("/v1/promises", { params: { query: { run_id: run.id, limit: 1000 } } })),
    enabled: isWaiting || settled > 0,
    placeholderData: keepPreviousData,
    refetchInterval: isWaiting ? LOOK_AGAIN_MILLISECONDS : false,
  });
  return promises.data !== undefined ? settle(items, promises.data.items) : items;
}
