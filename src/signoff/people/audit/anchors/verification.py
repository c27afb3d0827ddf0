"""Verifies a trail against its anchors: whether it was cut off or rewritten since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from signoff.people.audit.anchors.anchor import Anchor, AnchorUnavailable, Kept, cursor_of
from signoff.people.audit.anchors.anchoring import EMPTY
from signoff.people.audit.anchors.checkpoint import Checkpoint
from signoff.people.audit.anchors.config import ANCHORS, Anchors
from signoff.people.audit.hash_chain import Chain, KnownEvent, Verdict, verify
from signoff.stores.contract.store import Store
from signoff.wire.timestamps import spell

UNANCHORED: Final = (
    "nothing outside the database anchors this trail: one whose end was cut off, or that was rewritten as a whole, "
    f"would look the same. Configure an anchor ({ANCHORS}), or pass --expect with the head of an earlier check"
)


@dataclass(frozen=True, slots=True)
class AnchorView:
    """One anchor's view of a trail.

    Attributes:
        anchor: The anchor's name.
        seq: The last event anchored since the trail's last restart; None: none, or the anchor cannot be read.
        at: Time of that checkpoint, in unix seconds.
        restarts: The restarts of the trail, with their reasons.
    """

    anchor: str
    seq: int | None = None
    at: float | None = None
    restarts: Sequence[Checkpoint] = ()


@dataclass(slots=True)
class Examination:
    """The result of verifying a trail.

    Attributes:
        verdict: The verdict on the chain itself, with all problems.
        looks: The anchors' views.
        unverified: Descriptions of checks that were not possible, although nothing is wrong.
        unavailable: The anchors that could not be read, with the reasons.
    """

    verdict: Verdict
    looks: list[AnchorView] = field(default_factory=list[AnchorView])
    unverified: list[str] = field(default_factory=list[str])
    unavailable: list[str] = field(default_factory=list[str])

    @property
    def anchored(self) -> int | None:
        """The last event that is anchored; None: none is."""
        return max((look.seq for look in self.looks if look.seq is not None), default=None)


async def examine(
    chain: Chain,
    namespace: str,
    anchors: Anchors,
    *,
    store: Store | None = None,
    expected: tuple[int, str] | None = None,
) -> Examination:
    """Verify a whole chain, and compare it with its anchors.

    Args:
        chain: The namespace's chain.
        namespace: The namespace.
        anchors: The anchors.
        store: The namespace's store, if the database is accessible: it has the anchors' cursors.
        expected: The seq and hash of a seal, stored elsewhere.
    """
    looks: list[AnchorView] = []
    unverified: list[str] = []
    unavailable: list[str] = []
    problems: list[str] = []
    known_events: list[KnownEvent] = []
    vouches = expected is not None
    for anchor in anchors.anchors:
        known = None if store is None else await store.read_cursor(cursor_of(anchor))
        try:
            kept = await anchor.read(anchors.origin, namespace)
        except AnchorUnavailable as error:
            unavailable.append(str(error))
            kept = None
        else:
            if kept is None:
                unverified.append(_unreadable_anchor(anchor, known))
        if known is not None:
            known_events.append(KnownEvent(known, None, f"anchor {anchor.name} was given it"))
        if kept is None:
            looks.append(AnchorView(anchor.name))
            continue
        since, restarts = since_restart(kept)
        known_events += [
            KnownEvent(each.seq, each.hash, f"it was anchored at {_time(each.at)} in {anchor.name}")
            for each in since
        ]
        last = max(since, key=lambda each: each.seq, default=None)
        looks.append(
            AnchorView(
                anchor.name, None if last is None else last.seq, None if last is None else last.at, restarts
            )
        )
        vouches = vouches or last is not None
        if kept.unreadable:
            unverified.append(f"{kept.unreadable} lines of anchor {anchor.name} are not checkpoints")
        if known is not None and known > (-1 if last is None else last.seq):
            problems.append(
                f"anchor {anchor.name} ends at event {-1 if last is None else last.seq}, and was given event {known}: "
                "the anchor was cut off, replaced or moved"
            )
    verdict = await verify(chain, expected=expected, known_events=known_events)
    if not vouches and not unavailable:
        unverified.insert(0, UNANCHORED)
    return Examination(
        Verdict(verdict.events, verdict.head, (*verdict.problems, *problems), verdict.unchecked),
        looks,
        unverified,
        unavailable,
    )


def since_restart(kept: Kept) -> tuple[Sequence[Checkpoint], Sequence[Checkpoint]]:
    """Return the checkpoints since the trail's last restart, and those of all restarts."""
    restarts = [place for place, each in enumerate(kept.checkpoints) if each.restart is not None]
    first = restarts[-1] if restarts else 0
    return kept.checkpoints[first:], [kept.checkpoints[place] for place in restarts]


async def disagreement(chain: Chain, checkpoint: Checkpoint) -> str | None:
    """Return how a chain differs from a checkpoint, with one read; None: it does not."""
    if checkpoint.size == 0:
        return None if checkpoint.hash == EMPTY else "a checkpoint of an empty trail has a hash"
    links = await chain.read_chain(after=checkpoint.seq - 1, limit=1)
    if not links or links[0][0].seq != checkpoint.seq:
        return f"event {checkpoint.seq} was anchored at {_time(checkpoint.at)} but is missing"
    if links[0][0].hash != checkpoint.hash:
        return f"event {checkpoint.seq} had another hash when it was anchored at {_time(checkpoint.at)}"
    return None


def _unreadable_anchor(anchor: Anchor, known: int | None) -> str:
    given = "nothing yet" if known is None else f"event {known} last"
    return f"anchor {anchor.name} cannot be read back (it was given {given}): pass --expect with its receiver's copy"


def _time(at: float) -> str:
    return spell(at, "%Y-%m-%d %H:%M:%S UTC")
