/** Starts another run with the same input, or an edited one. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, given } from "../api/client";
import { freshId } from "../api/freshId";
import { Dialog } from "../shell/Dialog";
import { DialogEnd } from "../shell/DialogEnd";
import { JsonText, readJson } from "../shell/JsonText";
import { useMe } from "../shell/me";
import { type Arguments, argumentsOf, type Run } from "./run";

interface AgainProps {
  run: Run;
  onClose: () => void;
}

export function RunAgain({ run, onClose }: AgainProps) {
  const me = useMe();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [requestId] = useState(freshId);
  const [input, setInput] = useState(() => JSON.stringify(argumentsOf(run), null, 2));
  const [id, setId] = useState("");
  const [group, setGroup] = useState(run.group);
  const [session, setSession] = useState(run.session_id ?? "");
  const start = useMutation({
    mutationFn: async () => {
      const body = {
        ...readArguments(input),
        workflow: run.workflow,
        group,
        priority: run.priority,
        ...(id !== "" && { id }),
        ...(session !== "" && { session_id: session }),
        started_by: `user:${me.user_id}`,
      };
      const header = { "Idempotency-Key": requestId };
      return given(api.POST("/v1/runs", { params: { header }, body }));
    },
    onSuccess: async (started) => {
      onClose();
      await client.invalidateQueries({ queryKey: ["runs"] });
      await navigate({ to: "/runs/$id", params: { id: started.id } });
    },
  });
  return (
    <Dialog title={`Run ${run.workflow} again`} onClose={onClose}>
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault();
          start.mutate();
        }}
      >
        <JsonText label="Arguments, as JSON" rows={10} value={input} onChange={setInput} />
        <label>
          Id of the new run
          <input value={id} placeholder="generated" onChange={(event) => setId(event.target.value)} />
        </label>
        <label>
          Group
          <input value={group} required onChange={(event) => setGroup(event.target.value)} />
        </label>
        <label>
          Session
          <input value={session} placeholder="none" onChange={(event) => setSession(event.target.value)} />
        </label>
        <DialogEnd action="Start" error={start.error} isPending={start.isPending} onClose={onClose} />
      </form>
    </Dialog>
  );
}

function readArguments(text: string): Arguments {
  const { args, kwargs, ...others } = (readJson("The input", text) ?? {}) as Partial<Arguments>;
  const isFields = typeof kwargs === "object" && kwargs !== null && !Array.isArray(kwargs);
  if (!Array.isArray(args) || !isFields || Object.keys(others).length > 0)
    throw new Error('Arguments are written as {"args": [...], "kwargs": {...}}');
  return { args, kwargs };
}
