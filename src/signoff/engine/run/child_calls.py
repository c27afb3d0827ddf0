"""Child runs and detached runs: calls that start another run."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from signoff import codec
from signoff.engine.run.call_inputs import folded, inputs_text
from signoff.engine.run.calls import Call, size_error
from signoff.errors import (
    CircularWait,
    InvalidValue,
    RegistrationError,
    RunCancelled,
    SignoffError,
)
from signoff.observability.trace_context import traceparent_of
from signoff.records import (
    CallKind,
    Entry,
    NewRun,
    RunState,
)
from signoff.records.start_options import check_delay, check_id, check_priority, check_seconds, unix_time

if TYPE_CHECKING:
    from signoff.engine.run.execution import Execution


class ChildCall(Call[Any]):
    """A child run whose result this run waits for."""

    kind = CallKind.CHILD
    is_kept_elsewhere = True
    __slots__ = (
        "arguments",
        "chosen_id",
        "delay",
        "group",
        "priority",
        "returns",
        "slot",
        "start_at",
        "timeout",
        "workflow",
    )

    def __init__(
        self,
        execution: Execution,
        workflow: str,
        group: str,
        arguments: str,
        returns: Any,
        slot: tuple[str | None, int | None] = (None, None),
    ) -> None:
        super().__init__(execution, workflow)
        self.workflow = workflow
        self.group = group
        self.arguments = arguments
        self.returns = returns
        self.chosen_id: str | None = None
        self.timeout: float | None = None
        self.priority = execution.run.priority
        self.slot = slot
        self.start_at: float | None = None
        self.delay: float | None = None

    def _check_circle(self, id: str) -> str:
        """Return a chosen id, unless it names this run or its parent: waiting for them would never end.

        The store detects longer cycles when it creates the child.

        Raises:
            CircularWait: The id is this run's or its parent's.
        """
        run = self.run
        if self.kind is not CallKind.CHILD:
            return id
        if id == run.id:
            raise CircularWait([id, id])
        if id == run.parent_id and run.parent_n is not None:
            raise CircularWait([run.id, id, run.id])
        return id

    @property
    def id(self) -> str:
        """The child run's id."""
        return self.chosen_id or f"{self.run.id}.{self.n}"

    def refusal(self, known: dict[str, int]) -> SignoffError | None:
        """Return why it cannot be a new call: its id or a name is too long for the store."""
        return size_error(self.id, workflow=self.workflow, group=self.group)

    def inputs_now(self) -> str | None:
        parts = {"arguments": folded(self.arguments), "group": json.dumps(self.group)}
        if self.chosen_id is not None:
            parts["id"] = json.dumps(self.chosen_id)
        later = {"timeout": self.timeout, "start_at": self.start_at, "delay_seconds": self.delay}
        parts |= {name: json.dumps(value) for name, value in later.items() if value is not None}
        return inputs_text(parts)

    def new_run(self, now: float) -> NewRun:
        """Return the run to create, for a call at journal time ``now``."""
        parent = self.run
        start_at = self.start_at if self.delay is None else now + self.delay
        starts = now if start_at is None else max(now, start_at)
        return NewRun(
            id=self.id,
            workflow=self.workflow,
            group=self.group,
            arguments=self.arguments,
            parent_id=parent.id,
            parent_n=self.n,
            deadline_at=None if self.timeout is None else starts + self.timeout,
            priority=self.priority,
            start_at=start_at,
            concurrency_key=self.slot[0],
            concurrency_limit=self.slot[1],
            traceparent=traceparent_of(parent.namespace, parent.id, parent.traceparent),
            started_by=parent.started_by,
        )

    def outcome(self, entry: Entry) -> Any:
        if entry.state == RunState.SUCCEEDED:
            return codec.decode(entry.value or "null", self.returns)
        if entry.error is not None:
            raise self._execution.error_of(entry.error)
        raise RunCancelled(self.id)

    def options(
        self,
        *,
        id: str | None = None,
        target: str | None = None,
        timeout: float | None = None,
        returns: Any = None,
        priority: int | None = None,
        start_at: datetime | None = None,
        delay_seconds: float | None = None,
    ) -> ChildCall:
        """Set options of the child run. Options that are not given stay unchanged.

        Args:
            id: A chosen id. An existing run with this id is joined if its workflow and arguments are the same.
            target: Where it runs: ``poll://any@group``, or just the group.
            timeout: Its deadline, in seconds from its start.
            returns: The type that its result is decoded as.
            priority: Workers claim ready runs with a higher priority first; by default this run's priority.
            start_at: When to start it; a datetime with a time zone.
            delay_seconds: Seconds until it starts, instead of ``start_at``.

        Raises:
            RegistrationError: It has already started.
            InvalidValue: The priority is not an integer, the time has no time zone, or both kinds of delay are given.
        """
        if self.future is not None:
            raise RegistrationError(f"child {self.name!r} has already started: set options before the await")
        with self._dropped_if_refused():
            self.chosen_id = self.chosen_id if id is None else self._check_circle(check_id(id))
            self.group = self.group if target is None else group_of(target)
            self.timeout = self.timeout if timeout is None else check_seconds("timeout", timeout)
            if returns is not None:
                codec.check_type(f"{self.label}: returns", returns)
                self.returns = returns
            self.priority = self.priority if priority is None else check_priority(priority)
            self.start_at = self.start_at if start_at is None else unix_time(start_at)
            self.delay = self.delay if delay_seconds is None else check_delay("delay_seconds", delay_seconds)
            if self.start_at is not None and self.delay is not None:
                raise InvalidValue("delay_seconds", "cannot be combined with start_at")
        return self


class DetachedCall(ChildCall):
    """A run that this run starts and does not wait for."""

    kind = CallKind.DETACHED
    __slots__ = ()

    def new_run(self, now: float) -> NewRun:
        return replace(ChildCall.new_run(self, now), parent_id=None, parent_n=None)


def group_of(target: str) -> str:
    """Return the group of a target.

    Args:
        target: ``poll://any@group``, or just the group.

    Raises:
        RegistrationError: It is neither.
    """
    if "://" not in target and target.strip():
        return target
    scheme, _, rest = target.partition("://")
    _, at, group = rest.rpartition("@")
    if scheme != "poll" or not at or not group:
        raise RegistrationError(f"target {target!r} does not have the form poll://any@group")
    return group
