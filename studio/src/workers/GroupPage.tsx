/** One group: its running and waiting runs, its workers, its limits. */

import { Link, useParams } from "@tanstack/react-router";
import { api, given } from "../api/client";
import { PlainPage } from "../lists/PlainPage";
import { type Column, Table } from "../lists/Table";
import { Trouble } from "../lists/Trouble";
import { useAct } from "../lists/useAct";
import { type List, useList } from "../lists/useList";
import { StateMark } from "../runs/StateMark";
import { callOf, type Run, type RunState } from "../runs/run";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { current, type Workflow } from "../start/workflows";
import { Since } from "../time/Times";
import { counted, type Group, useGroups } from "./group";
import { GroupControls } from "./GroupControls";
import { Limits } from "./Limits";
import { Mixed } from "./Version";
import { type Worker, WORKER_COLUMNS } from "./Worker";
import "./workers.css";

/** At most this many runs of a state are listed here; the page of runs has all. */
const SHOWN = 20;

const STATES = ["running", "ready", "paused"] as const satisfies readonly RunState[];

const SAID: Readonly<Record<(typeof STATES)[number], string>> = {
  running: "Running",
  ready: "Waiting for a worker",
  paused: "Paused",
};

export function GroupPage() {
  const { name } = useParams({ strict: false }) as { name: string };
  return <GroupOf key={name} name={name} />;
}

function GroupOf({ name }: { name: string }) {
  const me = useMe();
  const act = useAct("groups");
  const groups = useGroups();
  const workers = useWorkersOf(name);
  const workflows = useWorkflowsOf(name);
  const running = useRunsOf(name, "running");
  const ready = useRunsOf(name, "ready");
  const paused = useRunsOf(name, "paused");
  const runs = { running, ready, paused };
  const group = groups.items.find((each) => each.name === name);
  // Content that loads later would push down what the user already reads.
  const isComplete = [groups, workers, workflows, running, ready, paused].every(isThere);
  return (
    <PlainPage
      title={name}
      controls={
        isComplete &&
        group !== undefined &&
        mayOperate(me) && (
          <div className="end">
            <GroupControls group={group} act={act} />
          </div>
        )
      }
    >
      <Trouble error={groups.error ?? act.error} />
      {isComplete && (
        <>
          <p className="facts">
            <Link to="/workers">All workers and groups</Link>
            {group !== undefined && <Facts group={group} />}
          </p>
          {group === undefined && groups.isLoaded && (
            <div className="empty">
              <h2>This group has no runs yet</h2>
              <p>Runs are routed to groups. A group is listed once it has a run or a limit.</p>
            </div>
          )}
          <Workers name={name} workers={workers} />
          <Workflows workflows={workflows} />
          {STATES.map((state) => (
            <Runs key={state} name={name} state={state} runs={runs[state]} count={group?.[state] ?? 0} />
          ))}
        </>
      )}
    </PlainPage>
  );
}

function isThere({ isLoaded, error }: { isLoaded: boolean; error: Error | null }): boolean {
  return isLoaded || error !== null;
}

function useWorkersOf(name: string): List<Worker> {
  const workers = useList<Worker>(["workers"], () => given(api.GET("/v1/workers")));
  return { ...workers, items: workers.items.filter((each) => each.group === name) };
}

/** The workflows of its workers, in the version of new runs. */
function useWorkflowsOf(name: string): List<Workflow> {
  const workflows = useList<Workflow>(["workflows", { group: name }], (after) =>
    given(
      api.GET("/v1/workflows", { params: { query: { group: name, limit: 1000, ...(after && { after }) } } }),
    ),
  );
  return { ...workflows, items: current(workflows.items) };
}

function useRunsOf(name: string, state: RunState): List<Run> {
  return useList<Run>(["runs", { group: name, state, limit: SHOWN }], async () => {
    const query = { group: name, state: [state], limit: SHOWN };
    return { ...(await given(api.GET("/v1/runs", { params: { query } }))), next: null };
  });
}

function Facts({ group }: { group: Group }) {
  return (
    <>
      {group.is_paused && (
        <span>
          <StateMark state="paused" /> no worker takes its runs
        </span>
      )}
      {STATES.map((state) => (
        <span key={state}>
          {counted(group[state] ?? 0)} {state === "ready" ? "waiting" : state}
        </span>
      ))}
      <span className="limits">
        limits: <Limits group={group} />
      </span>
    </>
  );
}

function Workers({ name, workers }: { name: string; workers: List<Worker> }) {
  return (
    <>
      <h2>Workers</h2>
      <Table
        label="Workers"
        list={workers}
        columns={WORKER_COLUMNS.filter((each) => each.name !== "Group")}
        keyOf={({ id }) => id}
        empty={
          <>
            <p>This group has no workers:</p>
            <code>signoff worker myapp:app --group {name}</code>
          </>
        }
      />
      <Mixed workers={workers.items} />
    </>
  );
}

const RUN_COLUMNS: Column<Run>[] = [
  {
    name: "Run",
    cell: ({ id }) => (
      <Link to="/runs/$id" params={{ id }}>
        {id}
      </Link>
    ),
  },
  { name: "Call", cell: (run) => <code>{callOf(run)}</code> },
  { name: "Started", cell: ({ created_at }) => <Since at={created_at} /> },
];

const WITH_WORKER: Column<Run>[] = [
  ...RUN_COLUMNS,
  { name: "Worker", cell: ({ worker_id }) => worker_id ?? null },
];

interface RunsProps {
  name: string;
  state: (typeof STATES)[number];
  runs: List<Run>;
  count: number;
}

function Runs({ name, state, runs, count }: RunsProps) {
  if (runs.items.length === 0 && runs.error === null) return null;
  return (
    <>
      <h2>{SAID[state]}</h2>
      <Table
        label={SAID[state]}
        list={runs}
        columns={state === "running" ? WITH_WORKER : RUN_COLUMNS}
        keyOf={({ id }) => id}
        empty={null}
      />
      {count > runs.items.length && (
        <p>
          <Link to="/runs" search={{ group: name, state } as never}>
            All {counted(count)}
          </Link>
        </p>
      )}
    </>
  );
}

const WORKFLOW_COLUMNS: Column<Workflow>[] = [
  {
    name: "Workflow",
    cell: ({ name }) => (
      <Link to="/start/$workflow" params={{ workflow: name }}>
        {name}
      </Link>
    ),
  },
  { name: "Version", cell: ({ version }) => (version === "" ? <span className="soft">none</span> : version) },
  {
    name: "Announced",
    cell: ({ seen_at }) => seen_at !== undefined && <Since at={seen_at} />,
  },
];

function Workflows({ workflows }: { workflows: List<Workflow> }) {
  if (workflows.items.length === 0 && workflows.error === null) return null;
  return (
    <>
      <h2>Workflows</h2>
      <Table
        label="Workflows"
        list={workflows}
        columns={WORKFLOW_COLUMNS}
        keyOf={(each) => each.name}
        empty={null}
      />
    </>
  );
}
