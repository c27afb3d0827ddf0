/** A schedule's times and arguments: the same fields for a new one and a changed one. */

import { type Schedule, written } from "./schedule";

const CATCH_UP: [Schedule["catch_up"], string][] = [
  ["latest", "the latest one"],
  ["all", "all of them"],
  ["skip", "none"],
];

export function ScheduleFields({ schedule }: { schedule?: Schedule }) {
  return (
    <>
      <label>
        Arguments
        <textarea
          name="arguments"
          rows={2}
          defaultValue={schedule === undefined ? "[]" : written(schedule)}
          spellCheck={false}
        />
        <small>
          As JSON: a list, such as <code>["o-1", 7000]</code>, or by name: <code>{'{"order": "o-1"}'}</code>
        </small>
      </label>
      <div className="pair">
        <label>
          Times
          <input
            name="cron"
            required
            autoComplete="off"
            placeholder="0 3 * * *"
            defaultValue={schedule?.cron}
          />
          <small>minute, hour, day, month, weekday</small>
        </label>
        <label>
          Time zone
          <input
            name="timezone"
            required
            defaultValue={schedule?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone}
          />
        </label>
        <label>
          Missed times
          <select name="catch_up" defaultValue={schedule?.catch_up}>
            {CATCH_UP.map(([value, said]) => (
              <option key={value} value={value}>
                {said}
              </option>
            ))}
          </select>
          <small>the ones to start after an outage</small>
        </label>
        <label>
          Group
          <input name="group" autoComplete="off" placeholder="the server's" defaultValue={schedule?.group} />
        </label>
      </div>
    </>
  );
}
