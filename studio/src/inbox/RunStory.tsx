/** What the run that asks has done so far, in short; folded until somebody wants to know. */

import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Item, timelineOf } from "../runs/timeline";
import { useJournal } from "../runs/useJournal";
import { Since } from "../time/Times";

export function RunStory({ runId }: { runId: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="story" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The run so far</summary>
      {isOpen && <Story runId={runId} />}
    </details>
  );
}

function Story({ runId }: { runId: string }) {
  const { entries } = useJournal(runId);
  const items = timelineOf(entries, entries[0]?.at ?? 0);
  return (
    <>
      <ol className="timeline" aria-label="The run so far">
        {items.map((item) => (
          <li key={item.seq} className={`item ${item.state}`}>
            <p className="item-head">
              <span className="item-kind">{item.kind}</span>
              <span className="item-name">{item.name}</span>
              {item.state !== "noted" && (
                <span className={`state ${item.state}`}>{item.state.replace("_", " ")}</span>
              )}
              <span className="item-time">
                <Since at={item.at} />
              </span>
            </p>
            {told(item) !== "" && <p className="item-more">{told(item)}</p>}
          </li>
        ))}
      </ol>
      <Link to="/runs/$id" params={{ id: runId }}>
        The whole run
      </Link>
    </>
  );
}

function told({ by, note, attempts, error }: Item): string {
  const message = (error as { message?: string } | undefined)?.message;
  const failures =
    attempts.length === 0
      ? ""
      : `${attempts.length} failed ${attempts.length === 1 ? "attempt" : "attempts"}`;
  const who = by ? `by ${by}${note ? `: ${note}` : ""}` : "";
  return [who, failures, message ?? ""].filter((each) => each !== "").join("; ");
}
