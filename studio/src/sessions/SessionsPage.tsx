/** All sessions, most recently started run first. */

import { Link } from "@tanstack/react-router";
import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { PlainPage } from "../lists/PlainPage";
import { type Column, Table } from "../lists/Table";
import { useList } from "../lists/useList";
import { Since } from "../time/Times";

type Session = components["schemas"]["Session"];

const COLUMNS: Column<Session>[] = [
  {
    name: "Session",
    cell: ({ id }) => (
      <Link to="/sessions/$id" params={{ id }}>
        {id}
      </Link>
    ),
  },
  { name: "Runs", cell: ({ last_position }) => last_position },
  {
    name: "Active",
    cell: ({ active_run_id: id }) =>
      id === undefined ? (
        <span className="soft">none</span>
      ) : (
        <Link to="/runs/$id" params={{ id }}>
          {id}
        </Link>
      ),
  },
  { name: "Last run", cell: ({ last_at }) => <Since at={last_at} /> },
  { name: "Begun", cell: ({ created_at }) => <Since at={created_at} /> },
];

export function SessionsPage() {
  const sessions = useList<Session>(["sessions"], (after) =>
    given(api.GET("/v1/sessions", { params: { query: { limit: 100, ...(after && { after }) } } })),
  );
  return (
    <PlainPage title="Sessions">
      <Table
        label="Sessions"
        list={sessions}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty={
          <>
            <h2>No sessions</h2>
            <p>
              A session is a chain of runs, such as a conversation. At most one of them is active at a time.
              It begins with the first run that is started in it:
            </p>
            <code>signoff start chat --session ana-1 --arg &apos;&quot;Hello&quot;&apos;</code>
          </>
        }
      />
    </PlainPage>
  );
}
