/** The workers and their groups. */

import { api, given } from "../api/client";
import { PlainPage } from "../lists/PlainPage";
import { Table } from "../lists/Table";
import { useList } from "../lists/useList";
import { Groups } from "./Groups";
import { SetAside } from "./SetAside";
import { Mixed } from "./Version";
import { type Worker, WORKER_COLUMNS } from "./Worker";
import "./workers.css";

export function WorkersPage() {
  const workers = useList<Worker>(["workers"], () => given(api.GET("/v1/workers")));
  return (
    <PlainPage title="Workers">
      <Table
        label="Workers"
        list={workers}
        columns={WORKER_COLUMNS}
        keyOf={({ id }) => id}
        empty={
          <>
            <h2>No workers</h2>
            <p>Runs wait until a worker of their group takes them:</p>
            <code>signoff worker myapp:app</code>
          </>
        }
      />
      <Mixed workers={workers.items} />
      {(workers.isLoaded || workers.error !== null) && <Groups />}
      <SetAside />
    </PlainPage>
  );
}
