/** The audit trail: events of questions, newest first, or all of one question or run. */

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { FormEvent } from "react";
import { PlainPage } from "../lists/PlainPage";
import { text } from "../lists/said";
import { type Column, Table } from "../lists/Table";
import { StateMark } from "../runs/StateMark";
import { Closed, isClosed } from "../shell/Closed";
import { Json } from "../shell/Json";
import { useMe } from "../shell/me";
import { seesRuns } from "../shell/rights";
import { Since } from "../time/Times";
import { whence } from "./origin";
import { type AuditEvent, KINDS, type Which, useTrail } from "./trail";

const COLUMNS: Column<AuditEvent>[] = [
  { name: "When", cell: ({ at }) => <Since at={at} /> },
  { name: "What", cell: ({ kind }) => <StateMark state={kind} /> },
  {
    name: "Question",
    cell: ({ question_id }) => (
      <Link to="/inbox/$id" params={{ id: question_id }}>
        {question_id}
      </Link>
    ),
  },
  { name: "By", cell: ({ by }) => <span className="actor">{by}</span> },
  { name: "From", cell: ({ origin }) => origin !== undefined && whence(origin) },
  {
    name: "Details",
    cell: ({ details, origin }) => {
      const facts = { ...(details as object | undefined), ...(origin && { origin }) };
      return (
        Object.keys(facts).length > 0 && (
          <details>
            <summary>Details</summary>
            <Json value={facts} />
          </details>
        )
      );
    },
  },
];

export function AuditPage() {
  const me = useMe();
  const which = useSearch({ strict: false }) as Which;
  const navigate = useNavigate();
  const trail = useTrail(which);
  if (isClosed(trail.error, me)) {
    return (
      <PlainPage title="Audit">
        <Closed title="The audit trail needs an authenticated caller" command="signoff audit list" />
      </PlainPage>
    );
  }
  const isFiltered = Object.values(which).some((each) => each !== undefined);
  const choose = (next: Which) => void navigate({ to: "/audit", search: next as never });
  const find = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const said = new FormData(event.currentTarget);
    choose({ question: text(said, "question"), run: text(said, "run"), kind: which.kind });
  };
  return (
    <PlainPage
      title="Audit"
      controls={
        <>
          <form key={`${which.question}/${which.run}`} onSubmit={find} role="search">
            <label className="filter">
              <span className="unseen">Question</span>
              <input name="question" placeholder="Question" defaultValue={which.question} />
            </label>
            <label className="filter">
              <span className="unseen">Run</span>
              <input name="run" placeholder="Run" defaultValue={which.run} />
            </label>
            <button type="submit">Find</button>
          </form>
          <label className="filter">
            <span className="unseen">Kind of event</span>
            <select
              value={which.kind ?? ""}
              onChange={(event) => choose({ ...which, kind: event.target.value || undefined })}
            >
              <option value="">Any event</option>
              {KINDS.map((kind) => (
                <option key={kind} value={kind}>
                  {kind.replaceAll("_", " ")}
                </option>
              ))}
            </select>
          </label>
          {seesRuns(me) && (
            <a className="end" href="v1/audit/export" download="audit.jsonl">
              Export all
            </a>
          )}
        </>
      }
    >
      <Table
        label="Events"
        list={trail}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty={
          isFiltered ? (
            <>
              <h2>No such events</h2>
              <p>
                <Link to="/audit">All events</Link>
              </p>
            </>
          ) : (
            <>
              <h2>No events yet</h2>
              <p>
                Questions, views, answers and refusals are recorded here, in a chain of hashes that{" "}
                <code>signoff audit verify</code> checks.
              </p>
            </>
          )
        }
      />
    </PlainPage>
  );
}
