/** Invocations of Resonate's workers, newest first; or the promises that wait for any program or operator. */

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { FormEvent } from "react";
import { api, given, type Promised as Stored } from "../api/client";
import { PlainPage } from "../lists/PlainPage";
import { text } from "../lists/said";
import { type Column, Table } from "../lists/Table";
import { useList } from "../lists/useList";
import { StateMark } from "../runs/StateMark";
import { visible } from "../shell/visible";
import { duration } from "../time/durations";
import { Since, Until } from "../time/Times";
import { Where } from "./CallTree";
import type { Promised } from "./promise";
import "./promises.css";

const STATES = ["pending", "resolved", "rejected", "cancelled", "timed_out"] as const;

interface Which {
  view?: "open";
  state?: (typeof STATES)[number];
}

export function PromisesPage() {
  const which = useSearch({ strict: false }) as Which;
  const navigate = useNavigate();
  const choose = (next: Which) => void navigate({ to: "/promises", search: next as never, replace: true });
  const isOpen = which.view === "open";
  const open = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const id = text(new FormData(event.currentTarget), "id");
    if (id !== undefined) void navigate({ to: "/promises/$id", params: { id } });
  };
  return (
    <PlainPage
      title="Promises"
      controls={
        <>
          <fieldset className="segments" aria-label="Which promises">
            <button type="button" aria-pressed={!isOpen} onClick={() => choose({})}>
              Invocations
            </button>
            <button type="button" aria-pressed={isOpen} onClick={() => choose({ view: "open" })}>
              To be settled
            </button>
          </fieldset>
          {!isOpen && (
            <label className="filter">
              <span className="unseen">State</span>
              <select
                value={which.state ?? ""}
                onChange={({ target: { value } }) =>
                  choose(value === "" ? {} : { state: value as (typeof STATES)[number] })
                }
              >
                <option value="">Any state</option>
                {STATES.map((state) => (
                  <option key={state} value={state}>
                    {state.replaceAll("_", " ")}
                  </option>
                ))}
              </select>
            </label>
          )}
          <form onSubmit={open}>
            <label className="filter">
              <span className="unseen">Open by id</span>
              <input name="id" placeholder="Open by id" autoComplete="off" />
            </label>
          </form>
        </>
      }
    >
      {isOpen ? <OpenPromises /> : <Invocations state={which.state} />}
    </PlainPage>
  );
}

const INVOCATIONS: Column<Promised>[] = [
  { name: "Invocation", cell: ({ id }) => <PromiseLink id={id} /> },
  { name: "State", cell: ({ state }) => <StateMark state={state} /> },
  { name: "Call", cell: (promise) => <Where promise={promise} /> },
  { name: "Task", cell: ({ task, pid }) => `${task}${pid === undefined ? "" : ` by ${visible(pid)}`}` },
  { name: "Target", cell: ({ target = "" }) => visible(target) },
  { name: "Created", cell: ({ created_at }) => <Since at={created_at} /> },
  {
    name: "Took",
    cell: ({ created_at, settled_at }) =>
      settled_at === undefined ? null : duration(settled_at - created_at),
  },
];

function PromiseLink({ id }: { id: string }) {
  return (
    <Link to="/promises/$id" params={{ id }}>
      {visible(id)}
    </Link>
  );
}

function Invocations({ state }: { state: Which["state"] }) {
  const list = useList<Promised>(["invocations", { state }], (after) =>
    given(
      api.GET("/v1/invocations", {
        params: { query: { limit: 100, ...(state && { state }), ...(after && { after }) } },
      }),
    ),
  );
  return (
    <Table
      label="Invocations"
      list={list}
      columns={INVOCATIONS}
      keyOf={({ id }) => id}
      empty={
        <>
          <h2>No invocations</h2>
          <p>
            An invocation is a call of a function by a program on the SDKs of Resonate. A server speaks their
            protocol if it is started so:
          </p>
          <code>signoff server --resonate</code>
        </>
      }
    />
  );
}

const OPEN: Column<Stored>[] = [
  { name: "Promise", cell: ({ id }) => <PromiseLink id={id} /> },
  {
    name: "Awaited by",
    cell: ({ run_id }) =>
      run_id === undefined ? null : (
        <Link to="/runs/$id" params={{ id: run_id }}>
          {visible(run_id)}
        </Link>
      ),
  },
  { name: "Created", cell: ({ created_at }) => <Since at={created_at} /> },
  { name: "Deadline", cell: ({ due_at }) => (due_at === undefined ? null : <Until at={due_at} />) },
];

/** Pages have calls and timers, too, which are left out here. */
function OpenPromises() {
  const found = useList<Stored>(["promises", "open"], (after) =>
    given(
      api.GET("/v1/promises", {
        params: { query: { kind: "promise", state: "pending", limit: 500, ...(after && { after }) } },
      }),
    ),
  );
  const list = { ...found, items: found.items.filter(isForAnyone) };
  const more = found.more;
  return (
    <>
      <Table
        label="Promises to be settled"
        list={list}
        columns={OPEN}
        keyOf={({ id }) => id}
        empty={
          <>
            <h2>No such promises</h2>
            <p>
              A promise is a value that comes from outside, such as a payment. Programs settle it, or
              operators here:
            </p>
            <code>signoff resolve payment-o-1 &apos;&#123;&quot;cents&quot;: 7000&#125;&apos;</code>
          </>
        }
      />
      {list.items.length === 0 && more !== undefined && (
        <button type="button" className="more" disabled={found.isLoadingMore} onClick={more}>
          Show more
        </button>
      )}
    </>
  );
}

/**
 * Whether no worker, process or deadline settles it. Large data is left out of lists, and the tags with it: then only
 * the promise of a run is certain to be for anyone.
 */
function isForAnyone({ data, left_out, run_id }: Stored): boolean {
  if (left_out?.["data"] !== undefined) return run_id !== undefined;
  const { resonate } = Object(data) as { resonate?: { tags?: Record<string, string> } };
  const { tags = {} } = Object(resonate) as { tags?: Record<string, string> };
  return (
    tags["resonate:target"] === undefined &&
    tags["resonate:invoke"] === undefined &&
    tags["resonate:scope"] !== "local" &&
    tags["resonate:timer"] !== "true" &&
    tags["resonate:timeout"] !== "true"
  );
}
