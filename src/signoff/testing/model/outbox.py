"""Notifications in the reference model: each event becomes deliveries once; each lane is sent in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from signoff.errors import NotFound
from signoff.records.deliveries import Delivery, DeliveryState, NewDelivery, Report
from signoff.records.paging import DeliveryFilter
from signoff.testing.model.state import State

PENDING = DeliveryState.PENDING


class Outbox:
    """The channels' positions, and their numbered deliveries."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables = state.tables

    def read_cursor(self, namespace: str, channel: str) -> int | None:
        return self._tables.cursors.get((namespace, channel))

    def expand(
        self,
        namespace: str,
        channel: str,
        expected: int | None,
        seq: int,
        deliveries: Sequence[NewDelivery],
    ) -> bool:
        if self._tables.cursors.get((namespace, channel)) != expected:
            return False
        self._tables.cursors[namespace, channel] = seq
        for new in deliveries:
            if (namespace, new.id) not in self._tables.deliveries:
                self._append(_made(namespace, channel, new, self._state.now))
        return True

    def claim(
        self, namespace: str, channel: str, limit: int, lease_seconds: float
    ) -> tuple[list[Delivery], float | None]:
        now = self._state.now
        waiting = sorted(
            (
                (each.due_at, number, each)
                for number, each in self._of(namespace, channel)
                if each.due_at is not None
            ),
            key=lambda found: found[:2],
        )
        first = [found for found in waiting if found[0] <= now][:limit]
        due = [each for _, _, each in sorted(first, key=lambda found: found[1])]
        taken = [self._change(each, attempts=each.attempts + 1, due_at=now + lease_seconds) for each in due]
        ids = {each.id for each in due}
        return taken, min((due_at for due_at, _, each in waiting if each.id not in ids), default=None)

    def finish(self, namespace: str, delivery_id: str, attempt: int, report: Report) -> None:
        _, found = self._tables.deliveries.get((namespace, delivery_id), (0, None))
        if found is None or found.state is not PENDING or found.attempts != attempt:
            return
        if report.state is PENDING:
            self._change(found, due_at=report.due_at, error=report.error)
            return
        self._change(found, state=report.state, due_at=None, ended_at=self._state.now, error=report.error)
        following = min(self._lane(found), key=lambda each: each[0], default=None)
        if following is not None:
            self._change(following[1], due_at=self._state.now)

    def list_deliveries(self, namespace: str, which: DeliveryFilter) -> list[tuple[int, Delivery]]:
        """Return numbered deliveries, newest first."""
        found = [
            (number, each)
            for number, each in self._tables.deliveries.values()
            if each.namespace == namespace
            and which.state in (None, each.state)
            and which.channel in (None, each.channel)
            and which.question_id in (None, each.question_id)
        ]
        return sorted(found, key=lambda each: each[0], reverse=True)

    def redeliver(self, namespace: str, delivery_id: str) -> Delivery:
        if (namespace, delivery_id) not in self._tables.deliveries:
            raise NotFound("delivery", delivery_id)
        _, found = self._tables.deliveries[namespace, delivery_id]
        if found.state is PENDING:
            return found
        self._state.commit.due = True
        return self._append(
            replace(found, state=PENDING, created_at=self._state.now, ended_at=None, error=None)
        )

    def delete(self, namespace: str, before: float, limit: int) -> int:
        ended = sorted(
            (each.ended_at, number, key)
            for key, (number, each) in self._tables.deliveries.items()
            if each.namespace == namespace and each.ended_at is not None and each.ended_at < before
        )
        for _, _, key in ended[:limit]:
            del self._tables.deliveries[key]
        return len(ended[:limit])

    def _append(self, new: Delivery) -> Delivery:
        """Add a delivery to the end of its lane."""
        made = replace(new, due_at=None if self._lane(new) else self._state.now)
        self._tables.deliveries[new.namespace, new.id] = (self._state.next_number(), made)
        return made

    def _lane(self, of: Delivery) -> list[tuple[int, Delivery]]:
        """Return the pending deliveries of a lane."""
        return [
            (number, each)
            for number, each in self._of(of.namespace, of.channel)
            if (each.question_id, each.recipient) == (of.question_id, of.recipient) and each.state is PENDING
        ]

    def _of(self, namespace: str, channel: str) -> list[tuple[int, Delivery]]:
        return [
            found
            for found in self._tables.deliveries.values()
            if (found[1].namespace, found[1].channel) == (namespace, channel)
        ]

    def _change(self, delivery: Delivery, **changes: object) -> Delivery:
        key = (delivery.namespace, delivery.id)
        changed = replace(delivery, **changes)  # pyright: ignore[reportArgumentType]
        self._tables.deliveries[key] = (self._tables.deliveries[key][0], changed)
        return changed


def _made(namespace: str, channel: str, new: NewDelivery, now: float) -> Delivery:
    return Delivery(
        namespace,
        new.id,
        channel,
        new.recipient,
        new.event_id,
        new.seq,
        new.kind,
        new.question_id,
        PENDING,
        now,
        new.run_id,
    )
