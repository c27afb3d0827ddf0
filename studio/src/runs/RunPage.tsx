/** One run: its timeline, live while it goes on. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { api, given } from "../api/client";
import { Json } from "../shell/Json";
import { useMe } from "../shell/me";
import { useTitle } from "../shell/title";
import { duration } from "../time/durations";
import { Deadline, Since } from "../time/Times";
import { StateMark } from "./RunsPage";
import { callOf, hasEnded, type Run } from "./run";
import { type FailedAttempt, type Item, timelineOf } from "./timeline";
import { useJournal } from "./useJournal";

export function RunPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  return <RunOf key={id} id={id} />;
}

function RunOf({ id }: { id: string }) {
  const path = { params: { path: { run_id: id } } };
  const found = useQuery({
    queryKey: ["run", id],
    queryFn: () => given(api.GET("/v1/runs/{run_id}", path)),
  });
  const { entries, isLive } = useJournal(id);
  useTitle(`${id} - Signoff`);
  if (found.isError) return <p className="trouble">{found.error.message}</p>;
  const run = found.data;
  if (run === undefined) return null;
  return (
    <article className="run" aria-labelledby="run-id">
      <h2 id="run-id">{run.id}</h2>
      <p className="facts">
        <StateMark state={run.state} />
        <code>{callOf(run)}</code>
        <span>
          created <Since at={run.created_at} />
          {run.started_by !== undefined && ` by ${run.started_by}`}
        </span>
        <span>group {run.group}</span>
        {run.parent_id !== undefined && (
          <span>
            child of{" "}
            <Link to="/runs/$id" params={{ id: run.parent_id }}>
              {run.parent_id}
            </Link>
          </span>
        )}
        {run.ended_at !== undefined && <span>took {duration(run.ended_at - run.created_at)}</span>}
        {run.ended_at === undefined && run.deadline_at !== undefined && <Deadline at={run.deadline_at} />}
      </p>
      <Controls run={run} />
      <ol className="timeline" aria-label="Timeline" aria-busy={isLive}>
        {timelineOf(entries, run.created_at).map((item) => (
          <TimelineItem key={item.seq} item={item} />
        ))}
      </ol>
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
        </section>
      )}
    </article>
  );
}

function Controls({ run }: { run: Run }) {
  const me = useMe();
  const client = useQueryClient();
  const path = { params: { path: { run_id: run.id } } };
  const done = { onSettled: () => client.invalidateQueries({ queryKey: ["run", run.id] }) };
  const cancel = useMutation({
    mutationFn: () =>
      given(api.POST("/v1/runs/{run_id}/cancel", { ...path, body: { by: `user:${me.user_id}` } })),
    ...done,
  });
  const retry = useMutation({
    mutationFn: () => given(api.POST("/v1/runs/{run_id}/retry", { ...path })),
    ...done,
  });
  const trouble = cancel.error ?? retry.error;
  return (
    <>
      <div className="buttons">
        {!hasEnded(run) && (
          <button
            type="button"
            className="danger"
            disabled={cancel.isPending}
            onClick={() => cancel.mutate()}
          >
            Cancel
          </button>
        )}
        {run.state === "failed" && run.retryable && (
          <button type="button" className="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
            Retry
          </button>
        )}
      </div>
      {trouble !== null && (
        <p className="trouble" role="alert">
          {trouble.message}
        </p>
      )}
    </>
  );
}

function TimelineItem({ item }: { item: Item }) {
  const took = item.endedAt === undefined ? undefined : item.endedAt - item.at;
  return (
    <li className={`item ${item.state}`}>
      <p className="item-head">
        <span className="item-kind">{item.kind}</span>
        <span className="item-name">{item.name}</span>
        {item.state !== "noted" && <StateMark state={item.state} />}
        <span className="item-time">
          {took !== undefined && took >= 1 ? `${duration(took)}, ` : ""}
          <Since at={item.at} />
        </span>
      </p>
      {item.by && (
        <p className="item-more">
          by {item.by}
          {item.note !== undefined && `: ${item.note}`}
        </p>
      )}
      {item.kind === "question" && item.state === "open" && item.id !== undefined && (
        <p className="item-more">
          <Link to="/inbox/$id" params={{ id: item.id }}>
            Waits for an answer
          </Link>
        </p>
      )}
      {item.kind === "child" && item.id !== undefined && (
        <p className="item-more">
          <Link to="/runs/$id" params={{ id: item.id }}>
            {item.id}
          </Link>
        </p>
      )}
      {item.attempts.length > 0 && <Attempts attempts={item.attempts} />}
      {item.error !== undefined && item.kind !== "run" && <Failure error={item.error} />}
      {item.value !== undefined && item.value !== null && item.kind !== "run" && (
        <details>
          <summary>Value</summary>
          <Json value={item.value} />
        </details>
      )}
    </li>
  );
}

function Attempts({ attempts }: { attempts: FailedAttempt[] }) {
  return (
    <details>
      <summary>
        {attempts.length} failed {attempts.length === 1 ? "attempt" : "attempts"}
      </summary>
      {attempts.map((each) => (
        <div key={each.number} className="attempt">
          <p>
            Attempt {each.number}, <Since at={each.at} />
          </p>
          <Failure error={each.error} />
        </div>
      ))}
    </details>
  );
}

interface KeptError {
  type?: string;
  message?: string;
  traceback?: string;
}

function Failure({ error }: { error: unknown }) {
  const { type, message, traceback } = (error ?? {}) as KeptError;
  return (
    <div className="failure">
      <p>
        <b>{type}</b> {message}
      </p>
      {traceback !== undefined && (
        <details>
          <summary>Traceback</summary>
          <pre>{traceback}</pre>
        </details>
      )}
    </div>
  );
}
