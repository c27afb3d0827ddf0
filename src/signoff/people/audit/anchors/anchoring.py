"""Anchoring: periodically stores the heads of all namespaces' chains outside the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from signoff.errors import StoreUnavailable
from signoff.observability import events
from signoff.observability.events import CheckpointAnchored
from signoff.people.audit.anchors.anchor import Anchor, AnchorUnavailable, cursor_of
from signoff.people.audit.anchors.checkpoint import ORIGIN, Checkpoint, check_origin
from signoff.records import Seal
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.audit")

EVERY_SECONDS: Final = 60.0
LONGEST_PAUSE: Final = 600.0
"""Longest pause between attempts at a failing anchor, in seconds."""

PATIENCE_SECONDS: Final = 30.0
"""Timeout of storing one checkpoint."""

MOST_FAILURES: Final = 3
"""After this many refused heads an anchor is considered unavailable until the next attempt."""

AT_ONCE: Final = 100
EMPTY: Final = "0" * 64
"""The hash of a chain without events."""

NO_SEAL: Final = Seal(-1, "", EMPTY)


@dataclass(slots=True)
class State:
    """The health of one anchor, in this process.

    Attributes:
        failures: Consecutive failures.
        failing_since: Time of the first of them, in unix seconds; None: the last attempt succeeded.
        error: The last failure.
    """

    failures: int = 0
    failing_since: float | None = None
    error: str | None = None


class Anchoring:
    """Stores the heads of a store's chains in anchors. Any number of processes may do so for one database.

    It runs beside sealing, so a slow or unavailable anchor delays nothing. The store's cursor of an anchor
    (``read_cursor``) advances after the anchor has the checkpoint, so each checkpoint is stored at least once.

    Args:
        store: An open store.
        anchors: The anchors.
        origin: The name of the log. It distinguishes databases that share an anchor.
        every_seconds: Interval between checkpoints.

    Raises:
        InvalidValue: The origin is invalid.
    """

    def __init__(
        self,
        store: Store,
        anchors: Sequence[Anchor],
        *,
        origin: str = ORIGIN,
        every_seconds: float = EVERY_SECONDS,
    ) -> None:
        self._store = store
        self._anchors = anchors
        self._origin = check_origin(origin)
        self._every_seconds = every_seconds
        self._seen: dict[tuple[str, str], Seal] = {}  # last head stored, by anchor and namespace
        self._behind: set[tuple[str, str]] = set()
        self._refused: set[tuple[str, str]] = (
            set()
        )  # what each anchor refused last time: tried after the others
        self.states: dict[str, State] = {anchor.name: State() for anchor in anchors}

    async def run(self) -> None:
        """Anchor until cancelled."""
        await asyncio.gather(*(self._run(anchor) for anchor in self._anchors))

    async def _run(self, anchor: Anchor) -> None:
        while True:
            pause = await self.attempt(anchor)
            await asyncio.sleep(pause)

    async def attempt(self, anchor: Anchor) -> float:
        """Bring one anchor up to date. Returns the seconds until the next attempt."""
        try:
            await self.bring(anchor)
        except StoreUnavailable as trouble:
            log.warning("anchoring of the audit trail is waiting: %s", trouble)
        except Exception as error:
            return self._note(anchor, error)
        else:
            self._succeeded(anchor)
        return self._every_seconds

    async def bring_all(self) -> None:
        """Bring all anchors up to date once. A failing anchor does not stop the others."""
        for anchor in self._anchors:
            await self.attempt(anchor)

    async def bring(self, anchor: Anchor) -> None:
        """Store the heads that the anchor does not have.

        Raises:
            AnchorUnavailable: The first failure; other heads are stored. After ``MOST_FAILURES`` the attempt ends.
        """
        gone = {namespace for name, namespace in self._seen if name == anchor.name}
        failures: list[Exception] = []

        async def bring(namespace: str, head: Seal) -> None:
            key = anchor.name, namespace
            if self._seen.get(key) == head or len(failures) >= MOST_FAILURES:
                return
            try:
                await self._bring(anchor, namespace, head)
            except StoreUnavailable:
                raise
            except Exception as error:  # one namespace must not affect the others
                failures.append(error)
                self._refused.add(key)
            else:
                self._refused.discard(key)

        refused: list[tuple[str, Seal]] = []
        async for namespace, head in heads_of(self._store):
            gone.discard(namespace)
            if (anchor.name, namespace) in self._refused:
                refused.append((namespace, head))
            else:
                await bring(namespace, head)
        for namespace, head in [*((each, NO_SEAL) for each in sorted(gone)), *refused]:
            await bring(namespace, head)
        if failures:
            raise failures[0]

    async def _bring(self, anchor: Anchor, namespace: str, head: Seal) -> None:
        store, cursor = self._store.within(namespace), cursor_of(anchor)
        known = await store.read_cursor(cursor)
        if known is not None and known > head.seq:
            self._report_behind(anchor, namespace, head, known)
        seen = self._seen.get((anchor.name, namespace))
        if known != head.seq or (
            seen is not None and seen.seq >= head.seq
        ):  # else another process has kept it
            now = self._store.clock.now()
            await keep(anchor, Checkpoint(self._origin, namespace, head.seq + 1, head.hash, now))
        if (
            known is None or known < head.seq
        ):  # never back: it is what shows that the trail is shorter than it was
            await store.expand(
                cursor, known, head.seq, []
            )  # False: another process has moved it, which is as good
        self._seen[anchor.name, namespace] = head

    def _report_behind(self, anchor: Anchor, namespace: str, head: Seal, known: int) -> None:
        if (anchor.name, namespace) in self._behind:
            return
        self._behind.add((anchor.name, namespace))
        log.error(
            "the audit trail of namespace %s ends at event %d, and event %d of it is in anchor %s: it was cut off, or "
            "an older copy of the database was restored. See `signoff audit verify`",
            namespace,
            head.seq,
            known,
            anchor.name,
        )

    def _succeeded(self, anchor: Anchor) -> None:
        state = self.states[anchor.name]
        if state.failures:
            log.warning("anchor %s takes checkpoints again", anchor.name)
        self.states[anchor.name] = State()

    def _note(self, anchor: Anchor, error: Exception) -> float:
        state = self.states[anchor.name]
        state.failures += 1
        state.error = str(error)
        if state.failing_since is None:
            state.failing_since = self._store.clock.now()
        pause = min(2.0 ** min(state.failures - 1, 20), LONGEST_PAUSE)
        if state.failures & (state.failures - 1) == 0:
            level = log.warning if isinstance(error, AnchorUnavailable) else log.error
            level(
                "the audit trail is not anchored, %d attempts failed, the next is in %d s: %s",
                state.failures,
                pause,
                error,
            )
        return pause

    def late_seconds(self, anchor: Anchor) -> float:
        """Return how long an anchor has been failing."""
        since = self.states[anchor.name].failing_since
        return 0.0 if since is None else max(0.0, self._store.clock.now() - since)

    @property
    def anchors(self) -> Sequence[Anchor]:
        """The anchors."""
        return self._anchors

    async def close(self) -> None:
        """Close the anchors."""
        for anchor in self._anchors:
            await anchor.close()


async def keep(anchor: Anchor, checkpoint: Checkpoint) -> None:
    """Store a checkpoint in an anchor, with a timeout.

    Raises:
        AnchorUnavailable: It could not be stored.
    """
    outcome = "failed"
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await anchor.keep(checkpoint)
        outcome = "kept"
    except TimeoutError:
        raise AnchorUnavailable(anchor.name, f"no response within {PATIENCE_SECONDS:g} s") from None
    finally:
        if events.subscribers:
            events.announce(CheckpointAnchored(anchor.name, outcome))


async def heads_of(store: Store) -> AsyncGenerator[tuple[str, Seal]]:
    """Yield the head of each namespace's chain, by name."""
    after = ""
    while heads := await store.heads(after=after, limit=AT_ONCE):
        for namespace, head in heads:
            yield namespace, head
        after = heads[-1][0]


async def restart(
    store: Store, anchors: Sequence[Anchor], reason: str, *, origin: str = ORIGIN
) -> Checkpoint:
    """Restart the trail of the store's namespace in all anchors, as after a restored backup.

    Earlier checkpoints stay. Verification no longer compares the trail with them.

    Args:
        store: The namespace's store.
        anchors: The anchors.
        reason: Recorded in the anchors.
        origin: The name of the log.

    Returns:
        The checkpoint.

    Raises:
        AnchorUnavailable: An anchor could not store it.
    """
    last = await store.last_seal()
    size, hash = (0, EMPTY) if last is None else (last.seq + 1, last.hash)
    checkpoint = Checkpoint(origin, store.namespace, size, hash, store.clock.now(), reason)
    for anchor in anchors:
        await keep(anchor, checkpoint)
        cursor = cursor_of(anchor)
        known = await store.read_cursor(cursor)
        await store.expand(cursor, known, checkpoint.seq, [])
    return checkpoint
