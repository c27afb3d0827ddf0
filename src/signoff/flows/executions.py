"""Executions of a flow, from outside: any process may start, answer, signal and close them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Literal, cast

from signoff.client.async_client import AsyncClient, AsyncHandle, result_of
from signoff.client.run_ends import end_of
from signoff.errors import InvalidState, InvalidValue, NotFound, RequestConflict
from signoff.flows.errors import AmbiguousEvent, ExecutionClosed, PendingInterrupts, UnknownInterrupt
from signoff.flows.graph_walk import SIGNAL
from signoff.flows.pauses import checked, given
from signoff.people.questions.progress import Progress
from signoff.people.questions.question import Question
from signoff.records import Entry, EntryKind, Promise, PromiseKind, PromiseState, RunState
from signoff.records.flow_records import CLOSE_REFUSED, INTERRUPT
from signoff.records.paging import PromiseFilter
from signoff.service.snapshots import Snapshot

_AT_ONCE: Final = 200
_SOONEST: Final = 0.01
_LATEST: Final = 0.25


@dataclass(frozen=True)
class Interrupt:
    """An open pause of an execution: the question of a chunk.

    Attributes:
        id: Its id, for ``continue_with``.
        type: The kind of answer, from ``pause_for``.
        payload: The data shown to people.
        chunk: The chunk's place in the graph.
        resume_to: ``next``, ``self`` or ``{"event": name}``.
        question_id: The id of its question in the inbox.
        question: The question's text.
        schema: The JSON Schema that the answer must match.
        resume_count: How often the chunk was resumed before, if it resumes to itself.
        max_resumes: How often it may be resumed; None: unlimited.
    """

    id: str
    type: str
    payload: Any
    chunk: str
    resume_to: str | dict[str, str]
    question_id: str
    question: str
    schema: dict[str, Any]
    resume_count: int = 0
    max_resumes: int | None = 1

    @classmethod
    def of(cls, promise: Promise) -> Interrupt | None:
        """Return the interrupt of a question, or None if the question is not a flow's."""
        asked = Question.of(promise)
        about = cast("Mapping[str, Any] | None", asked.metadata.get(INTERRUPT))
        if about is None:
            return None
        payload: Any = {key: value for key, value in asked.metadata.items() if key != INTERRUPT}
        if about["is_wrapped"]:
            payload = payload["payload"]
        return cls(
            about["id"] or promise.id,
            about["type"],
            payload,
            about["chunk"],
            about["resume_to"],
            promise.id,
            asked.text,
            asked.answer_schema,
            about["resumes"],
            about["max_resumes"],
        )


class Executions:
    """The executions of a flow.

    Args:
        client: The client.
        flow: The flow's name.

    Example::

        execution = await Executions(client, "ticket-approval").attach("ticket-T-001")
    """

    def __init__(self, client: AsyncClient, flow: str) -> None:
        self._client = client
        self._flow = flow

    async def start(self, input: Any = None, *, id: str | None = None, **options: Any) -> Execution:
        """Start an execution. It is durable when this returns; any worker of the group runs it.

        Args:
            input: The input of its first chunks.
            id: A chosen id. Starting twice with one id starts once.
            options: Further options of ``AsyncClient.start``.

        Returns:
            The execution.

        Raises:
            IdConflict: The id belongs to another flow or another input.
            InvalidValue, NotSerializable, PayloadTooLarge: The input is not valid.
        """
        await self._client.backend.open()
        handle = await self._client.start(self._flow, input, id=id, **options)
        return Execution(self._client, handle.id)

    async def attach(self, execution_id: str) -> Execution:
        """Return an existing execution, started by any process.

        Args:
            execution_id: Its id.

        Raises:
            NotFound: This flow has no such execution.
        """
        await self._client.backend.open()
        run = await self._client.backend.get_run(execution_id)
        if run.workflow != self._flow:
            raise NotFound(f"execution of flow {self._flow!r}", execution_id)
        return Execution(self._client, execution_id)

    async def load(self, snapshot: Snapshot, *, by: str | None = None) -> Execution:
        """Continue an execution that was saved in another store. Loading a snapshot again has no effect.

        Args:
            snapshot: The value of ``Execution.save``.
            by: The user who loads it, for the audit trail.

        Returns:
            The execution.

        Raises:
            SnapshotRefused: The execution exists here, or has existed here.
            InvalidValue: It is not a snapshot of this flow, or was changed. Nothing is loaded.
        """
        await self._client.backend.open()
        workflow = _workflow_of(snapshot)
        if workflow not in (None, self._flow):
            raise InvalidValue("runs.0.run.workflow", f"it is of {workflow!r}, not of flow {self._flow!r}")
        return Execution(self._client, (await self._client.load(snapshot, by=by)).id)


