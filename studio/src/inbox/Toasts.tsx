/** Decisions that are about to be sent, each with an undo, and those that were refused. */

import { Link } from "@tanstack/react-router";
import { useKeys } from "../shell/keys";
import { BatchToast } from "./BatchToast";
import { takeBatchBack, useBatches } from "./batches";
import { type Decision, drop, putBack, UNDO_SECONDS, useDecisions } from "./decisions";

export function Toasts() {
  const decisions = useDecisions();
  const batches = useBatches();
  const last = decisions.findLast((each) => each.state === "waiting");
  const lastBatch = batches.findLast((each) => each.state === "waiting");
  const takeLastBack = () => {
    if (lastBatch !== undefined && lastBatch.at > (last?.at ?? 0)) takeBatchBack(lastBatch);
    else if (last !== undefined) takeBack(last);
  };
  useKeys({ u: takeLastBack });
  return (
    <div className="toasts" role="status" aria-live="polite">
      {decisions.map((each) => (
        <p key={each.question.id} className={`toast ${each.state}`}>
          <span>
            {each.state === "refused" ? "Refused" : each.said}: {each.question.data.text}
          </span>
          {each.state === "waiting" && (
            <button type="button" onClick={() => takeBack(each)} title={`Within ${UNDO_SECONDS} seconds`}>
              Undo
            </button>
          )}
          {each.state === "refused" && (
            <>
              <Link to="/inbox/$id" params={{ id: each.question.id }}>
                Look
              </Link>
              <button type="button" onClick={() => drop(each.question.id)}>
                Dismiss
              </button>
            </>
          )}
        </p>
      ))}
      {batches.map((each) => (
        <BatchToast key={each.id} batch={each} />
      ))}
    </div>
  );
}

/** Undo a decision, and restore its input in the form. */
function takeBack(decision: Decision): void {
  drop(decision.question.id);
  putBack(decision);
}
