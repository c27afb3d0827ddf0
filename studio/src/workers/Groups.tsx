/** Groups: how many runs they have, and what pauses and limits them. */

import { Link } from "@tanstack/react-router";
import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { Asking } from "../lists/Asking";
import { number } from "../lists/said";
import { type Column, Table } from "../lists/Table";
import { Trouble } from "../lists/Trouble";
import { type Act, useAct } from "../lists/useAct";
import { useList } from "../lists/useList";
import { StateMark } from "../runs/StateMark";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";

type Group = components["schemas"]["Group"];

const MOST_COUNTED = 10_000;

function counted(runs: number): string {
  return runs >= MOST_COUNTED ? `${MOST_COUNTED.toLocaleString()}+` : `${runs}`;
}

const COLUMNS: Column<Group>[] = [
  {
    name: "Group",
    cell: ({ name, is_paused }) => (
      <>
        <b>{name}</b>
        {is_paused && <StateMark state="paused" />}
      </>
    ),
  },
  ...(["ready", "running", "paused"] as const).map((state) => ({
    name: `${state[0]?.toUpperCase()}${state.slice(1)}`,
    cell: (group: Group) => counted(group[state]),
  })),
  {
    name: "Limits",
    cell: ({ max_running, starts_per }) => (
      <>
        {max_running !== undefined && <span>{max_running} at once</span>}
        {starts_per !== undefined && (
          <span>
            {starts_per.count} starts in {starts_per.seconds} s
          </span>
        )}
        {max_running === undefined && starts_per === undefined && <span className="soft">none</span>}
      </>
    ),
  },
];

export function Groups() {
  const me = useMe();
  const act = useAct("groups");
  const groups = useList<Group>(["groups"], () => given(api.GET("/v1/groups")));
  const columns = mayOperate(me)
    ? [...COLUMNS, { name: "Do", cell: (each: Group) => <Controls key={each.name} group={each} act={act} /> }]
    : COLUMNS;
  return (
    <>
      <h2>Groups</h2>
      <Trouble error={act.error} />
      <Table
        label="Groups"
        list={groups}
        columns={columns}
        keyOf={({ name }) => name}
        empty={
          <p>
            Runs are routed to groups, and workers poll for one. A group is here when it has had a{" "}
            <Link to="/runs">run</Link>.
          </p>
        }
      />
    </>
  );
}

function Controls({ group, act }: { group: Group; act: Act }) {
  const path = { params: { path: { name: group.name } } };
  return (
    <>
      {group.is_paused ? (
        <button
          type="button"
          aria-label={`Resume ${group.name}`}
          disabled={act.isBusy}
          onClick={() => act.run(() => given(api.POST("/v1/groups/{name}/resume", path)))}
        >
          Resume
        </button>
      ) : (
        <button
          type="button"
          aria-label={`Pause ${group.name}`}
          disabled={act.isBusy}
          onClick={() => act.run(() => given(api.POST("/v1/groups/{name}/pause", path)))}
        >
          Pause
        </button>
      )}
      <Asking
        verb="Limit"
        title={`Limit ${group.name}`}
        list="groups"
        send={async (said) => {
          const count = number(said, "count");
          const seconds = number(said, "seconds");
          if ((count === undefined) !== (seconds === undefined)) {
            throw new Error("A rate is both: how many starts, and in how many seconds.");
          }
          const rate = count === undefined || seconds === undefined ? null : { count, seconds };
          const body = { max_running: number(said, "max_running") ?? null, starts_per: rate };
          return given(api.POST("/v1/groups/{name}/limit", { ...path, body }));
        }}
      >
        <label>
          Runs at once
          <input
            name="max_running"
            type="number"
            min={1}
            defaultValue={group.max_running}
            placeholder="any number"
          />
        </label>
        <Rate group={group} />
        <small>What is empty is without limit.</small>
      </Asking>
    </>
  );
}

function Rate({ group }: { group: Group }) {
  return (
    <div className="pair">
      <label>
        Starts
        <input name="count" type="number" min={1} defaultValue={group.starts_per?.count} />
      </label>
      <label>
        in so many seconds
        <input name="seconds" type="number" min={0} step="any" defaultValue={group.starts_per?.seconds} />
      </label>
    </div>
  );
}
