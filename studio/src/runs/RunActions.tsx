/** The actions on a run. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, given } from "../api/client";
import { CopyButton } from "../shell/CopyButton";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { curlOf, pythonOf } from "./commands";
import { RunAgain } from "./RunAgain";
import { hasEnded, type Run } from "./run";
import { SignalDialog } from "./SignalDialog";

interface ActionsProps {
  run: Run;
  /** The signals that it waits for. */
  awaited: readonly string[];
}

export function RunActions({ run, awaited }: ActionsProps) {
  const me = useMe();
  const client = useQueryClient();
  const [open, setOpen] = useState<"signal" | "again">();
  const path = { params: { path: { run_id: run.id } } };
  const done = { onSettled: () => client.invalidateQueries({ queryKey: ["run", run.id] }) };
  const cancel = useMutation({
    mutationFn: () =>
      given(api.POST("/v1/runs/{run_id}/cancel", { ...path, body: { by: `user:${me.user_id}` } })),
    ...done,
  });
  const by = { by: `user:${me.user_id}` };
  const terminate = useMutation({
    mutationFn: () => given(api.POST("/v1/runs/{run_id}/terminate", { ...path, body: by })),
    ...done,
  });
  const suspend = useMutation({
    mutationFn: () => given(api.POST("/v1/runs/{run_id}/suspend", { ...path, body: by })),
    ...done,
  });
  const resume = useMutation({
    mutationFn: () => given(api.POST("/v1/runs/{run_id}/resume", { ...path, body: by })),
    ...done,
  });
  const retry = useMutation({
    mutationFn: () => given(api.POST("/v1/runs/{run_id}/retry", { ...path })),
    ...done,
  });
  const trouble = cancel.error ?? terminate.error ?? suspend.error ?? resume.error ?? retry.error;
  const close = () => setOpen(undefined);
  return (
    <>
      <div className="buttons">
        {mayOperate(me) && (
          <>
            {run.state === "failed" && (
              <button
                type="button"
                className="primary"
                disabled={retry.isPending}
                onClick={() => retry.mutate()}
              >
                Retry
              </button>
            )}
            {!hasEnded(run) && run.suspended_at === undefined && (
              <button type="button" disabled={suspend.isPending} onClick={() => suspend.mutate()}>
                Suspend
              </button>
            )}
            {!hasEnded(run) && run.suspended_at !== undefined && (
              <button
                type="button"
                className="primary"
                disabled={resume.isPending}
                onClick={() => resume.mutate()}
              >
                Resume
              </button>
            )}
            {!hasEnded(run) && (
              <button type="button" onClick={() => setOpen("signal")}>
                Signal
              </button>
            )}
            <button type="button" onClick={() => setOpen("again")}>
              Run again
            </button>
            {!hasEnded(run) && (
              <button
                type="button"
                className="danger"
                disabled={cancel.isPending}
                onClick={() => cancel.mutate()}
              >
                Cancel
              </button>
            )}
            {!hasEnded(run) && (
              <button
                type="button"
                className="danger"
                disabled={terminate.isPending}
                onClick={() => {
                  if (window.confirm(`End ${run.id} at once? Its clean-up will not run.`)) terminate.mutate();
                }}
              >
                Terminate
              </button>
            )}
          </>
        )}
        <CopyButton label="Copy as curl" text={() => curlOf(run, document.baseURI, me.isKnown)} />
        <CopyButton label="Copy as Python" text={() => pythonOf(run, document.baseURI)} />
      </div>
      {trouble !== null && (
        <p className="trouble" role="alert">
          {trouble.message}
        </p>
      )}
      {open === "signal" && <SignalDialog run={run} names={awaited} onClose={close} />}
      {open === "again" && <RunAgain run={run} onClose={close} />}
    </>
  );
}
