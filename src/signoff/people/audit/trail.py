"""The audit trail: what is recorded beside a question's own events, and the chain that shows if a row was touched.

Each namespace has a chain. The hash of an event is made of the event and of the hash before it; so whoever changes or
removes an event, or a seal, has to make all later hashes anew, and cannot hide it from somebody who has written down
one of them.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from signoff.errors import SignoffError, StoreError
from signoff.records import AuditEvent, AuditKind, NewAuditEvent, Promise, PromiseKind, Seal
from signoff.records.origins import facts_of
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.view import unwrapped

log = own_logger("signoff.people")

AT_ONCE = 500
LONGEST_DETAIL = 500  # characters
GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at a chain has found.

    Attributes:
        events: How many events are sealed.
        head: The last seal's hash; write it down, to know later that the chain up to it is the same.
        problems: What is wrong, in words, where the chain begins to be wrong; empty if nothing is.
        unchecked: How many events were not shown whole, so that whether they were changed cannot be known here.
    """

    events: int
    head: str
    problems: tuple[str, ...]
    unchecked: int = 0


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """An event that something outside the chain says it has had.

    Attributes:
        seq: Its place.
        hash: Its hash; None: only that there was such an event is known.
        source: When, and where from, such as ``it was anchored at ...``.
    """

    seq: int
    hash: str | None
    source: str


class Chain(Protocol):
    """Whoever can read a namespace's chain: a store, or a client of a server, who need not believe it."""

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]: ...


def hash_of(previous: str, event: AuditEvent) -> str:
    """Return the hash that seals an event after the one with hash ``previous``.

    It is made of what the event says, not of how its JSON is spelled.
    """
    facts: tuple[object, ...] = (
        event.namespace,
        event.id,
        event.at,
        event.kind.value,
        event.question_id,
        event.run_id,
        event.by,
        _plain(event.details),
    )
    if event.origin is not None:  # events of before there were origins have the hash that they had
        facts += (facts_of(event.origin),)
    text = previous + json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(details: str | None) -> object:
    try:
        return None if details is None else json.loads(details)
    except (ValueError, RecursionError):
        return details  # whoever wrote it passed by the store


async def record_refusal(
    store: Store,
    question: Promise,
    user_id: str | None,
    error: SignoffError,
    *,
    request_id: str | None = None,
    attempt: str | None = None,
) -> None:
    """Record that what somebody wanted of a question was refused, and why; if it cannot be, the log says so.

    Args:
        store: Where the question is.
        question: The question.
        user_id: Who wanted it, as they or their link said.
        error: Why it was refused.
        request_id: By which it is known, if by any.
        attempt: What they wanted, such as ``claim``; None: to answer it.
    """
    if question.kind is not PromiseKind.QUESTION:
        return
    told = {"error": type(error).__name__, "detail": str(error)[:LONGEST_DETAIL]}
    if request_id is not None:
        told["request_id"] = request_id
    if attempt is not None:
        told["attempt"] = attempt
    new = NewAuditEvent(
        uuid.uuid4().hex, AuditKind.REFUSED, question.id, question.run_id, user_id, json.dumps(told)
    )
    try:
        await store.record([new])
    except SignoffError as trouble:
        log.warning("a refusal at question %s could not be recorded: %s", question.id, trouble)


@asynccontextmanager
async def recording(
    store: Store, question: Promise, user_id: str | None, attempt: str
) -> AsyncGenerator[None]:
    """Record what is refused within; see ``record_refusal``. That the store is not available is no refusal."""
    try:
        yield
    except SignoffError as refusal:
        if not isinstance(refusal, StoreError):
            await record_refusal(store, question, user_id, refusal, attempt=attempt)
        raise


async def verify(
    chain: Chain, *, expected: tuple[int, str] | None = None, known_events: Sequence[KnownEvent] = ()
) -> Verdict:
    """Look through a whole chain.

    By itself a chain shows only that its events follow one another: of a chain whose end was cut off, or that was made
    anew as a whole, that is true, too. ``expected`` and ``known_events`` show that it is the chain of before.

    Args:
        chain: Of the namespace.
        expected: A seq and its hash that were written down before.
        known_events: What else is known of it from outside.
    """
    kept = unwrapped(chain)
    if expected is not None:
        known_events = [KnownEvent(*expected, "it was written down"), *known_events]
    claims: dict[int, list[KnownEvent]] = {}
    for each in known_events:
        claims.setdefault(each.seq, []).append(each)
    problems: list[str] = []
    seq, hash, unchecked = -1, GENESIS, 0
    while not problems:
        links = await kept.read_chain(after=seq, limit=AT_ONCE)
        if not links:
            break
        for seal, event in links:
            wrong = _wrong(seq, hash, seal, event)
            if wrong is not None:
                problems.append(wrong)
                break
            seq, hash = seal.seq, seal.hash
            unchecked += bool(event is not None and event.redacted)
            other = next((each for each in claims.pop(seq, ()) if each.hash not in (None, hash)), None)
            if other is not None:
                problems.append(f"event {seq} has hash {hash}, and had {other.hash} when {other.source}")
                break
    if not problems and (missing := [place for place in claims if place > seq]):
        first, last = claims[min(missing)][0], claims[max(missing)][-1]
        up_to = "" if first.seq == last.seq else f", and event {last.seq} when {last.source}"
        problems.append(
            f"the chain ends at event {seq}, and had event {first.seq} when {first.source}{up_to}: it was cut off, or "
            "an older copy took its place"
        )
    return Verdict(seq + 1, hash, tuple(problems), unchecked)


def _wrong(seq: int, hash: str, seal: Seal, event: AuditEvent | None) -> str | None:
    if seal.seq != seq + 1:
        return f"event {seq + 1} is missing: its seal was removed"
    if event is None:
        return f"event {seal.seq} ({seal.event_id}) is missing: it was removed"
    if not event.redacted and hash_of(hash, event) != seal.hash:
        return f"event {seal.seq} ({seal.event_id}, question {event.question_id!r}) was changed, or its seal"
    return None
