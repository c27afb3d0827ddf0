/** One session: its chain of runs. */

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { api, given } from "../api/client";
import { PlainPage } from "../lists/PlainPage";
import { type Column, Table } from "../lists/Table";
import { Trouble } from "../lists/Trouble";
import { useList } from "../lists/useList";
import { StateMark } from "../runs/StateMark";
import { callOf, type Run } from "../runs/run";
import { duration } from "../time/durations";
import { Since } from "../time/Times";

const LOOK_AGAIN_MILLISECONDS = 5_000;

const COLUMNS: Column<Run>[] = [
  { name: "Place", cell: ({ position }) => position },
  {
    name: "Run",
    cell: ({ id }) => (
      <Link to="/runs/$id" params={{ id }}>
        {id}
      </Link>
    ),
  },
  { name: "State", cell: ({ state }) => <StateMark state={state} /> },
  { name: "Call", cell: (run) => <code>{callOf(run)}</code> },
  { name: "Created", cell: ({ created_at }) => <Since at={created_at} /> },
  {
    name: "Took",
    cell: ({ created_at, ended_at }) => (ended_at === undefined ? null : duration(ended_at - created_at)),
  },
];

export function SessionPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  return <SessionOf key={id} id={id} />;
}

function SessionOf({ id }: { id: string }) {
  const found = useQuery({
    queryKey: ["session", id],
    queryFn: () => given(api.GET("/v1/sessions/{session_id}", { params: { path: { session_id: id } } })),
    refetchInterval: LOOK_AGAIN_MILLISECONDS,
  });
  const runs = useList<Run>(["runs", { session: id }], (after) =>
    given(
      api.GET("/v1/runs", {
        params: { query: { session_id: id, limit: 100, ...(after && { after }) } },
      }),
    ),
  );
  const session = found.data;
  if (session === undefined) {
    return (
      <PlainPage title={id}>
        <Trouble error={found.error} />
      </PlainPage>
    );
  }
  return (
    <PlainPage title={id}>
      <p className="facts">
        <Link to="/sessions">All sessions</Link>
        <span>{session.last_position === 1 ? "1 run" : `${session.last_position} runs`}</span>
        <span>
          begun <Since at={session.created_at} />
        </span>
        {session.active_run_id === undefined ? (
          <span>none is active</span>
        ) : (
          <span>
            active:{" "}
            <Link to="/runs/$id" params={{ id: session.active_run_id }}>
              {session.active_run_id}
            </Link>
          </span>
        )}
      </p>
      <Table
        label="Runs of the session"
        list={runs}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty={<p>Its runs have been deleted since.</p>}
      />
    </PlainPage>
  );
}
