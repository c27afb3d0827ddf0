/** The form that changes a schedule: its times, its arguments, and whether it is active. */

import { type QueryClient, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, given } from "../api/client";
import { parseRecord } from "../api/exact";
import { AskingDialog } from "../lists/Asking";
import { Trouble } from "../lists/Trouble";
import { ScheduleFields } from "./ScheduleFields";
import { type Schedule, said, written } from "./schedule";

/** The schedule as of when the form was opened, with exact numbers. */
const opened = (id: string) =>
  queryOptions({
    queryKey: ["schedule", id],
    queryFn: () => read(id),
    structuralSharing: false,
    staleTime: Infinity,
    gcTime: 0,
  });

interface EditProps {
  id: string;
  onClose: () => void;
}

export function EditSchedule({ id, onClose }: EditProps) {
  const client = useQueryClient();
  return (
    <AskingDialog
      verb="Save"
      title={`Edit ${id}`}
      list="schedules"
      send={(form) => save(client, id, form)}
      onClose={onClose}
    >
      <Fields id={id} />
    </AskingDialog>
  );
}

function Fields({ id }: { id: string }) {
  const { data, error } = useQuery(opened(id));
  if (data === undefined) return <Trouble error={error} />;
  return (
    <>
      <p>
        Starts <code>{data.workflow}</code>.
      </p>
      <ScheduleFields schedule={data} />
      <label className="tick">
        <input type="checkbox" name="is_paused" defaultChecked={data.is_paused} />
        Paused: starts nothing
      </label>
    </>
  );
}

async function read(id: string): Promise<Schedule> {
  const path = { params: { path: { schedule_id: id } } };
  const text = await given<string>(api.GET("/v1/schedules/{schedule_id}", { ...path, parseAs: "text" }));
  return parseRecord<Schedule>(text, ["arguments"]);
}

async function save(client: QueryClient, id: string, form: FormData): Promise<void> {
  const before = client.getQueryData(opened(id).queryKey);
  if (before === undefined) throw new Error("It is not loaded yet.");
  if (fieldsOf(await read(id)) !== fieldsOf(before)) {
    throw new Error("It was changed meanwhile: close this, and open it again.");
  }
  const next = said(form);
  const isSame = written({ arguments: { args: [], kwargs: {}, ...next } }) === written(before);
  const body = {
    id,
    workflow: before.workflow,
    ...next,
    priority: before.priority ?? 0,
    // with other arguments the workflow computes another concurrency key
    ...(isSame && { concurrency_key: before.concurrency_key, concurrency_limit: before.concurrency_limit }),
  };
  await given(api.POST("/v1/schedules", { body }));
  client.setQueryData(opened(id).queryKey, await read(id));
  const path = { params: { path: { schedule_id: id } } };
  const isPaused = form.get("is_paused") !== null;
  if (isPaused && !before.is_paused) await given(api.POST("/v1/schedules/{schedule_id}/pause", path));
  if (!isPaused && before.is_paused) await given(api.POST("/v1/schedules/{schedule_id}/resume", path));
}

/** Its fields as people see them, to detect changes. */
function fieldsOf({
  workflow,
  cron,
  timezone,
  catch_up,
  group,
  is_paused,
  arguments: given,
}: Schedule): string {
  return JSON.stringify([workflow, cron, timezone, catch_up, group, is_paused, given]);
}