class Execution:
    """One execution. Its state is in the store, not in this process.

    Attributes:
        id: The run's id.
    """

    def __init__(self, client: AsyncClient, id: str) -> None:
        self.id = id
        self._client = client
        self._handle = AsyncHandle(client.backend, id)

    async def status(self) -> RunState:
        """Return the run's state."""
        return await self._handle.status()

    async def get_pending_interrupts(self, *, wait_seconds: float = 10.0) -> dict[str, Interrupt]:
        """Return the open interrupts by id, the oldest first.

        Args:
            wait_seconds: How long to wait for a running execution to pause.
        """
        await self._at_rest(wait_seconds)
        found: dict[str, Interrupt] = {}
        async for promise in self._questions(PromiseState.PENDING):
            interrupt = Interrupt.of(promise)
            if interrupt is not None:
                found[interrupt.id] = interrupt
        return found

    async def continue_with(
        self,
        interrupt_id: str,
        value: Any = None,
        *,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        note: str | None = None,
        request_id: str | None = None,
        wait_seconds: float = 10.0,
    ) -> None:
        """Answer an interrupt. Returns once the answer is durable; the execution continues in the background.

        Args:
            interrupt_id: The interrupt.
            value: The answer, such as ``{"approved": True}``.
            user_id: The user who answers; ``groups`` and ``roles`` are theirs, as in ``AsyncClient.answer``.
            note: A comment.
            request_id: An idempotency key: repeating the same answer with it succeeds without effect. The execution
                remembers it, even if an interrupt with the same chosen id is open again.
            wait_seconds: How long to wait for a running execution to reach the interrupt. An answered interrupt may
                open again: a new request id waits for that.

        Raises:
            UnknownInterrupt: The execution has no such interrupt.
            WrongAnswer, NotAllowed: The answer was refused; the interrupt stays open.
            AlreadySettled: It was answered by another user, who is named, or cancelled.
            RequestConflict: The request id was used with another value or for another interrupt.

        Example::

            await execution.continue_with(interrupt.id, {"approved": True}, user_id="ana")
        """

        async def answer(promise: Promise) -> None:
            await self._client.answer(
                promise.id,
                value,
                user_id=user_id,
                groups=groups,
                roles=roles,
                note=note,
                request_id=request_id,
            )

        promise = await self._await(interrupt_id, request_id, wait_seconds)
        try:
            await answer(promise)
        except RequestConflict as conflict:
            before = await self._used_for(conflict, interrupt_id)
            if before is None:
                raise
            await answer(before)

    async def emit(
        self,
        event: str,
        value: Any = None,
        *,
        request_id: str | None = None,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
    ) -> bool:
        """Emit an event from outside. Returns once the event is durable.

        If an interrupt waits for the event (``resume_event``), this answers it like ``continue_with``. An event that
        starts no line has no effect; the execution logs it.

        Args:
            event: The event's name.
            value: Its value, or the answer if an interrupt waits for it.
            request_id: An idempotency key: a repetition with it succeeds without effect.
            user_id: The user who answers; ``groups`` and ``roles`` are theirs.

        Returns:
            False if this event was already emitted with this ``request_id``.

        Raises:
            ExecutionClosed: The execution has ended.
            RequestConflict: The request id was used with another value, or for something else.
            AmbiguousEvent: Several interrupts wait for the event.
            WrongAnswer, NotAllowed: The interrupt refused the answer, and stays open.
        """
        checked(event, "event")
        value = given(f"a line that begins with event {event!r}", value, f"event {event}")

        async def answer(promise: Promise) -> None:
            await self._client.answer(
                promise.id, value, user_id=user_id, groups=groups, roles=roles, request_id=request_id
            )

        message = {"emit": event, "value": value}
        waiting = [
            promise async for promise in self._questions(PromiseState.PENDING) if _event_of(promise) == event
        ]
        if len(waiting) > 1:
            before = None if request_id is None else await self._answered_by(request_id)
            if before is None or _event_of(before) != event:
                raise AmbiguousEvent(event, sorted(_interrupt_id(each) or each.id for each in waiting))
            await answer(before)
            return False
        try:
            if not waiting:
                return await self._send(message, request_id, "events")
            await answer(waiting[0])
            return not _is_answered_by(waiting[0], request_id)  # for a vote given before
        except RequestConflict as conflict:
            if conflict.used_for == SIGNAL:  # it was emitted before the interrupt waited for it
                return await self._send(message, request_id, "events")
            before = await self._question_of(conflict)
            if before is None or _event_of(before) != event:
                raise
            await answer(before)
            return False

    async def close(
        self,
        *,
        pending_interrupts: Literal["refuse", "cancel"] = "refuse",
        timeout_seconds: float | None = None,
    ) -> Any:
        """Close the execution: it accepts no more events, finishes its running chunks and ends. Returns its state.

        For an execution that has ended, this returns its state again.

        Args:
            pending_interrupts: ``refuse`` raises ``PendingInterrupts`` if interrupts are open; ``cancel`` withdraws
                them, which is recorded, and ends their lines.
            timeout_seconds: How long to wait for the end.

        Raises:
            PendingInterrupts: Interrupts are open.
            TimeoutError: It did not end in time. It still ends later.
            ChunkFailed, RunCancelled: The execution's error.
        """
        if pending_interrupts not in ("refuse", "cancel"):
            raise InvalidValue(
                "pending_interrupts", f"it is 'refuse' or 'cancel', not {pending_interrupts!r}"
            )
        async with asyncio.timeout(timeout_seconds):
            run = await self._client.backend.get_run(self.id)
            request = uuid.uuid4().hex
            try:
                await self._send({"close": pending_interrupts, "id": request}, None, "close")
            except ExecutionClosed:
                return await self.result()
            async for entry in self._handle.events(after=run.first_seq - 1):
                if (interrupts := _refused(entry, request)) is not None:
                    raise PendingInterrupts(self.id, interrupts)
            return await self.result()

    async def result(self, timeout_seconds: float | None = None) -> Any:
        """Wait for the end and return the state.

        Args:
            timeout_seconds: How long to wait; by default without limit.

        Raises:
            TimeoutError: It did not end in time.
            ChunkFailed, RunCancelled: The execution's error.
        """
        async with asyncio.timeout(timeout_seconds):
            return result_of(await end_of(self._client.backend, self.id))

    async def save(self) -> dict[str, Any]:
        """Return the execution as JSON data, to load into another store. The execution here continues, too."""
        return await self._client.save(self.id)

    async def retry(self) -> None:
        """Retry an execution that a chunk has failed (``ChunkHeld``), from that chunk. No question is asked again.

        Raises:
            InvalidState: It has not failed, or cannot be retried.
        """
        await self._client.retry(self.id)

    async def cancel(self, reason: str | None = None) -> None:
        """Stop the execution where it is. Its open questions are cancelled, which is recorded."""
        await self._handle.cancel(reason)

    def events(self, after: int = -1) -> AsyncGenerator[Entry]:
        """Yield the journal's entries, live, until the end."""
        return self._handle.events(after)

    # Internal

    async def _send(self, message: dict[str, Any], request_id: str | None, what: str) -> bool:
        try:
            return await self._client.signal(self.id, SIGNAL, message, request_id=request_id)
        except InvalidState:
            raise ExecutionClosed(self.id, what) from None

    async def _questions(self, state: PromiseState | None) -> AsyncGenerator[Promise]:
        after: str | None = None
        which = PromiseFilter(PromiseKind.QUESTION, state, self.id)
        while True:
            page = await self._client.backend.list_promises(which, after=after, limit=_AT_ONCE)
            for promise in page.items:
                yield promise
            after = page.next
            if after is None:
                return

    async def _await(self, interrupt_id: str, request_id: str | None, seconds: float) -> Promise:
        """Return the question of an interrupt, waiting for a running execution to reach it."""
        until, pause = monotonic() + seconds, _SOONEST
        while True:
            is_at_rest = _is_at_rest(await self.status())
            found = await self._find(interrupt_id, request_id)
            left = until - monotonic()
            is_over = is_at_rest or left <= 0
            if found is not None and (is_over or not _may_open_again(found, interrupt_id, request_id)):
                return found
            if is_over:
                pending = list(await self.get_pending_interrupts(wait_seconds=0))
                raise UnknownInterrupt(self.id, interrupt_id, pending)
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LATEST)

    async def _find(self, interrupt_id: str, request_id: str | None) -> Promise | None:
        """Return the question of an interrupt: the one that the request answered, else the open one, else the last."""
        try:
            promise = await self._client.promises.get(interrupt_id)
        except (NotFound, InvalidValue):
            pass
        else:
            if promise.run_id == self.id and promise.kind is PromiseKind.QUESTION:
                return promise
        found: Promise | None = None
        async for each in self._questions(None):
            if _interrupt_id(each) != interrupt_id:
                continue
            if _is_answered_by(each, request_id):
                return each
            if found is None or found.state is not PromiseState.PENDING:
                found = each
        return found

    async def _used_for(self, conflict: RequestConflict, interrupt_id: str) -> Promise | None:
        """Return the earlier question of an interrupt that a request was used for, such as for a vote."""
        before = await self._question_of(conflict)
        return before if before is not None and _interrupt_id(before) == interrupt_id else None

    async def _answered_by(self, request_id: str) -> Promise | None:
        """Return the question of this execution that a request has settled or voted on."""
        async for each in self._questions(None):
            if _is_answered_by(each, request_id):
                return each
        return None

    async def _question_of(self, conflict: RequestConflict) -> Promise | None:
        """Return the question of this execution that a request id has answered."""
        if conflict.used_for is None:
            return None
        try:
            before = await self._client.promises.get(conflict.used_for)
        except (NotFound, InvalidValue):
            return None
        return before if before.run_id == self.id and before.kind is PromiseKind.QUESTION else None

    async def _at_rest(self, seconds: float) -> None:
        until, pause = monotonic() + seconds, _SOONEST
        while not _is_at_rest(await self.status()):
            left = until - monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LATEST)


