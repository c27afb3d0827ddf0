/** One run: what it was given, what it did, what came of it; live while it goes on. */

import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { api, given } from "../api/client";
import { Json } from "../shell/Json";
import { ChildTree } from "./ChildTree";
import { Failure } from "./Failure";
import { RunActions } from "./RunActions";
import { RunFacts } from "./RunFacts";
import { argumentsOf, hasEnded, type Run, useRun } from "./run";
import { Timeline } from "./Timeline";
import { type Entry, type Item, settle, timelineOf } from "./timeline";
import { useJournal } from "./useJournal";
import "./runs.css";

const LOOK_AGAIN_MILLISECONDS = 5_000;

export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  return <RunOf key={id} id={id} />;
}

function RunOf({ id }: { id: string }) {
  const found = useRun(id);
  const { entries, isLive } = useJournal(id);
  useEffect(() => {
    document.title = `${id} - Signoff`;
  }, [id]);
  if (found.isError) return <p className="trouble">{found.error.message}</p>;
  if (found.data === undefined) return null;
  return <Told run={found.data} entries={entries} isLive={isLive} />;
}

function Told({ run, entries, isLive }: { run: Run; entries: readonly Entry[]; isLive: boolean }) {
  const items = useSettled(run, timelineOf(entries, run.created_at));
  const awaited = items.filter(({ kind, state }) => kind === "signal" && state === "open");
  const hasChildren = items.some(({ kind }) => kind === "child");
  const { args, kwargs } = argumentsOf(run);
  const isGiven = args.length > 0 || Object.keys(kwargs).length > 0;
  return (
    <article className="run" aria-labelledby="run-id">
      <h2 id="run-id">{run.id}</h2>
      <RunFacts run={run} />
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
          <Failure error={run.error} />
          {run.retryable && <p>Everything is kept. Mend the code, then retry it.</p>}
        </section>
      )}
      <section>
        <h3>Timeline</h3>
        <Timeline items={items} isLive={isLive} />
      </section>
      {hasChildren && (
        <section>
          <h3>Child runs</h3>
          <ChildTree run={run} label="Child runs" />
        </section>
      )}
    </article>
  );
}

/** The journal tells what a run was told; what was settled and not yet told is looked up as long as it waits. */
function useSettled(run: Run, items: Item[]): Item[] {
  const isWaiting = !hasEnded(run) && items.some(({ state, id }) => state === "open" && id !== undefined);
  const promises = useQuery({
    queryKey: ["promises", run.id],
    queryFn: () => given(api.GET("/v1/promises", { params: { query: { run_id: run.id, limit: 1000 } } })),
    enabled: isWaiting,
    refetchInterval: isWaiting ? LOOK_AGAIN_MILLISECONDS : false,
  });
  return isWaiting && promises.data !== undefined ? settle(items, promises.data.items) : items;
}
