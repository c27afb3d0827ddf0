"""Feeds that report inbox changes to users. One reader of the audit trail serves all listeners of a server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_json

from signoff.errors import MissingKey, NotFound
from signoff.people.questions.question_state import QuestionState
from signoff.records import AuditEvent, AuditKind, Promise, PromiseState, Seal
from signoff.redaction import Redaction, Redactor
from signoff.runtime.loggers import own_logger
from signoff.server.auth.actors import Actor
from signoff.server.auth.roles import Reach
from signoff.server.http.responses import written_json
from signoff.stores.contract.store import Store

log = own_logger("signoff.server")

KEPT: Final = 1000  # changes, for listeners that resume or are slow
KEPT_BYTES: Final = 4 * 1024 * 1024  # of a namespace
RESUMED: Final = 200
"""How many audit events a newly started server reads back, for listeners that resume from another server."""
AT_ONCE: Final = 100

_MOVES: Final = frozenset({AuditKind.DELEGATED, AuditKind.REASSIGNED, AuditKind.ESCALATED})
_LONGEST_MOVE: Final = 1024 * 1024
"""Characters of details with all assignees that a question may have, twice, and a note."""

_NO_CHANGE: Final = frozenset({AuditKind.VIEWED, AuditKind.REFUSED})


@dataclass(frozen=True, slots=True)
class Happening:
    """An inbox change: an event of the audit trail, with the current question.

    Attributes:
        seq: The event's position in the audit chain.
        question: The question, without its payloads.
        state: The question's policy state; None if this version cannot read it: then only users with full access are
            notified.
        former: The state before the question was reassigned; None if it was not.
        message: The server-sent event for users who see the question.
    """

    seq: int
    question: Promise
    state: QuestionState | None
    former: QuestionState | None
    message: bytes

    @classmethod
    def of(cls, seal: Seal, event: AuditEvent, question: Promise, shown: Promise) -> Happening:
        """Create one from an event of the audit trail, the question, and the question as it is shown."""
        name = "changed" if question.state is PromiseState.PENDING else "settled"
        if name == "changed" and event.kind is AuditKind.ASKED:
            name = "asked"
        message = b"id: %d\nevent: %b\ndata: %b\n\n" % (seal.seq, name.encode(), written_json(shown))
        return cls(seal.seq, _outline(question), _question_state(question), _former(event, question), message)


@dataclass(frozen=True, slots=True)
class Interest:
    """A listener's filter.

    Attributes:
        actor: The listener.
        names: The assignees whose questions to report, as ``Actor.inbox`` returns them; None: all that the actor sees.
        run_id: The run whose questions to report; None: all.
    """

    actor: Actor
    names: frozenset[str] | None
    run_id: str | None

    def event(self, happening: Happening) -> bytes | None:
        """Return the server-sent event for a change, or None if it does not concern the listener."""
        if self.run_id is not None and happening.question.run_id != self.run_id:
            return None
        if self._has(happening.state) or (
            happening.state is None and self._has_unreadable(happening.question)
        ):
            return happening.message
        if happening.former is not None and self._has(happening.former):
            gone = to_json({"id": happening.question.id})
            return b"id: %d\nevent: gone\ndata: %b\n\n" % (happening.seq, gone)
        return None

    def _has_unreadable(self, question: Promise) -> bool:
        """Whether the listener's inbox has an unreadable question. It is shown to users with full access only."""
        if self.actor.reach is not Reach.ALL:  # without its policy, the other users who see it are unknown
            return False
        return self.names is None or not question.assignees or not self.names.isdisjoint(question.assignees)

    def _has(self, state: QuestionState | None) -> bool:
        if state is None or not self.actor.sees(state):
            return False
        assignees = state.question.assignees
        return self.names is None or not assignees or not self.names.isdisjoint(assignees)