def _is_at_rest(state: RunState) -> bool:
    return state is RunState.PAUSED or state.is_final


def _event_of(question: Promise) -> str | None:
    """Return the event that the answer to a question becomes, if any."""
    interrupt = Interrupt.of(question)
    if interrupt is None or not isinstance(interrupt.resume_to, dict):
        return None
    return interrupt.resume_to["event"]


def _may_open_again(question: Promise, interrupt_id: str, request_id: str | None) -> bool:
    """Whether a new request may be meant for the next interrupt with a chosen id, after an answered one.

    Without a request id it may also be a repetition of the same answer.
    """
    is_open = question.state is PromiseState.PENDING
    is_new = request_id is not None and not _is_answered_by(question, request_id)
    return is_new and not is_open and question.id != interrupt_id


def _is_answered_by(question: Promise, request_id: str | None) -> bool:
    """Whether a request has settled or voted on a question."""
    if request_id is None:
        return False
    votes = Progress.from_json(question.id, question.progress).votes
    return request_id in (question.request_id, *(vote.request_id for vote in votes))


def _interrupt_id(question: Promise) -> str | None:
    interrupt = Interrupt.of(question)
    return None if interrupt is None else interrupt.id


def _refused(entry: Entry, request: str) -> list[str] | None:
    """Return the interrupts for which an entry refuses a close; None if it is about something else."""
    if entry.kind is not EntryKind.PROGRESSED or entry.name != CLOSE_REFUSED:
        return None
    refusal = json.loads(entry.value or "{}")
    return refusal["interrupts"] if request in refusal["requests"] else None


def _workflow_of(snapshot: Snapshot) -> Any:
    """Return the workflow of a snapshot's run; None if it is not a valid snapshot."""
    try:
        return snapshot["runs"][0]["run"]["workflow"]
    except (LookupError, TypeError):
        return None
