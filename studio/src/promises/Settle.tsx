/** Settles a promise, after a confirmation: with a value, with an error, or by cancelling it. */

import { useState } from "react";
import { api, given } from "../api/client";
import { freshId } from "../api/freshId";
import { Asking } from "../lists/Asking";
import { text } from "../lists/said";
import { JsonText, readJson } from "../shell/JsonText";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { visible } from "../shell/visible";
import { isCancellable, isPlain, type Promised } from "./promise";

interface SettleProps {
  promise: Promised;
  /** The query that shows it. */
  list: string;
}

export function Settle({ promise, list }: SettleProps) {
  const me = useMe();
  if (!mayOperate(me)) return null;
  return (
    <>
      {isPlain(promise) && <Resolve promise={promise} list={list} />}
      {isPlain(promise) && <Reject promise={promise} list={list} />}
      {(isPlain(promise) || isCancellable(promise)) && <Cancel promise={promise} list={list} />}
    </>
  );
}

/** What is sent with each settlement; the same request id if it is sent again. */
function useBody(said: FormData | undefined = undefined) {
  const me = useMe();
  const [request_id] = useState(freshId);
  return (form: FormData | undefined = said) => ({
    by: `user:${me.user_id}`,
    note: (form && text(form, "note")) ?? null,
    request_id,
  });
}

function Resolve({ promise, list }: SettleProps) {
  const body = useBody();
  const [value, setValue] = useState("");
  return (
    <Asking
      verb="Resolve"
      title={`Resolve ${visible(promise.id)}?`}
      list={list}
      send={async (said) =>
        given(
          api.POST("/v1/promises/{promise_id}/resolve", {
            params: { path: { promise_id: promise.id } },
            body: { ...body(said), value: readJson("The value", value) },
          }),
        )
      }
    >
      <p>Whatever waits for it continues with this value. It cannot be changed afterwards.</p>
      <JsonText label="Value, as JSON" value={value} onChange={setValue} />
      <Note />
    </Asking>
  );
}

function Reject({ promise, list }: SettleProps) {
  const body = useBody();
  return (
    <Asking
      verb="Reject"
      title={`Reject ${visible(promise.id)}?`}
      list={list}
      className="danger"
      send={(said) => {
        const message = text(said, "message") ?? "";
        // an error that the SDKs raise
        const error = { __type: "error", name: "Rejected", message };
        return given(
          api.POST("/v1/promises/{promise_id}/reject", {
            params: { path: { promise_id: promise.id } },
            body: { ...body(said), value: promise.tags === undefined ? message : error },
          }),
        );
      }}
    >
      <p>Whatever waits for it gets an error with this message.</p>
      <label>
        Message
        <input name="message" required autoComplete="off" />
      </label>
      <Note />
    </Asking>
  );
}

function Cancel({ promise, list }: SettleProps) {
  const body = useBody();
  return (
    <Asking
      verb="Cancel promise"
      title={`Cancel ${visible(promise.id)}?`}
      list={list}
      className="danger"
      send={(said) =>
        given(
          api.POST("/v1/promises/{promise_id}/cancel", {
            params: { path: { promise_id: promise.id } },
            body: body(said),
          }),
        )
      }
    >
      <p>
        {promise.form === "remote"
          ? "Its task ends: what a worker still does for it counts no more. Whatever waits for it gets an error."
          : "Whatever waits for it gets an error."}
      </p>
      <Note />
    </Asking>
  );
}

function Note() {
  return (
    <label>
      Note
      <input name="note" autoComplete="off" />
    </label>
  );
}
