/** All runs, newest first. */

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { VirtualList } from "../shell/VirtualList";
import { visible } from "../shell/visible";
import { StartLink } from "../start/StartLink";
import { Since } from "../time/Times";
import { callOf, type Run, type RunState, STATES } from "./run";
import { StateMark } from "./StateMark";
import { useRuns, type Which } from "./useRuns";
import "./runs.css";

const ROW_PIXELS = 56;
/** A text is searched in this many of the newest runs. */
const MOST_SEARCHED = 2_000;

export function RunsPage() {
  const which = useSearch({ strict: false }) as Which;
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const { runs, fetchMore, hasMore, error, isSuccess } = useRuns(which);
  useEffect(() => {
    document.title = "Runs - Signoff";
  }, []);
  const isSearching = text !== "" && hasMore && runs.length < MOST_SEARCHED;
  useEffect(() => {
    if (isSearching) fetchMore();
  }, [isSearching, fetchMore, runs.length]);
  const found = text === "" ? runs : runs.filter((run) => `${run.id}\n${callOf(run)}`.includes(text));
  const choose = (next: Which) => void navigate({ to: "/runs", search: next as never, replace: true });
  const isAny = Object.values(which).every((each) => each === undefined);
  return (
    <section className="runs" aria-label="Runs">
      <header className="bar runs-bar">
        <h1>Runs</h1>
        <Filter label="Find by id or arguments" value={text} onChange={setText} />
        <Filter
          label="Workflow"
          value={which.workflow ?? ""}
          onChange={(workflow) => choose({ ...which, workflow: workflow || undefined })}
        />
        <Filter
          label="Group"
          value={which.group ?? ""}
          onChange={(group) => choose({ ...which, group: group || undefined })}
        />
        <Filter
          label="Session"
          value={which.session ?? ""}
          onChange={(session) => choose({ ...which, session: session || undefined })}
        />
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
        <StartLink />
      </header>
      {error !== null && <p className="trouble">{error.message}</p>}
      {text !== "" && <Searched text={text} found={found.length} among={runs.length} hasMore={hasMore} />}
      {isSuccess && runs.length === 0 && <Empty isAny={isAny} />}
      <VirtualList
        label="Runs"
        items={found}
        rowPixels={ROW_PIXELS}
        keyOf={({ id }) => id}
        row={(run) => <Row run={run} />}
        onEnd={fetchMore}
      />
    </section>
  );
}

interface FilterProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
}

function Filter({ label, value, onChange }: FilterProps) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  if (known !== value) {
    setKnown(value);
    if (typed.trim() !== value) setTyped(value);
  }
  const type = (text: string) => {
    setTyped(text);
    onChange(text.trim());
  };
  return (
    <label className="filter">
      <span className="unseen">{label}</span>
      <input placeholder={label} value={typed} onChange={(event) => type(event.target.value)} />
    </label>
  );
}

function Searched(props: { text: string; found: number; among: number; hasMore: boolean }) {
  const { text, found, among, hasMore } = props;
  return (
    <p className="searched" role="status">
      {found} of {hasMore ? `the newest ${among}` : among}.{" "}
      <Link to="/runs/$id" params={{ id: text }}>
        Open the run with the id {visible(text)}
      </Link>
    </p>
  );
}

function Empty({ isAny }: { isAny: boolean }) {
  if (!isAny) {
    return (
      <div className="empty">
        <h2>No such runs</h2>
        <p>
          <Link to="/runs">Show all</Link>
        </p>
      </div>
    );
  }
  return (
    <div className="empty">
      <h2>No runs</h2>
      <p>
        <Link to="/start">Start one</Link>, or on the command line:{" "}
        <code>signoff start refund --arg &apos;&quot;o-1&quot;&apos;</code>
      </p>
    </div>
  );
}

function Row({ run }: { run: Run }) {
  return (
    <Link to="/runs/$id" params={{ id: run.id }} className="row run-row" preload={false}>
      <StateMark state={run.state} />
      <span className="row-text">{visible(run.id)}</span>
      <code className="row-run">{visible(callOf(run))}</code>
      <Since at={run.created_at} />
    </Link>
  );
}
