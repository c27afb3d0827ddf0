"""Runs whose code is a function of a process on a Resonate SDK.

Such a run opens an invocation with its id, its arguments and its deadline, and waits for the promise. The function's
value is its result, and the function's error its error. A cancelled run cancels the promise.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import pickletools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

from signoff.codec.strict_json import read_kept
from signoff.engine.run.execution import Program
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.timers.timers import PeriodicJob
from signoff.engine.worker.open_calls import OutcomeQuestion
from signoff.engine.worker.process_identity import new_worker
from signoff.engine.worker.worker import Worker
from signoff.errors import (
    AlreadySettled,
    IdConflict,
    NotFound,
    PromiseRejected,
    PromiseTimeout,
    RunTimeout,
    StepFailed,
    StoreUnavailable,
)
from signoff.records import Promise, PromiseKind, Run, WorkerInfo, WorkflowInfo
from signoff.records.tasks import NewInvocation
from signoff.server.resonate.addresses import ANY
from signoff.server.resonate.durable_promises import (
    NEVER,
    Details,
    details_of,
    milliseconds,
    rejection,
    to_new,
)
from signoff.server.resonate.requests import BRANCH, PARENT, TARGET
from signoff.stores.contract.store import Store
from signoff.wire.durable_values import decoded, to_value, unwrapped
from signoff.workflow.context import Context
from signoff.workflow.registry import Registry, WorkflowProgram

RUN: Final = "signoff:run"
"""The tag of a promise that a run has opened: the run's id."""

CREATED: Final = "signoff:run-created"
"""The tag with the time of the run's creation: an id can be used again once its run is deleted."""

VERSION: Final = 1
"""The version of the function: the one that the SDKs register by default."""

_WORKER: Final = "resonate:"
"""The beginning of the ids of workers of ``FunctionCalls``."""

_UNTIL_OPENED: Final = RetryPolicy(
    max_attempts=1_000_000, retried=lambda error: isinstance(error, StoreUnavailable)
)


class FunctionCalls:
    """The programs of a worker that calls functions: each name is a function of the group's processes.

    Args:
        store: An open store, bound to the namespace.
        group: The group.

    Attributes:
        called: The names that the worker may claim runs of.
    """

    periodic_jobs: Sequence[PeriodicJob] = ()
    changes = 0

    def __init__(self, store: Store, group: str) -> None:
        self.called: frozenset[str] = frozenset()
        self._store = store
        self._registry = Registry(group)

    def names(self) -> Sequence[str]:
        """Return the names that the worker may claim runs of."""
        return sorted(self.called)

    def program(self, workflow: str, version: str | None) -> Program:
        """Return the code of each run."""
        return WorkflowProgram(workflow, str(VERSION), self._call, __name__, self._registry)

    def describe(self, group: str) -> Iterator[WorkflowInfo]:
        """Yield nothing: the server does not know the functions."""
        yield from ()

    def outcome_question(self, run: Run, call: StepCall, refused: str | None = None) -> OutcomeQuestion:
        """Return the question about a step whose outcome is unknown. Its steps can be repeated, so it asks none."""
        return self._registry.outcome_question(run, call, refused)

    async def _call(self, ctx: Context, /, *_: Any, **__: Any) -> Any:
        try:
            promise_id = await ctx.step("invoke", self._open, ctx.run_id, retry=_UNTIL_OPENED, compare=None)
            return to_result(await (await ctx.promise(id=promise_id)))
        except asyncio.CancelledError:
            await ctx.step("cancel", self._cancel, ctx.run_id, retry=_UNTIL_OPENED, compare=None)
            raise
        except PromiseTimeout:
            raise RunTimeout(ctx.run_id) from None
        except PromiseRejected as rejected:
            raise to_error(rejected) from None

    async def _open(self, run_id: str) -> str:
        """Open the invocation of a run. Repeated, it returns the same promise.

        Raises:
            IdConflict: Other promises have its ids.
        """
        run = await self._store.get_run(run_id)
        for new in invocations_of(run):
            try:
                opened = await self._store.open_invocation(new)
            except IdConflict:  # the promise of a run, or a question
                continue
            if opened.was_created or is_call_of(opened.promise, run):
                return new.id
        raise IdConflict(run_id, "other promises have the ids of its invocation")

    async def _cancel(self, run_id: str) -> None:
        """Cancel the promise of a run, if it has one and that is pending."""
        promise = await promise_of(self._store, await self._store.get_run(run_id))
        if promise is not None:
            await cancel(self._store, promise)


