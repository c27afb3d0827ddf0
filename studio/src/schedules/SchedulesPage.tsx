/** Schedules: their next starts, and whether they are active. */

import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, given } from "../api/client";
import { Asking } from "../lists/Asking";
import { PlainPage } from "../lists/PlainPage";
import { type Column, Table } from "../lists/Table";
import { Trouble } from "../lists/Trouble";
import { type Act, useAct } from "../lists/useAct";
import { useList } from "../lists/useList";
import { callOf } from "../runs/run";
import { StateMark } from "../runs/StateMark";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { Since, Until } from "../time/Times";
import { EditSchedule } from "./EditSchedule";
import { NewSchedule } from "./NewSchedule";
import type { Schedule } from "./schedule";

const COLUMNS: Column<Schedule>[] = [
  {
    name: "Schedule",
    cell: ({ id, is_paused }) => (
      <>
        <b>{id}</b>
        {is_paused && <StateMark state="paused" />}
      </>
    ),
  },
  {
    name: "Starts",
    cell: (schedule) => (
      <>
        <code>{callOf(schedule)}</code>
        <small>in {schedule.group}</small>
      </>
    ),
  },
  {
    name: "At",
    cell: ({ cron, timezone }) => (
      <>
        <code>{cron}</code>
        <small>{timezone}</small>
      </>
    ),
  },
  {
    name: "Next",
    cell: ({ is_paused, next_at }) =>
      is_paused ? <span className="soft">not while paused</span> : <Until at={next_at} />,
  },
  {
    name: "Last",
    cell: ({ last_at, last_run_id }) =>
      last_at === undefined || last_run_id === undefined ? (
        <span className="soft">never</span>
      ) : (
        <Link to="/runs/$id" params={{ id: last_run_id }}>
          <Since at={last_at} />
        </Link>
      ),
  },
];

export function SchedulesPage() {
  const me = useMe();
  const act = useAct("schedules");
  const [edited, setEdited] = useState<string>();
  const schedules = useList<Schedule>(["schedules"], (after) =>
    given(api.GET("/v1/schedules", { params: { query: { limit: 100, ...(after && { after }) } } })),
  );
  const columns = mayOperate(me)
    ? [
        ...COLUMNS,
        {
          name: "Do",
          cell: (each: Schedule) => (
            <Controls key={each.id} schedule={each} act={act} onEdit={() => setEdited(each.id)} />
          ),
        },
      ]
    : COLUMNS;
  return (
    <PlainPage
      title="Schedules"
      controls={
        mayOperate(me) && (
          <div className="end">
            <NewSchedule />
          </div>
        )
      }
    >
      <Trouble error={act.error} />
      <Table
        label="Schedules"
        list={schedules}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          <>
            <h2>No schedules</h2>
            <p>
              A schedule starts a workflow at the times of a cron expression, once each, also after an outage:
            </p>
            <code>
              signoff schedules create nightly report --cron &quot;0 3 * * *&quot; --timezone Europe/Vienna
            </code>
          </>
        }
      />
      {edited !== undefined && <EditSchedule id={edited} onClose={() => setEdited(undefined)} />}
    </PlainPage>
  );
}

interface ControlsProps {
  schedule: Schedule;
  act: Act;
  onEdit: () => void;
}

function Controls({ schedule, act, onEdit }: ControlsProps) {
  const path = { params: { path: { schedule_id: schedule.id } } };
  return (
    <>
      {schedule.is_paused ? (
        <button
          type="button"
          aria-label={`Resume ${schedule.id}`}
          disabled={act.isBusy}
          onClick={() => act.run(() => given(api.POST("/v1/schedules/{schedule_id}/resume", path)))}
        >
          Resume
        </button>
      ) : (
        <button
          type="button"
          aria-label={`Pause ${schedule.id}`}
          disabled={act.isBusy}
          onClick={() => act.run(() => given(api.POST("/v1/schedules/{schedule_id}/pause", path)))}
        >
          Pause
        </button>
      )}
      <button type="button" aria-label={`Edit ${schedule.id}`} onClick={onEdit}>
        Edit
      </button>
      <Asking
        verb="Delete"
        title={`Delete ${schedule.id}?`}
        list="schedules"
        className="danger"
        send={() => given(api.POST("/v1/schedules/{schedule_id}/delete", path))}
      >
        <p>It starts no more runs. Its earlier runs stay.</p>
      </Asking>
    </>
  );
}
