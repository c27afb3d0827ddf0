/** One promise: what it calls, how it is settled, and the calls below it. */

import { Link, useParams } from "@tanstack/react-router";
import { Trouble } from "../lists/Trouble";
import { PlainPage } from "../lists/PlainPage";
import { StateMark } from "../runs/StateMark";
import { Guarded } from "../shell/Guarded";
import { Json } from "../shell/Json";
import { visible } from "../shell/visible";
import { Since, Until } from "../time/Times";
import { CallTree, Where } from "./CallTree";
import { FORMS, type Promised, usePromise } from "./promise";
import { Settle } from "./Settle";
import "./promises.css";

export function PromisePage() {
  const { id } = useParams({ strict: false }) as { id: string };
  return <PromiseOf key={id} id={id} />;
}

function PromiseOf({ id }: { id: string }) {
  const { data: promise, error } = usePromise(id);
  return (
    <PlainPage title={visible(id)}>
      <Trouble error={error} />
      {promise !== undefined && (
        <Guarded name={`Promise ${id}`}>
          <Facts promise={promise} />
          <div className="buttons">
            <Settle promise={promise} list="promise" />
          </div>
          <Payloads promise={promise} />
          {promise.has_calls && (
            <section aria-label="Calls">
              <h2>Calls</h2>
              <CallTree id={id} isSettled={promise.state !== "pending"} />
            </section>
          )}
        </Guarded>
      )}
    </PlainPage>
  );
}

function Facts({ promise }: { promise: Promised }) {
  return (
    <p className="facts">
      <Link to="/promises">All promises</Link>
      <StateMark state={promise.state} />
      {promise.form && <span>{FORMS[promise.form]}</span>}
      <Where promise={promise} />
      {promise.parent_id !== undefined && (
        <span>
          called by{" "}
          <Link to="/promises/$id" params={{ id: promise.parent_id }}>
            {visible(promise.parent_id)}
          </Link>
        </span>
      )}
      {promise.run_id !== undefined && (
        <span>
          awaited by run{" "}
          <Link to="/runs/$id" params={{ id: promise.run_id }}>
            {visible(promise.run_id)}
          </Link>
        </span>
      )}
      <Task promise={promise} />
      <span>
        created <Since at={promise.created_at} />
      </span>
      {promise.state === "pending" && promise.due_at !== undefined && (
        <span>
          deadline <Until at={promise.due_at} />
        </span>
      )}
      {promise.settled_at !== undefined && (
        <span>
          settled <Since at={promise.settled_at} />
          {promise.settled_by !== undefined && ` by ${promise.settled_by}`}
          {promise.note !== undefined && `: ${promise.note}`}
        </span>
      )}
    </p>
  );
}

/** The state of its task, in words. */
export function Task({ promise: { task, pid, target } }: { promise: Promised }) {
  if (task === undefined || target === undefined) return null;
  return (
    <>
      <span>
        task {task}
        {pid !== undefined && ` by ${visible(pid)}`}
      </span>
      <span>{visible(target)}</span>
    </>
  );
}

function Payloads({ promise }: { promise: Promised }) {
  return (
    <>
      {"data" in promise && (
        <details className="part" open={promise.form === "plain"}>
          <summary>{promise.function === undefined ? "Data" : "Arguments"}</summary>
          <Json value={promise.data} />
        </details>
      )}
      {promise.tags !== undefined && Object.keys(promise.tags).length > 0 && (
        <details className="part">
          <summary>Tags</summary>
          <Json value={promise.tags} />
        </details>
      )}
      {"value" in promise && (
        <section aria-label="Value">
          <h2>{promise.state === "resolved" ? "Value" : "Reason"}</h2>
          <Json value={promise.value} />
        </section>
      )}
    </>
  );
}
