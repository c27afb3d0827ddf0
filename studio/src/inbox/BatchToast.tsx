/** The progress of many decisions, with undo and the refused ones. */

import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef } from "react";
import { Since } from "../time/Times";
import { type Batch, dropBatch, type NotTaken, sendBatch, takeBatchBack } from "./batches";
import { UNDO_SECONDS } from "./decisions";
import { counted } from "./question";

export function BatchToast({ batch }: { batch: Batch }) {
  const client = useQueryClient();
  const details = useRef<HTMLDialogElement>(null);
  const { items, state, refused, unsent } = batch;
  const isTrouble = refused.length > 0 || unsent.length > 0;
  return (
    <>
      <div className={`toast batch ${isTrouble && state === "done" ? "refused" : state}`}>
        <span>{saidOf(batch)}</span>
        {state === "waiting" && (
          <button type="button" onClick={() => takeBatchBack(batch)} title={`Within ${UNDO_SECONDS} seconds`}>
            Undo
          </button>
        )}
        {state === "done" && isTrouble && (
          <button type="button" onClick={() => details.current?.showModal()}>
            Show
          </button>
        )}
        {state === "done" && (
          <button type="button" onClick={() => dropBatch(batch.id)}>
            Dismiss
          </button>
        )}
      </div>
      <dialog ref={details} className="bulk" aria-label="Refused answers">
        <h2>{counted(items.length - batch.taken)} not taken</h2>
        {unsent.length > 0 && (
          <>
            <p className="trouble">
              {counted(unsent.length)} could not be sent: {batch.trouble}
            </p>
            <button
              type="button"
              onClick={() => {
                details.current?.close();
                void sendBatch(client, batch.id);
              }}
            >
              Send again
            </button>
          </>
        )}
        <ul className="bulk-list">
          {refused.map((each) => (
            <li key={each.question.id}>
              <Link
                to="/inbox/$id"
                params={{ id: each.question.id }}
                search={(kept) => kept}
                onClick={() => details.current?.close()}
              >
                {each.question.data.text}
              </Link>
              <span>
                <Why {...each} />
              </span>
            </li>
          ))}
        </ul>
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </>
  );
}

function saidOf({ approved, items, state, taken, refused, unsent }: Batch): string {
  const [doing, done] = approved ? ["Approving", "approved"] : ["Rejecting", "rejected"];
  if (state === "waiting") return `${doing} ${counted(items.length)}`;
  if (state === "sending")
    return `${doing}: ${(taken + refused.length).toLocaleString("en")} of ${counted(items.length)} sent`;
  const parts = [`${counted(taken)} ${done}`];
  if (refused.length > 0) parts.push(`${refused.length.toLocaleString("en")} refused`);
  if (unsent.length > 0) parts.push(`${unsent.length.toLocaleString("en")} not sent`);
  return parts.join(", ");
}

function Why({ problem }: NotTaken) {
  const { settled_by, settled_at } = problem as { settled_by?: string; settled_at?: number };
  if (settled_by === undefined) return problem.detail ?? problem.title;
  return (
    <>
      answered by {settled_by} {settled_at !== undefined && <Since at={settled_at} />}
    </>
  );
}
