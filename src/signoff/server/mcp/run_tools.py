"""Tools for runs: start, list, show, signal and cancel them."""

from __future__ import annotations

from typing import Any, Final

from signoff.client.request_bodies import path_to
from signoff.server.mcp.tool import LIMIT, PAGE, Call, Tool, bounded, parameters, seconds, text

LONGEST_WAIT: Final = 50.0
"""Seconds that a call waits by default at most: many clients give up after 60."""

_LISTED: Final = ("id", "workflow", "group", "state", "created_at", "ended_at", "started_by", "session_id")


async def start_workflow(call: Call) -> dict[str, Any]:
    """Start a run by the name of its workflow."""
    given = call.arguments
    body = {name: given.get(name) for name in ("workflow", "args", "kwargs", "group")}
    return await started(call, body, given.get("run_id"))


async def started(call: Call, body: dict[str, Any], run_id: str | None) -> dict[str, Any]:
    """Start a run, and return it with the advice to poll it."""
    by = {"started_by": call.api.said["user_id"]} if call.api.said.get("user_id") else {}
    run = await call.api.post("/v1/runs", {**body, "id": run_id, **by})
    return {"run_id": run["id"], "state": run["state"], "next": "show_run returns its state and its result"}


async def list_runs(call: Call) -> dict[str, Any]:
    """Return runs without their payloads."""
    given = call.arguments
    page = await call.api.get(
        "/v1/runs",
        workflow=given.get("workflow"),
        state=given.get("state"),
        limit=given.get("limit", LIMIT),
        after=given.get("after"),
    )
    rows = [{name: run[name] for name in _LISTED if run.get(name)} for run in page["items"]]
    return {"runs": rows, "next": page.get("next")}


async def show_run(call: Call) -> dict[str, Any]:
    """Return a run, once it has ended or after ``wait_seconds``."""
    wait = call.arguments.get("wait_seconds", 0)
    run = await call.api.get(path_to("runs", call.arguments["run_id"], "result"), wait=wait)
    return bounded(run, "arguments", "result", "error")


async def signal_run(call: Call) -> dict[str, Any]:
    """Send a signal to a run."""
    given = call.arguments
    body = {name: given.get(name) for name in ("name", "value", "request_id")}
    return await call.api.post(path_to("runs", given["run_id"], "signals"), {**body, **call.api.by})


async def cancel_run(call: Call) -> dict[str, Any]:
    """Request the cancellation of a run."""
    given = call.arguments
    body = {"reason": given.get("reason"), **call.api.by}
    run = await call.api.post(path_to("runs", given["run_id"], "cancel"), body)
    return {"run_id": run["id"], "state": run["state"]}


_RUN: Final = text("The id of the run")
_STATES: Final = ["ready", "running", "paused", "succeeded", "failed", "cancelled"]

RUN_TOOLS: Final = (
    Tool(
        "start_workflow",
        "Start a workflow",
        "Start a run of a workflow by name. It goes on when this call has returned; poll it with show_run. Choose a "
        "run_id to make a repeated call safe: the same id starts one run.",
        parameters(
            ("workflow",),
            workflow=text("The name of the workflow", minLength=1),
            args={"type": "array", "description": "Its arguments by position"},
            kwargs={"type": "object", "description": "Its arguments by name"},
            run_id=text("The id of the run; repeated calls with it start one run", minLength=1),
            group=text("The group of workers"),
        ),
        start_workflow,
        ("POST", "/v1/runs"),
    ),
    Tool(
        "list_runs",
        "List runs",
        "List runs, newest first, without their arguments and results.",
        parameters(
            workflow=text("Only runs of this workflow"),
            state={"enum": _STATES, "description": "Only runs in this state"},
            **PAGE,
        ),
        list_runs,
        ("GET", "/v1/runs"),
        reads_only=True,
    ),
    Tool(
        "show_run",
        "Show a run",
        "Show the state of a run, and its result or error if it has ended. With wait_seconds it waits for the end.",
        parameters(
            ("run_id",),
            run_id=_RUN,
            wait_seconds=seconds("How long to wait for the end of the run", LONGEST_WAIT),
        ),
        show_run,
        ("GET", "/v1/runs/{run_id}/result"),
        reads_only=True,
    ),
    Tool(
        "signal_run",
        "Signal a run",
        "Send a signal to a run that waits for it, or will.",
        parameters(
            ("run_id", "name"),
            run_id=_RUN,
            name=text("The name of the signal", minLength=1),
            value={"description": "The value of the signal"},
            request_id=text("Identifies a repeated signal", maxLength=200),
        ),
        signal_run,
        ("POST", "/v1/runs/{run_id}/signals"),
    ),
    Tool(
        "cancel_run",
        "Cancel a run",
        "Request the cancellation of a run. Its cleanup runs first.",
        parameters(("run_id",), run_id=_RUN, reason=text("The reason, for the audit trail")),
        cancel_run,
        ("POST", "/v1/runs/{run_id}/cancel"),
        destroys=True,
        repeats=True,
    ),
)
