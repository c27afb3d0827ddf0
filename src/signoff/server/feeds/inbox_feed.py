"""Telling people of changes of their inboxes: one reader of the audit trail for all who listen to a server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.people.questions.question_state import Case
from signoff.records import AuditEvent, AuditKind, Promise, PromiseState, Seal
from signoff.redaction import Redaction, Redactor
from signoff.runtime.loggers import own_logger
from signoff.server.auth.actors import Actor
from signoff.server.auth.roles import Reach
from signoff.server.http.responses import written_json
from signoff.stores.contract.store import Store

log = own_logger("signoff.server")

KEPT: Final = 1000  # changes, for those who resume or are slow
KEPT_BYTES: Final = 4 * 1024 * 1024  # of a namespace
RESUMED: Final = 200
"""How far back a server looks that has just begun, for those whom another one told before."""
AT_ONCE: Final = 100

_NO_CHANGE: Final = frozenset({AuditKind.VIEWED, AuditKind.REFUSED})


@dataclass(frozen=True, slots=True)
class Happening:
    """What the trail says of a question, with the question as it is.

    Attributes:
        seq: Its place in the chain.
        question: The question, without its payloads.
        case: What its policy says; None if this version cannot read it: then only users with full access are notified.
        former: As it was asked before it went to others; None if it did not.
        told: The event for whoever sees the question.
    """

    seq: int
    question: Promise
    case: Case | None
    former: Case | None
    told: bytes

    @classmethod
    def of(cls, seal: Seal, event: AuditEvent, question: Promise, shown: Promise) -> Happening:
        """Make one of an event of the trail, with the question as it is and as it is shown."""
        name = "changed" if question.state is PromiseState.PENDING else "settled"
        if name == "changed" and event.kind is AuditKind.ASKED:
            name = "asked"
        told = b"id: %d\nevent: %b\ndata: %b\n\n" % (seal.seq, name.encode(), written_json(shown))
        return cls(seal.seq, _outline(question), _case(question), _former(event, question), told)


@dataclass(frozen=True, slots=True)
class Interest:
    """Whose inbox is listened to.

    Attributes:
        actor: Who listens.
        names: Assignees whose questions they want, as ``Actor.inbox`` gives them; None: all that they see.
        run_id: The run whose questions they want; None: all.
    """

    actor: Actor
    names: frozenset[str] | None
    run_id: str | None

    def event(self, happening: Happening) -> bytes | None:
        """Return what they are told of a change, if anything."""
        if self.run_id is not None and happening.question.run_id != self.run_id:
            return None
        if self._has(happening.case) or (happening.case is None and self._has_unreadable(happening.question)):
            return happening.told
        if happening.former is not None and self._has(happening.former):
            gone = to_json({"id": happening.question.id})
            return b"id: %d\nevent: gone\ndata: %b\n\n" % (happening.seq, gone)
        return None

    def _has_unreadable(self, question: Promise) -> bool:
        """Whether the list has a question that cannot be read: those who see all may withdraw it."""
        if self.actor.reach is not Reach.ALL:  # its policy is not kept here, and says nothing of them
            return False
        return self.names is None or not question.assignees or not self.names.isdisjoint(question.assignees)

    def _has(self, case: Case | None) -> bool:
        if case is None or not self.actor.sees(case):
            return False
        assignees = case.question.assignees
        return self.names is None or not assignees or not self.names.isdisjoint(assignees)


class Inbox:
    """The changes of a namespace's questions, in the order of its audit trail's chain.

    Args:
        store: An open store, bound to the namespace.
        redaction: What is hidden of questions.
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
        """Read what was sealed since, if anybody listens."""
        async with self._opening:
            if not self._readers:
                self._is_open = False
            if self._is_open:
                await self._read_on()

    async def events(
        self, interest: Interest, last_seq: int | None, wait: Callable[[asyncio.Event], Awaitable[bool]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield events after ``last_seq``; an event ``gap`` first if there were more than is known.

        Args:
            interest: Whose inbox.
            last_seq: The last place in the chain that the listener knows of; None: begin now.
            wait: Waits for an event, for a while; False ends the stream.
        """
        added = asyncio.Event()
        self._readers.add(added)
        try:
            await self._open(resumes=last_seq is not None)
            told = self._end if last_seq is None else last_seq
            is_known = self._since <= told <= self._end
            if is_known:
                yield b"id: %d\n\n" % told  # an id without data is remembered, and is no event
            while True:
                if not is_known:
                    told = self._end
                    yield b"id: %d\nevent: gap\ndata: {}\n\n" % told
                added.clear()
                end, events = self._end, self._after(told, interest)
                for event in events:
                    yield event
                told = end
                if not await wait(added):
                    return
                if not added.is_set():
                    yield b"id: %d\n\n" % told
                is_known = self._since <= told
        finally:
            self._readers.discard(added)

    def _after(self, seq: int, interest: Interest) -> list[bytes]:
        told = (interest.event(happening) for happening in self._kept if happening.seq > seq)
        return [event for event in told if event is not None]

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
        size = sum(len(happening.told) for happening in self._kept)
        while len(self._kept) > KEPT or size > KEPT_BYTES:
            oldest = self._kept.popleft()
            size -= len(oldest.told)
            self._since = oldest.seq

    async def _happening(self, seal: Seal, event: AuditEvent) -> Happening | None:
        """Return the change that an event reports to streams, if any."""
        if event.kind in _NO_CHANGE:
            return None
        question = await self._question(event.question_id)
        if question is None or event.at < question.created_at:  # of an earlier one of that id
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
            return None  # deleted with its run, long after its end


async def begun(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Have a stream find its place, and return all of its events.

    Raises:
        StoreUnavailable: The store cannot say where the stream begins.
    """
    first = await anext(events)

    async def all_of_them() -> AsyncGenerator[bytes, None]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return all_of_them()


class Inboxes:
    """The inboxes of all namespaces that anybody has listened to.

    Args:
        store: An open store.
        redaction: What is hidden of questions.
    """

    def __init__(self, store: Store, redaction: Redaction) -> None:
        self._store = store
        self._redaction = redaction
        self._inboxes: dict[str, Inbox] = {}

    def of(self, namespace: str) -> Inbox:
        """Return the inbox of a namespace."""
        if namespace not in self._inboxes:
            self._inboxes[namespace] = Inbox(self._store.within(namespace), self._redaction)
        return self._inboxes[namespace]

    async def look(self, _: Store) -> None:
        """Read what was sealed since: a duty of the timers, after the sealing."""
        for namespace, inbox in list(self._inboxes.items()):
            try:
                await inbox.look()
            except Exception:  # of one namespace, which is to keep no other from being told
                log.exception(
                    "whoever listens to the inbox of namespace %r is told nothing for now", namespace
                )


class _Moved(BaseModel):
    """What the trail has of a question that went to others."""

    before: list[str] = Field(alias="from")


def _former(event: AuditEvent, question: Promise) -> Case | None:
    """Return a question as it was asked before it went to others; None if it did not."""
    try:
        moved = _Moved.model_validate_json(event.details or "null")
    except ValidationError:
        return None
    return _case(replace(question, assignees=tuple(moved.before)))


def _case(question: Promise) -> Case | None:
    """Return the question's policy state without payloads; None if this version cannot read it."""
    case = Case.readable(question, 0.0)
    if case is None:
        return None
    return replace(case, question=_outline(question), policy=replace(case.policy, timeout_answer=None))


def _outline(question: Promise) -> Promise:
    """Return a question without its payloads: thousands are kept."""
    return replace(question, data=None, value=None, note=None, progress=None)
