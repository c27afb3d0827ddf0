/** Settles a promise, after a confirmation: with a value, with an error, or by cancelling it. */

import { useState } from "react";
import { api, given } from "../api/client";
import { freshId } from "../api/freshId";
import { AskingDialog } from "../lists/Asking";
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

interface DialogProps extends SettleProps {
  onClose: () => void;
}

const DIALOGS = { Resolve, Reject, "Cancel promise": Cancel } as const;

type Verb = keyof typeof DIALOGS;

/** A dialog outlives its button: another user may settle the promise meanwhile, and the refusal says who. */
export function Settle({ promise, list }: SettleProps) {
  const me = useMe();
  const [open, setOpen] = useState<Verb>();
  if (!mayOperate(me)) return null;
  const verbs: Verb[] = isPlain(promise) ? ["Resolve", "Reject"] : [];
  if (isPlain(promise) || isCancellable(promise)) verbs.push("Cancel promise");
  const Opened = open && DIALOGS[open];
  return (
    <>
      {verbs.map((verb) => (
        <button
          key={verb}
          type="button"
          className={verb === "Resolve" ? undefined : "danger"}
          onClick={() => setOpen(verb)}
        >
          {verb}
        </button>
      ))}
      {Opened && <Opened promise={promise} list={list} onClose={() => setOpen(undefined)} />}
    </>
  );
}

/** What is sent with each settlement; the same request id if it is sent again. */
function useBody() {
  const me = useMe();
  const [request_id] = useState(freshId);
  return (said: FormData) => ({
    by: `user:${me.user_id}`,
    note: text(said, "note") ?? null,
    request_id,
  });
}

function Resolve({ promise, list, onClose }: DialogProps) {
  const body = useBody();
  const [value, setValue] = useState("");
  return (
    <AskingDialog
      verb="Resolve"
      title={`Resolve ${visible(promise.id)}?`}
      list={list}
      onClose={onClose}
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
    </AskingDialog>
  );
}

function Reject({ promise, list, onClose }: DialogProps) {
  const body = useBody();
  return (
    <AskingDialog
      verb="Reject"
      title={`Reject ${visible(promise.id)}?`}
      list={list}
      onClose={onClose}
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
    </AskingDialog>
  );
}

function Cancel({ promise, list, onClose }: DialogProps) {
  const body = useBody();
  return (
    <AskingDialog
      verb="Cancel promise"
      title={`Cancel ${visible(promise.id)}?`}
      list={list}
      onClose={onClose}
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
          ? "Its task ends: later writes by its worker are rejected. Whatever waits for it gets an error."
          : "Whatever waits for it gets an error."}
      </p>
      <Note />
    </AskingDialog>
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
