/** Who works, and the groups they work for. */

import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { PlainPage } from "../lists/PlainPage";
import { type Column, Table } from "../lists/Table";
import { useList } from "../lists/useList";
import { Since } from "../time/Times";
import { Groups } from "./Groups";

type Worker = components["schemas"]["WorkerInfo"];

const COLUMNS: Column<Worker>[] = [
  { name: "Worker", cell: ({ id }) => <b>{id}</b> },
  { name: "Group", cell: ({ group }) => group },
  { name: "Holds", cell: ({ held }) => (held === 1 ? "1 run" : `${held} runs`) },
  {
    name: "Process",
    cell: ({ host, pid }) => (
      <>
        <span title={host}>{host.split("/")[0]}</span> <small>pid {pid}</small>
      </>
    ),
  },
  { name: "Started", cell: ({ process_started_at }) => <Since at={process_started_at} /> },
  { name: "Seen", cell: ({ seen_at }) => seen_at !== undefined && <Since at={seen_at} /> },
];

export function WorkersPage() {
  const workers = useList<Worker>(["workers"], () => given(api.GET("/v1/workers")));
  return (
    <PlainPage title="Workers">
      <Table
        label="Workers"
        list={workers}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        empty={
          <>
            <h2>Nobody works</h2>
            <p>Runs wait until a worker of their group takes them:</p>
            <code>signoff worker myapp:app</code>
          </>
        }
      />
      {(workers.isLoaded || workers.error !== null) && <Groups />}
    </PlainPage>
  );
}