async def promise_of(store: Store, run: Run) -> Promise | None:
    """Return the promise that a run has opened, or None."""
    for new in invocations_of(run):
        with suppress(NotFound):
            promise = await store.get_promise(new.id)
            if is_call_of(promise, run):
                return promise
    return None


async def cancel(store: Store, promise: Promise) -> None:
    """Cancel the promise of a run that has ended or is about to. One that is settled stays as it is."""
    settlement = rejection("RunCancelled", "the run that called it has ended", is_cancelled=True)
    with suppress(AlreadySettled):
        await store.settle(promise.id, PromiseKind.PROMISE, settlement)


def invocations_of(run: Run) -> Iterator[NewInvocation]:
    """Yield the invocation of a run, and the one that it opens if another promise has its id."""
    for id in (run.id, f"{run.id}~{milliseconds(run.created_at)}"):
        target = f"poll://{ANY}@{run.group}"
        tags = {
            "resonate:origin": id,
            BRANCH: id,
            PARENT: id,
            "resonate:scope": "global",
            TARGET: target,
            RUN: run.id,
            CREATED: str(run.created_at),
        }
        call = {"func": run.workflow, **json.loads(run.arguments), "version": VERSION}
        param = to_value(json.dumps(call, ensure_ascii=False, separators=(",", ":")))
        # Rounded down, so that the promise has timed out whenever its run passes the deadline.
        timeout_at = NEVER if run.deadline_at is None else math.floor(run.deadline_at * 1000)
        yield NewInvocation(to_new(id, Details(param, tags, timeout_at)), target, id, id)


def is_call_of(promise: Promise, run: Run) -> bool:
    """Whether this run has opened a promise."""
    tags = details_of(promise).tags
    return (tags.get(RUN), tags.get(CREATED)) == (run.id, str(run.created_at))


def run_id_of(promise: Promise) -> str | None:
    """Return the id of the run that has opened a promise, if one has."""
    return details_of(promise).tags.get(RUN)


def to_result(value: Any) -> Any:
    """Return the result of a run from its function's value: without the headers that the SDK of 2024 sends."""
    wrapped = unwrapped(value)
    if wrapped is None:
        return value
    data = wrapped.get("data")
    if not data:
        return None
    text = decoded(data)
    return value if text is None else read_kept(text)


def to_error(rejected: PromiseRejected) -> Exception:
    """Return the error of a run from its function's: with its name and message, if an SDK wrote it."""
    value = to_result(rejected.value)
    if not isinstance(value, dict):
        return rejected
    record = cast("dict[str, Any]", value)
    if isinstance(message := record.get("__error__"), str):  # the SDK of 2024 keeps no name
        return StepFailed("Exception", message)
    if record.get("__type") not in ("error", "aggregate_error"):
        return rejected
    name, message = record.get("name"), record.get("message")
    if not isinstance(name, str) or not name:
        name = _pickled_class(record.get("__py_pickle")) or "Error"
    return StepFailed(name[:_LONGEST_NAME], message if isinstance(message, str) else "")


_LONGEST_NAME: Final = 200


def _pickled_class(text: Any) -> str | None:
    """Return the name of the class of a pickled error. Its opcodes are read, never run.

    The Python SDK writes the name of an error nowhere else.
    """
    if not isinstance(text, str):
        return None
    texts: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(base64.b64decode(text, validate=True)):
            if code.name == "STACK_GLOBAL":
                return texts[-1]
            if code.name == "GLOBAL":
                return str(argument).rpartition(" ")[2]
            if isinstance(argument, str):
                texts.append(argument)
    except Exception:  # it is not a pickle
        return None
    return None


def new_function_worker(store: Store, calls: FunctionCalls, group: str) -> Worker:
    """Return a worker that calls functions."""
    info = function_worker(new_worker(group, store.namespace))
    return Worker(store, calls, group=group, hot_runs=0, info=info)


def function_worker(info: WorkerInfo) -> WorkerInfo:
    """Return the description of a worker as that of one that calls functions."""
    return replace(info, id=_WORKER + info.id)


def is_function_worker(worker: WorkerInfo) -> bool:
    """Whether a worker calls functions. It runs no workflows of Signoff."""
    return worker.id.startswith(_WORKER)
