/** Workers as a table: their names, their runs, and their start. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, given } from "../api/client";
import type { components } from "../api/schema";
import type { Column } from "../lists/Table";
import { Trouble } from "../lists/Trouble";
import { useOfNow } from "../time/clock";
import { Since } from "../time/Times";
import { Version } from "./Version";

export type Worker = components["schemas"]["WorkerInfo"];

/** An idle worker sends a heartbeat every 15 seconds, and is no longer listed after 60. */
const SILENT_SECONDS = 40;
const MOST_HELD = 1000;

export const WORKER_COLUMNS: Column<Worker>[] = [
  { name: "Worker", cell: ({ id }) => <b>{id}</b> },
  {
    name: "Group",
    cell: ({ group }) => (
      <Link to="/groups/$name" params={{ name: group }}>
        {group}
      </Link>
    ),
  },
  { name: "Holds", cell: (worker) => <Held worker={worker} /> },
  { name: "Threads", cell: (worker) => <Threads worker={worker} /> },
  {
    name: "Process",
    cell: ({ host, pid }) => (
      <>
        <span title={host}>{host.split("/")[0]}</span> <small>pid {pid}</small>
      </>
    ),
  },
  { name: "Version", cell: (worker) => <Version worker={worker} /> },
  { name: "Since", cell: ({ process_started_at }) => <Since at={process_started_at} /> },
  {
    name: "Heartbeat",
    cell: ({ seen_at }) => seen_at !== undefined && <Heartbeat at={seen_at} />,
  },
];

function Heartbeat({ at }: { at: number }) {
  const isSilent = useOfNow((now) => (now - at > SILENT_SECONDS ? "yes" : "no")) === "yes";
  return (
    <>
      <Since at={at} />
      {isSilent && <small className="silent">silent: others take its runs</small>}
    </>
  );
}

/** Plain steps: the busy threads, all threads, and the steps that wait for one. */
function Threads({ worker: { threads, threads_busy = 0, threads_waiting = 0 } }: { worker: Worker }) {
  if (threads === undefined) return null;
  return (
    <>
      {threads_busy} of {threads}
      {threads_waiting > 0 && (
        <small
          className="silent"
          title="All threads for plain steps are taken. The worker's log names the longest running."
        >
          full: {threads_waiting} {threads_waiting === 1 ? "step waits" : "steps wait"}
        </small>
      )}
    </>
  );
}

function Held({ worker }: { worker: Worker }) {
  const [isOpen, setOpen] = useState(false);
  const { held = 0 } = worker;
  const said = held === 1 ? "1 run" : `${held} runs`;
  if (held === 0) return said;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{said}</summary>
      {isOpen && <HeldRuns worker={worker} />}
    </details>
  );
}

function HeldRuns({ worker: { id, group } }: { worker: Worker }) {
  const { data, error } = useQuery({
    queryKey: ["held", id],
    queryFn: async () => {
      const query = { state: ["running" as const], group, limit: MOST_HELD };
      const page = await given(api.GET("/v1/runs", { params: { query } }));
      return page.items.filter((run) => run.worker_id === id);
    },
    refetchInterval: 5_000,
  });
  if (data === undefined) return <Trouble error={error} />;
  if (data.length === 0) return <span className="soft">none now</span>;
  return data.map((run) => (
    <Link key={run.id} to="/runs/$id" params={{ id: run.id }}>
      {run.id}
    </Link>
  ));
}
