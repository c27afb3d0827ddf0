"""The hash chain of the audit trail: computes the hash of an event, and verifies that no row was changed.

Each namespace has a chain. An event's hash covers the event and the previous hash. So changing or removing an event or
a seal requires recomputing all later hashes, which a hash stored elsewhere reveals.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from signoff.records import AuditEvent, Seal
from signoff.records.origins import facts_of
from signoff.stores.wrappers.store_wrapper import unwrapped

AT_ONCE = 500
GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a chain.

    Attributes:
        events: Number of sealed events.
        head: The last seal's hash. Store it elsewhere to verify later that the chain up to it is unchanged.
        problems: The first broken link, described; empty if the chain is intact.
        unchecked: Number of redacted events, whose hash cannot be checked here.
    """

    events: int
    head: str
    problems: tuple[str, ...]
    unchecked: int = 0


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """An event that a source outside the chain knows of.

    Attributes:
        seq: Its position.
        hash: Its hash; None: unknown.
        source: Time and place of the knowledge, such as ``it was anchored at ...``.
    """

    seq: int
    hash: str | None
    source: str


class Chain(Protocol):
    """Reads a namespace's chain: a store, or a client that need not trust its server."""

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]: ...


def hash_of(previous: str, event: AuditEvent) -> str:
    """Return the hash that seals an event after the one with hash ``previous``.

    It covers the event's contents, not the formatting of its JSON.
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
    if event.origin is not None:  # keeps the hash of events from before origins existed
        facts += (facts_of(event.origin),)
    text = previous + json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(details: str | None) -> object:
    try:
        return None if details is None else json.loads(details)
    except (ValueError, RecursionError):
        return details  # written without the store


async def verify(
    chain: Chain, *, expected: tuple[int, str] | None = None, known_events: Sequence[KnownEvent] = ()
) -> Verdict:
    """Verify a whole chain.

    By itself a chain shows only that its events follow one another. That also holds for a chain that was cut off or
    rewritten as a whole. ``expected`` and ``known_events`` show that it is still the same chain.

    Args:
        chain: The namespace's chain.
        expected: The seq and hash of a seal, stored elsewhere.
        known_events: Further events known from outside.
    """
    kept = unwrapped(chain)
    if expected is not None:
        known_events = [KnownEvent(*expected, "it was noted"), *known_events]
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
