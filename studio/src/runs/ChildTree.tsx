/** The child runs of a run, and theirs: each branch is loaded when it is opened. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, given } from "../api/client";
import { callOf, hasEnded, type Run } from "./run";
import { StateMark } from "./StateMark";

const LOOK_AGAIN_MILLISECONDS = 3_000;
const AT_ONCE = 50;

interface TreeProps {
  run: Run;
  label: string;
}

export function ChildTree({ run, label }: TreeProps) {
  const children = useInfiniteQuery({
    queryKey: ["runs", { parent: run.id }],
    queryFn: async ({ pageParam }) => {
      const query = { parent_id: run.id, limit: AT_ONCE, ...(pageParam && { after: pageParam }) };
      return given(api.GET("/v1/runs", { params: { query } }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next ?? null,
    refetchInterval: ({ state }) =>
      hasEnded(run) && state.data?.pages.every((page) => page.items.every(hasEnded))
        ? false
        : LOOK_AGAIN_MILLISECONDS,
  });
  if (children.isError) return <p className="trouble">{children.error.message}</p>;
  if (children.data === undefined) return null;
  const items = children.data.pages.flatMap((page) => page.items);
  if (items.length === 0) return <p className="item-what">none</p>;
  return (
    <ul className="tree" aria-label={label}>
      {items.map((child) => (
        <Branch key={child.id} run={child} />
      ))}
      {children.hasNextPage && (
        <li>
          <button type="button" className="more" onClick={() => void children.fetchNextPage()}>
            Earlier ones
          </button>
        </li>
      )}
    </ul>
  );
}

function Branch({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <p className="branch">
        <button
          type="button"
          className="more"
          aria-expanded={isOpen}
          aria-label={`Child runs of ${run.id}`}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? "−" : "+"}
        </button>
        <Link to="/runs/$id" params={{ id: run.id }}>
          {run.id}
        </Link>
        <StateMark state={run.state} />
        <code>{callOf(run)}</code>
      </p>
      {isOpen && <ChildTree run={run} label={`Child runs of ${run.id}`} />}
    </li>
  );
}
