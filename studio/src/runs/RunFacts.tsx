/** A run's facts in a line or two. */

import { Link } from "@tanstack/react-router";
import { visible } from "../shell/visible";
import { useOfNow } from "../time/clock";
import { duration } from "../time/durations";
import { Deadline, Since } from "../time/Times";
import { awaitsTurn, callOf, type Run } from "./run";
import { StateMark } from "./StateMark";

export function RunFacts({ run }: { run: Run }) {
  return (
    <p className="facts">
      <StateMark state={run.state} />
      <code className="call">{visible(callOf(run))}</code>
      <span>
        created <Since at={run.created_at} />
        {run.started_by !== undefined && ` by ${run.started_by}`}
      </span>
      {run.ended_at !== undefined && <span>took {tookOf(run.created_at, run.ended_at)}</span>}
      {run.ended_at === undefined && run.deadline_at !== undefined && <Deadline at={run.deadline_at} />}
      <Link to="/runs" search={{ group: run.group } as never}>
        group {run.group}
      </Link>
      {run.session_id !== undefined && (
        <Link to="/runs" search={{ session: run.session_id } as never}>
          {run.position} of session {run.session_id}
        </Link>
      )}
      {awaitsTurn(run) && <span>awaits its turn</span>}
      {run.state === "paused" && run.epoch === 0 && run.start_at !== undefined && (
        <Starts at={run.start_at} />
      )}
      {run.priority !== 0 && <span>priority {run.priority}</span>}
      {run.concurrency_key !== undefined && (
        <span>
          at most {run.concurrency_limit} at once of {run.concurrency_key}
        </span>
      )}
      {run.state === "running" && run.worker_id !== undefined && <span>on worker {run.worker_id}</span>}
      {run.parent_id !== undefined && (
        <span>
          child of{" "}
          <Link to="/runs/$id" params={{ id: run.parent_id }}>
            {run.parent_id}
          </Link>
        </span>
      )}
    </p>
  );
}

function tookOf(begin: number, end: number): string {
  return end - begin < 1 ? "less than a second" : duration(end - begin);
}

function Starts({ at }: { at: number }) {
  const text = useOfNow((now) => (at > now ? `starts in ${duration(at - now)}` : "is about to start"));
  return <span title={new Date(at * 1000).toLocaleString()}>{text}</span>;
}
