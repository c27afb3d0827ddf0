"""Snapshots: a run with everything that is needed to continue it in another store."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from signoff.errors import SnapshotRefused
from signoff.records import (
    Entry,
    EntryKind,
    Message,
    MessageKind,
    NewAuditEvent,
    Promise,
    Run,
    RunState,
)
from signoff.stores.contract.operations import reads, writes


@dataclass(frozen=True, slots=True)
class SavedRequest:
    """The request id of a signal or an answer. It identifies a repetition."""

    run_id: str
    request_id: str
    name: str  # of the signal; of an answer, the promise's id
    value: str | None = None  # JSON; None for an answer


@dataclass(frozen=True, slots=True)
class Joined:
    """A promise or a run that call ``n`` waits for and did not create."""

    target: Literal["promise", "run"]
    id: str
    n: int


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run with everything stored for it.

    Attributes:
        run: The run.
        entries: Its whole journal.
        promises: The promises that it created, oldest first.
        messages: Its unread messages, oldest first.
        requests: The request ids of its signals and of the answers to its promises.
        joined: Promises and runs that it waits for and did not create.
        cancel_asked: Whether it was asked to stop.
        deadline_passed: Whether it was notified that its deadline has passed.
    """

    run: Run
    entries: tuple[Entry, ...] = ()
    promises: tuple[Promise, ...] = ()
    messages: tuple[Message, ...] = ()
    requests: tuple[SavedRequest, ...] = ()
    joined: tuple[Joined, ...] = ()
    cancel_asked: bool = False
    deadline_passed: bool = False

    @property
    def id(self) -> str:
        return self.run.id

    @property
    def is_unfinished(self) -> bool:
        """Whether it may still continue."""
        return self.run.ended_at is None or self.run.retryable

    def awaited(self) -> list[Joined]:
        """Return what it has joined and has no outcome of."""
        told = {message.n for message in self.messages if message.kind is MessageKind.SETTLED}
        told |= {entry.n for entry in self.entries if entry.kind is EntryKind.COMPLETED}
        return [each for each in self.joined if self.is_unfinished and each.n not in told]


@dataclass(frozen=True, slots=True)
class Saved:
    """A run and its unfinished descendants.

    Attributes:
        runs: The run itself, then its descendants; a parent comes before its children.
        promises: Plain promises of no run that the runs wait for.
    """

    runs: tuple[SavedRun, ...]
    promises: tuple[Promise, ...] = ()

    @property
    def id(self) -> str:
        return self.runs[0].id

    def within(self, namespace: str) -> Saved:
        """Return the same snapshot in another namespace."""
        return Saved(
            tuple(
                replace(
                    saved,
                    run=replace(saved.run, namespace=namespace),
                    promises=tuple(replace(each, namespace=namespace) for each in saved.promises),
                )
                for saved in self.runs
            ),
            tuple(replace(each, namespace=namespace) for each in self.promises),
        )

    def by_position(self) -> list[SavedRun]:
        """Return the runs, those of a session in the session's order."""
        return sorted(self.runs, key=lambda saved: saved.run.position or 0)

    def sessions(self) -> dict[str, str]:
        """Return the sessions in which runs will continue, by id, each with the id of the first of these runs."""
        found: dict[str, str] = {}
        for saved in self.by_position():
            if saved.run.session_id is not None and saved.is_unfinished:
                found.setdefault(saved.run.session_id, saved.id)
        return dict(sorted(found.items()))


def message_row(message: Message) -> tuple[Any, ...]:
    """Return the columns of a message, without its namespace."""
    return (
        message.id,
        message.run_id,
        message.kind.value,
        message.at,
        message.n,
        message.name,
        message.state,
        message.value,
        message.error,
        message.by,
        message.note,
    )


def check_whole(saved: Saved) -> None:
    """Raise SnapshotRefused for a run that would wait forever in the store that loads ``saved``."""
    runs = {each.id for each in saved.runs}
    promises = {promise.id for each in saved.runs for promise in each.promises}
    promises |= {promise.id for promise in saved.promises}
    for each in saved.runs:
        for joined in each.awaited():
            if joined.id not in (runs if joined.target == "run" else promises):
                what = f"it waits for {joined.target} {joined.id!r}, which it does not include"
                raise SnapshotRefused(
                    each.id, f"{what}; save it after that has ended, or save their common parent"
                )


def loaded_run(saved: SavedRun, first_of_session: str | None, now: float) -> Run:
    """Return a run as it is after loading: unleased, and ready, so that a worker checks what it waits for."""
    run = replace(saved.run, worker_id=None, lease_until=None)
    if run.ended_at is not None:
        return run
    if run.epoch == 0 and run.session_id is not None and first_of_session != run.id:
        return replace(run, state=RunState.PAUSED, wake_at=None)
    if run.epoch == 0 and run.start_at is not None and run.start_at > now:
        return replace(run, state=RunState.PAUSED, wake_at=run.start_at)
    return replace(run, state=RunState.READY, wake_at=None)


def taken_run(run_id: str) -> SnapshotRefused:
    """Return the error for loading a run whose id exists here."""
    return SnapshotRefused(run_id, "a run with this id is in this store; a snapshot can be loaded only once")


def taken_session(run_id: str, session_id: str) -> SnapshotRefused:
    """Return the error for loading a run whose session has an unfinished run here."""
    reason = f"its session {session_id!r} has another unfinished run in this store; wait until it has ended"
    return SnapshotRefused(run_id, reason)


def taken_promise(run_id: str, promise_id: str) -> SnapshotRefused:
    """Return the error for loading a run one of whose promises exists here."""
    return SnapshotRefused(run_id, f"it waits for promise {promise_id!r}, whose id is taken in this store")


class SnapshotStore:
    """The part of ``signoff.stores.contract.store.Store`` that saves and loads runs."""

    @reads
    async def save_run(self, run_id: str) -> Saved:
        """Return a run and its unfinished descendants with everything stored for them, from one moment.

        Promises of no run are included if one of the runs has joined them.

        Raises:
            NotFound: The run does not exist.
        """

    @writes(lane="run")
    async def load_run(self, saved: Saved, event: NewAuditEvent) -> Run:
        """Create runs as returned by ``save_run``, and record the event.

        Unfinished runs are ready, or delayed if they never started. The promises that they wait for are created, too. A
        pending question is asked here, and recorded. In its session, a run follows those that ended here. Repeated with
        the same event (its id), it changes nothing.

        Returns:
            The first run as it is afterwards.

        Raises:
            SnapshotRefused: One of the runs or promises exists here, or the session of one has an unfinished run.
            InvalidValue: The event cannot be recorded (see ``record``).
        """
