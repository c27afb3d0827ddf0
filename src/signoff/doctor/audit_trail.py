"""Checks of the audit trails of a database against their anchors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from signoff.doctor.findings import Check, Verdict, failure, ok, skipped, warning
from signoff.people.audit.anchors.anchor import Anchor, AnchorUnavailable, Kept, cursor_of
from signoff.people.audit.anchors.anchoring import EVERY_SECONDS, heads_of
from signoff.people.audit.anchors.config import ANCHORS, Anchors
from signoff.people.audit.anchors.verification import disagreement, since_restart
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.store_wrapper import unwrapped

COMPARED: Final = 1000
"""How many of an anchor's newest checkpoints are compared. ``signoff audit verify`` compares all."""

LATE_SECONDS: Final = 5 * EVERY_SECONDS
NAMED: Final = 3


@dataclass(slots=True)
class Trail:
    """The comparison of the audit trails with one anchor.

    Attributes:
        anchor: The anchor.
        error: Why it could not be read.
        can_be_read: Whether this kind of anchor can be read.
        problems: Differences between trails and anchor.
        late: Namespaces with events that should have been anchored already.
        unreadable: How many of its lines are not checkpoints.
        is_all: Whether all of its checkpoints were compared.
        namespaces: How many namespaces have checkpoints.
    """

    anchor: str
    error: str | None = None
    can_be_read: bool = True
    problems: list[str] = field(default_factory=list[str])
    late: list[str] = field(default_factory=list[str])
    unreadable: int = 0
    is_all: bool = True
    namespaces: int = 0


async def look(store: Store, anchors: Anchors) -> list[Trail]:
    """Compare the trails of all namespaces of an open store with the anchors."""
    try:
        return [await _look(unwrapped(store), anchors.origin, anchor) for anchor in anchors.anchors]
    finally:
        await anchors.close()


async def _look(store: Store, origin: str, anchor: Anchor) -> Trail:
    found = Trail(anchor.name)
    try:
        kept = await anchor.read(origin)
    except AnchorUnavailable as error:
        found.error, kept = str(error), None
    else:
        found.can_be_read = kept is not None
    names = [namespace async for namespace, _ in heads_of(store)]
    if kept is not None:
        found.unreadable = kept.unreadable
        names += [each.namespace for each in kept.checkpoints]
        found.namespaces = len({each.namespace for each in kept.checkpoints})
    left = COMPARED
    for namespace in dict.fromkeys(names):
        mine = (
            None if kept is None else Kept([each for each in kept.checkpoints if each.namespace == namespace])
        )
        left -= await _compare(found, store.within(namespace), anchor, mine, left)
    found.is_all = left > 0
    return found


async def _compare(found: Trail, store: Store, anchor: Anchor, kept: Kept | None, most: int) -> int:
    """Compare one namespace. Returns how many checkpoints were compared."""
    known = await store.read_cursor(cursor_of(anchor))
    last = await store.last_seal()
    end = -1 if last is None else last.seq
    of = f"of namespace {store.namespace}"
    if known is not None and known > end:
        found.problems.append(
            f"the trail {of} ends at event {end}, and {anchor.name} was given event {known}"
        )
    else:
        waiting = await store.read_chain(after=-1 if known is None else known, limit=1)
        if waiting and waiting[0][1] is not None and store.clock.now() - waiting[0][1].at > LATE_SECONDS:
            found.late.append(store.namespace)
    if kept is None:
        return 0
    since, _ = since_restart(kept)
    latest = max((each.seq for each in since), default=-1)
    if known is not None and known > latest:
        found.problems.append(f"{anchor.name} ends at event {latest} {of}, and was given event {known}")
    newest = since[-max(most, 1) :]
    for checkpoint in reversed(newest):
        wrong = await disagreement(store, checkpoint)
        if wrong is not None:
            found.problems.append(f"the trail {of} is not what {anchor.name} has: {wrong}")
            break
    return len(newest)


def trails(looked_at: Sequence[Trail]) -> Iterable[Verdict]:
    """Judge all anchors."""
    if not looked_at:
        yield skipped(
            f"the audit trail has no anchor outside the database ({ANCHORS}), so truncation and tampering cannot be "
            "detected"
        )
    for found in looked_at:
        yield from _judge(found)


def _judge(found: Trail) -> Iterable[Verdict]:
    for problem in found.problems[:NAMED]:
        yield failure(
            f"{problem}: the trail was truncated or rewritten, or an older copy of the database was restored; see "
            "signoff audit verify, and after a restored backup signoff audit restart"
        )
    if found.error is not None:
        yield failure(found.error)
    if found.late:
        yield warning(
            f"{found.anchor} lacks events of {', '.join(found.late[:NAMED])} from over {LATE_SECONDS / 60:g} minutes "
            f"ago: is a server or a worker with {ANCHORS} running? Its log says why"
        )
    if found.unreadable:
        yield warning(f"{found.unreadable} lines of {found.anchor} are not checkpoints: were they changed?")
    if found.problems or found.error is not None or found.late:
        return
    if not found.can_be_read:
        yield skipped(f"{found.anchor} cannot be read back: compare with the checkpoints at its receiver")
    else:
        newest = (
            ""
            if found.is_all
            else f" (of its newest {COMPARED} checkpoints; signoff audit verify compares all)"
        )
        yield ok(f"{found.anchor} agrees with the trails of {found.namespaces} namespaces{newest}")


CHECKS: Mapping[str, Check[Sequence[Trail]]] = {"audit trail": trails}
