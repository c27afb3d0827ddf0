/** Sends a run a signal. */

import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, given } from "../api/client";
import { freshId } from "../api/freshId";
import { Dialog } from "../shell/Dialog";
import { DialogEnd } from "../shell/DialogEnd";
import { JsonText, readJson } from "../shell/JsonText";
import { useMe } from "../shell/me";
import type { Run } from "./run";

interface SignalProps {
  run: Run;
  /** The signals that the run waits for. */
  names: readonly string[];
  onClose: () => void;
}

export function SignalDialog({ run, names, onClose }: SignalProps) {
  const me = useMe();
  const [requestId] = useState(freshId);
  const [name, setName] = useState(names[0] ?? "");
  const [value, setValue] = useState("null");
  const send = useMutation({
    mutationFn: async () => {
      const body = {
        name,
        value: readJson("The value", value),
        by: `user:${me.user_id}`,
        request_id: requestId,
      };
      return given(api.POST("/v1/runs/{run_id}/signals", { params: { path: { run_id: run.id } }, body }));
    },
    onSuccess: onClose,
  });
  return (
    <Dialog title="Send a signal" onClose={onClose}>
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault();
          send.mutate();
        }}
      >
        <label>
          Name
          <input
            value={name}
            required
            onChange={(event) => setName(event.target.value)}
            list="signal-names"
          />
        </label>
        <datalist id="signal-names">
          {names.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        <JsonText label="Value, as JSON" value={value} onChange={setValue} />
        <DialogEnd action="Send" error={send.error} isPending={send.isPending} onClose={onClose} />
      </form>
    </Dialog>
  );
}
