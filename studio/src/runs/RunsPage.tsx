/** All runs, newest first. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { api, given } from "../api/client";
import { useTitle } from "../shell/title";
import { Since } from "../time/Times";
import { callOf, type Run, type RunState, STATES } from "./run";

const ROW_PIXELS = 56;
const LOOK_AGAIN_MILLISECONDS = 3_000;

interface Which {
  state?: RunState | undefined;
  workflow?: string | undefined;
}

export function RunsPage() {
  const which = useSearch({ strict: false }) as Which;
  const navigate = useNavigate();
  const runs = useInfiniteQuery({
    queryKey: ["runs", which],
    queryFn: async ({ pageParam }) =>
      given(
        api.GET("/v1/runs", {
          params: {
            query: {
              limit: 200,
              ...(which.state && { state: [which.state] }),
              ...(which.workflow && { workflow: which.workflow }),
              ...(pageParam && { after: pageParam }),
            },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next ?? null,
    refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) > 1 ? false : LOOK_AGAIN_MILLISECONDS),
  });
  const items = runs.data?.pages.flatMap((page) => page.items) ?? [];
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PIXELS,
    overscan: 10,
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = runs;
  useEffect(() => {
    if (items.length > 0 && last >= items.length - 20 && hasNextPage && !isFetchingNextPage)
      void fetchNextPage();
  }, [last, items.length, hasNextPage, isFetchingNextPage, fetchNextPage]);
  useTitle("Runs - Signoff");

  const choose = (next: Which) => void navigate({ to: "/runs", search: next as never });
  return (
    <section className="runs" aria-label="Runs">
      <header className="bar">
        <h1>Runs</h1>
        <label className="filter">
          <span className="unseen">Workflow</span>
          <input
            placeholder="Workflow"
            defaultValue={which.workflow ?? ""}
            onChange={(event) => choose({ ...which, workflow: event.target.value.trim() || undefined })}
          />
        </label>
        <label className="filter">
          <span className="unseen">State</span>
          <select
            value={which.state ?? ""}
            onChange={(event) =>
              choose({ ...which, state: (event.target.value || undefined) as RunState | undefined })
            }
          >
            <option value="">Any state</option>
            {STATES.map((state) => (
              <option key={state}>{state}</option>
            ))}
          </select>
        </label>
      </header>
      {runs.isError && <p className="trouble">{runs.error.message}</p>}
      {runs.isSuccess && items.length === 0 && (
        <div className="empty">
          <h2>No runs</h2>
          <p>
            Start one: <code>signoff start refund --arg &apos;&quot;o-1&quot;&apos;</code>
          </p>
        </div>
      )}
      <div className="list" ref={scroller}>
        <ul aria-label="Runs" style={{ height: rows.getTotalSize() }}>
          {shown.map(({ index, start, key }) => (
            <li key={key} style={{ transform: `translateY(${start}px)`, height: ROW_PIXELS }}>
              <Row run={items[index] as Run} />
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

function Row({ run }: { run: Run }) {
  return (
    <Link to="/runs/$id" params={{ id: run.id }} className="row run-row" preload={false}>
      <StateMark state={run.state} />
      <span className="row-text">{run.id}</span>
      <code className="row-run">{callOf(run)}</code>
      <Since at={run.created_at} />
    </Link>
  );
}

export function StateMark({ state }: { state: string }) {
  return <span className={`state ${state}`}>{state.replaceAll("_", " ")}</span>;
}