class Inbox:
    """The inbox feed of a namespace: changes of its questions, in the order of the audit chain.

    Args:
        store: An open store, bound to the namespace.
        redaction: The redaction rules.
    """

    def __init__(self, store: Store, redaction: Redaction) -> None:
        self._store = store
        self._redactor = Redactor(store, redaction)
        self._kept: deque[Happening] = deque()
        self._since = self._end = -1  # `_kept` has all changes after the one, up to the other
        self._readers: set[asyncio.Event] = set()
        self._is_open = False
        self._opening = asyncio.Lock()

    async def look(self) -> None:
        """Read newly sealed audit events, if there are listeners."""
        async with self._opening:
            if not self._readers:
                self._is_open = False
            if self._is_open:
                await self._read_on()

    async def events(
        self, interest: Interest, last_seq: int | None, wait: Callable[[asyncio.Event], Awaitable[bool]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events after ``last_seq``, with an event ``gap`` in place of events that are no longer kept.

        Args:
            interest: The listener's filter.
            last_seq: The last position in the audit chain that the listener received; None: start now.
            wait: Waits for an event up to a time limit; returns False to end the stream.
        """
        added = asyncio.Event()
        self._readers.add(added)
        try:
            await self._open(resumes=last_seq is not None)
            sent = self._end if last_seq is None else last_seq
            is_known = self._since <= sent <= self._end
            if is_known:
                yield b"id: %d\n\n" % sent  # the reader keeps an id without data, and raises no event for it
            while True:
                if not is_known:
                    sent = self._end
                    yield b"id: %d\nevent: gap\ndata: {}\n\n" % sent
                added.clear()
                end, events = self._end, self._after(sent, interest)
                for event in events:
                    yield event
                sent = end
                if not await wait(added):
                    return
                if not added.is_set():
                    yield b"id: %d\n\n" % sent
                is_known = self._since <= sent
        finally:
            self._readers.discard(added)

    def _after(self, seq: int, interest: Interest) -> list[bytes]:
        events = (interest.event(happening) for happening in self._kept if happening.seq > seq)
        return [event for event in events if event is not None]

    async def _open(self, *, resumes: bool) -> None:
        async with self._opening:
            if self._is_open:
                return
            last = await self._store.last_seal()
            end = -1 if last is None else last.seq
            self._kept.clear()
            self._since = self._end = max(-1, end - RESUMED) if resumes else end
            await self._read_on()
            self._is_open = True

    async def _read_on(self) -> None:
        while links := await self._store.read_chain(after=self._end, limit=AT_ONCE):
            for seal, event in links:
                happening = None if event is None else await self._happening(seal, event)
                if happening is not None:
                    self._kept.append(happening)
                self._end = seal.seq
                self._forget()
            for reader in self._readers:
                reader.set()

    def _forget(self) -> None:
        size = sum(len(happening.message) for happening in self._kept)
        while len(self._kept) > KEPT or size > KEPT_BYTES:
            oldest = self._kept.popleft()
            size -= len(oldest.message)
            self._since = oldest.seq

    async def _happening(self, seal: Seal, event: AuditEvent) -> Happening | None:
        """Return the change that an event reports to streams, if any."""
        if event.kind in _NO_CHANGE:
            return None
        question = await self._question(event.question_id)
        if (
            question is None or event.at < question.created_at
        ):  # the event is of an earlier question with the same id
            return None
        try:
            return Happening.of(seal, event, question, await self._redactor.shown(question))
        except (ValueError, TypeError, AttributeError, KeyError):
            log.exception("question %s cannot be shown: no stream reports its change", question.id)
            return None

    async def _question(self, question_id: str) -> Promise | None:
        try:
            return await self._store.get_promise(question_id)
        except NotFound:
            return None  # deleted with its run by retention
        except MissingKey as error:
            log.error(
                "question %s cannot be decrypted: no stream reports its changes: %s", question_id, error
            )
            return None


async def begun(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Wait for a stream's first event, so that it fails early, and return all of its events.

    Raises:
        StoreUnavailable: The store is unavailable when the stream starts.
    """
    first = await anext(events)

    async def all_of_them() -> AsyncGenerator[bytes, None]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return all_of_them()


class Inboxes:
    """The inbox feeds of a server, by namespace. Each is created on first use.

    Args:
        store: An open store.
        redaction: The redaction rules.
    """

    def __init__(self, store: Store, redaction: Redaction) -> None:
        self._store = store
        self._redaction = redaction
        self._inboxes: dict[str, Inbox] = {}

    def of(self, namespace: str) -> Inbox:
        """Return the inbox feed of a namespace."""
        if namespace not in self._inboxes:
            self._inboxes[namespace] = Inbox(self._store.within(namespace), self._redaction)
        return self._inboxes[namespace]

    async def look(self, _: Store) -> None:
        """Read newly sealed audit events: a periodic job, which runs after the sealing."""
        for namespace, inbox in list(self._inboxes.items()):
            try:
                await inbox.look()
            except Exception:  # a failure in one namespace must not stop the feeds of others
                log.exception("inbox events of namespace %r are delayed", namespace)


class _Moved(BaseModel):
    """Audit details of a question that was reassigned."""

    before: list[str] = Field(alias="from")


def _former(event: AuditEvent, question: Promise) -> QuestionState | None:
    """Return a question's state before it was reassigned; None if it was not."""
    if event.kind not in _MOVES or len(event.details or "") > _LONGEST_MOVE:
        return None  # other details may be large, and are not read
    try:
        moved = _Moved.model_validate_json(event.details or "null")
    except ValidationError:
        return None
    return _question_state(replace(question, assignees=tuple(moved.before)))


def _question_state(question: Promise) -> QuestionState | None:
    """Return the question's policy state without payloads; None if this version cannot read it."""
    state = QuestionState.readable(question, 0.0)
    if state is None:
        return None
    return replace(state, question=_outline(question), policy=replace(state.policy, timeout_answer=None))


def _outline(question: Promise) -> Promise:
    """Return a question without its payloads, to save memory: thousands are kept."""
    return replace(question, data=None, value=None, note=None, progress=None)
