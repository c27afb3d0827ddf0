/** The form that makes a schedule. */

import { api, given } from "../api/client";
import { Asking } from "../lists/Asking";
import { text } from "../lists/said";
import { ScheduleFields } from "./ScheduleFields";
import { said } from "./schedule";

export function NewSchedule() {
  return (
    <Asking verb="New schedule" title="New schedule" list="schedules" className="primary" send={send}>
      <label>
        Name
        <input name="id" required autoComplete="off" />
      </label>
      <label>
        Workflow
        <input name="workflow" required autoComplete="off" />
      </label>
      <ScheduleFields />
    </Asking>
  );
}

async function send(form: FormData): Promise<unknown> {
  const id = text(form, "id") ?? "";
  const schedule = said(form);
  await checkNew(id);
  return given(
    api.POST("/v1/schedules", {
      body: { id, workflow: text(form, "workflow") ?? "", ...schedule, priority: 0 },
    }),
  );
}

/** Refuse an existing name: that schedule would be changed. */
async function checkNew(id: string): Promise<void> {
  const { response } = await api.GET("/v1/schedules/{schedule_id}", {
    params: { path: { schedule_id: id } },
  });
  if (response.ok) throw new Error(`A schedule ${id} exists already: choose another name.`);
}
