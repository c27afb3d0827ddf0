/** The form that makes a schedule. */

import { api, given } from "../api/client";
import { rawNumber } from "../api/exact";
import type { components } from "../api/schema";
import { Asking } from "../lists/Asking";
import { text } from "../lists/said";
import { readJson } from "../shell/JsonField";

type CatchUp = components["schemas"]["CatchUp"];

const CATCH_UP: [CatchUp, string][] = [
  ["latest", "the latest one"],
  ["all", "all of them"],
  ["skip", "none"],
];

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
      <label>
        Arguments
        <textarea name="arguments" rows={2} defaultValue="[]" spellCheck={false} />
        <small>
          As JSON: a list, such as <code>["o-1", 7000]</code>, or by name: <code>{'{"order": "o-1"}'}</code>
        </small>
      </label>
      <div className="pair">
        <label>
          Times
          <input name="cron" required autoComplete="off" placeholder="0 3 * * *" />
          <small>minute, hour, day, month, weekday</small>
        </label>
        <label>
          Time zone
          <input name="timezone" required defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone} />
        </label>
        <label>
          Missed times
          <select name="catch_up">
            {CATCH_UP.map(([value, said]) => (
              <option key={value} value={value}>
                {said}
              </option>
            ))}
          </select>
          <small>which to make up for after an outage</small>
        </label>
        <label>
          Group
          <input name="group" autoComplete="off" placeholder="the server's" />
        </label>
      </div>
    </Asking>
  );
}

async function send(said: FormData): Promise<unknown> {
  const id = text(said, "id") ?? "";
  const given_arguments = argumentsOf(text(said, "arguments") ?? "[]");
  await checkNew(id);
  return given(
    api.POST("/v1/schedules", {
      body: {
        id,
        workflow: text(said, "workflow") ?? "",
        ...given_arguments,
        cron: text(said, "cron") ?? "",
        timezone: text(said, "timezone") ?? "UTC",
        catch_up: said.get("catch_up") as CatchUp,
        group: text(said, "group") ?? null,
        priority: 0,
      },
    }),
  );
}

/** Refuse a name that is taken: the one that has it would be changed. */
async function checkNew(id: string): Promise<void> {
  const { response } = await api.GET("/v1/schedules/{schedule_id}", {
    params: { path: { schedule_id: id } },
  });
  if (response.ok) throw new Error(`There is a schedule ${id} already: choose another name.`);
}

function argumentsOf(written: string): { args: unknown[] } | { kwargs: Record<string, unknown> } {
  const value = readJson("Arguments", written);
  if (Array.isArray(value)) return { args: value as unknown[] };
  if (typeof value === "object" && value !== null && rawNumber(value) === undefined) {
    return { kwargs: value as Record<string, unknown> };
  }
  throw new Error("Arguments are a list, or an object with names.");
}
