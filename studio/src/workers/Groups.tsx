/** Groups: their numbers of runs, and the buttons that pause and limit them. */

import { Link } from "@tanstack/react-router";
import { type Column, Table } from "../lists/Table";
import { Trouble } from "../lists/Trouble";
import { useAct } from "../lists/useAct";
import { StateMark } from "../runs/StateMark";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { counted, type Group, useGroups } from "./group";
import { GroupControls } from "./GroupControls";
import { Limits } from "./Limits";

const COLUMNS: Column<Group>[] = [
  {
    name: "Group",
    cell: ({ name, is_paused }) => (
      <>
        <Link to="/groups/$name" params={{ name }}>
          <b>{name}</b>
        </Link>
        {is_paused && <StateMark state="paused" />}
      </>
    ),
  },
  ...(["ready", "running", "paused", "suspended"] as const).map((state) => ({
    name: `${state[0]?.toUpperCase()}${state.slice(1)}`,
    cell: (group: Group) => counted(group[state]),
  })),
  {
    name: "Limits",
    cell: (group) => <Limits group={group} />,
  },
];

export function Groups() {
  const me = useMe();
  const act = useAct("groups");
  const groups = useGroups();
  const columns = mayOperate(me)
    ? [
        ...COLUMNS,
        { name: "Do", cell: (each: Group) => <GroupControls key={each.name} group={each} act={act} /> },
      ]
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
            Runs are routed to groups, and each worker polls one. A group is listed once it has had a{" "}
            <Link to="/runs">run</Link>.
          </p>
        }
      />
    </>
  );
}
