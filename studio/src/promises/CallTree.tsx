/** The calls of an invocation: those of its own process as a tree, and the calls of a remote one when it is opened. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, given } from "../api/client";
import { Trouble } from "../lists/Trouble";
import { StateMark } from "../runs/StateMark";
import { Guarded } from "../shell/Guarded";
import { visible } from "../shell/visible";
import { Since, Until } from "../time/Times";
import { callOf, FORMS, LOOK_AGAIN_MILLISECONDS, type Promised, type Row, rowsOf } from "./promise";
import { Settle } from "./Settle";

const AT_ONCE = 500;
const LONGEST_VALUE = 200;
/** Deeper rows are indented as far. */
const DEEPEST = 12;

interface TreeProps {
  id: string;
  isSettled: boolean;
}

export function CallTree({ id, isSettled }: TreeProps) {
  const calls = useInfiniteQuery({
    queryKey: ["calls", id],
    queryFn: ({ pageParam }) =>
      given(
        api.GET("/v1/invocations/{promise_id}/calls", {
          params: {
            path: { promise_id: id },
            query: { limit: AT_ONCE, ...(pageParam && { after: pageParam }) },
          },
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next ?? null,
    refetchInterval: ({ state }) =>
      isSettled && state.data?.pages.every((page) => page.items.every((each) => each.state !== "pending"))
        ? false
        : LOOK_AGAIN_MILLISECONDS,
  });
  const rows = useMemo(
    () => rowsOf(id, calls.data?.pages.flatMap((page) => page.items) ?? []),
    [id, calls.data],
  );
  const makers = useMemo(() => new Set(rows.map(({ promise }) => promise.parent_id)), [rows]);
  if (calls.data === undefined) return <Trouble error={calls.error} />;
  return (
    <>
      <Trouble error={calls.error} />
      <ul className="tree calls" aria-label={`Calls of ${visible(id)}`}>
        {rows.map((row) => (
          <Call
            key={row.promise.id}
            row={row}
            hasMore={row.promise.has_calls && !makers.has(row.promise.id)}
          />
        ))}
      </ul>
      {calls.hasNextPage && (
        <button
          type="button"
          className="more"
          disabled={calls.isFetchingNextPage}
          onClick={() => void calls.fetchNextPage()}
        >
          Show more
        </button>
      )}
    </>
  );
}

function Call({ row: { promise, depth }, hasMore }: { row: Row; hasMore: boolean }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li style={{ paddingInlineStart: `${Math.min(depth, DEEPEST) * 1.2}rem` }}>
      <Guarded name={`Promise ${promise.id}`}>
        <div className="branch call-row">
          {hasMore && (
            <button
              type="button"
              className="more"
              aria-expanded={isOpen}
              aria-label={`Calls of ${visible(promise.id)}`}
              onClick={() => setOpen(!isOpen)}
            >
              {isOpen ? "−" : "+"}
            </button>
          )}
          <Link to="/promises/$id" params={{ id: promise.id }}>
            {visible(promise.id)}
          </Link>
          <StateMark state={promise.state} />
          <span className="soft">{promise.form && FORMS[promise.form]}</span>
          <Where promise={promise} />
          <Outcome promise={promise} />
          <Settle promise={promise} list="calls" />
        </div>
      </Guarded>
      {isOpen && <CallTree id={promise.id} isSettled={promise.state !== "pending"} />}
    </li>
  );
}

/** Links to what executes or asks it. */
export function Where({ promise }: { promise: Promised }) {
  const call = callOf(promise);
  return (
    <>
      {call !== undefined && <code>{visible(call)}</code>}
      {promise.form === "question" && (
        <Link to="/inbox/$id" params={{ id: promise.id }}>
          in the inbox
        </Link>
      )}
      {promise.has_run && (
        <Link to="/runs/$id" params={{ id: promise.id }}>
          its run
        </Link>
      )}
    </>
  );
}

function Outcome({ promise }: { promise: Promised }) {
  if (promise.state === "pending")
    return promise.due_at === undefined ? null : (
      <span className="soft">
        deadline <Until at={promise.due_at} />
      </span>
    );
  const value = "value" in promise ? (JSON.stringify(promise.value) ?? "") : undefined;
  return (
    <>
      {value !== undefined && (
        <code>{visible(value.length > LONGEST_VALUE ? `${value.slice(0, LONGEST_VALUE)}…` : value)}</code>
      )}
      {promise.settled_at !== undefined && <Since at={promise.settled_at} />}
    </>
  );
}
