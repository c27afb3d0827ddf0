/** The buttons that pause, resume and limit a group. */

import { api, given } from "../api/client";
import { Asking } from "../lists/Asking";
import { number } from "../lists/said";
import type { Act } from "../lists/useAct";
import type { Group } from "./group";

export function GroupControls({ group, act }: { group: Group; act: Act }) {
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
            throw new Error("A rate needs both the number of starts and the seconds.");
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
        <small>Empty fields mean no limit.</small>
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
        per seconds
        <input name="seconds" type="number" min={0} step="any" defaultValue={group.starts_per?.seconds} />
      </label>
    </div>
  );
}
