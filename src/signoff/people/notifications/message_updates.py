"""Updates of sent messages: once a question is closed, they show its outcome and cannot be answered any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.people.notifications.channels.channel import CALLS, Channel, Undelivered, UpdatingSender
from signoff.people.notifications.notices import Notice
from signoff.records import AuditEvent, AuditKind
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.paging import DeliveryFilter
from signoff.stores.contract.store import Store

CLOSINGS: Final = frozenset(
    {AuditKind.RESOLVED, AuditKind.REJECTED, AuditKind.CANCELLED, AuditKind.TIMED_OUT}
)
"""Events that close a question."""

MOST_MESSAGES: Final = 1_000
"""The newest deliveries of a question that are considered."""


def updates_messages(channel: Channel, kind: AuditKind) -> bool:
    """Whether a channel updates its messages at an event of this kind."""
    sender = channel.sender
    return kind in CLOSINGS and isinstance(sender, UpdatingSender) and sender.can_update


async def recipients_of_messages(store: Store, channel: Channel, event: AuditEvent) -> list[str]:
    """Return the recipients who have got a message that an event makes out of date, or are about to get one."""
    if not updates_messages(channel, event.kind):
        return []
    found = await _calls(store, channel.name, event.question_id)
    return list(dict.fromkeys(each.recipient for each in found if each.state is not DeliveryState.DROPPED))


async def update_messages(store: Store, channel: Channel, notice: Notice) -> str | None:
    """Update the messages that the recipient of a notice has got about its question. Repeating it changes nothing.

    Returns:
        Why there was none to update, or why one could not be updated; None if all were updated.

    Raises:
        Undelivered: An update failed, and can be tried again.
    """
    sender, delivery, question = channel.sender, notice.delivery, notice.question
    if not isinstance(sender, UpdatingSender) or notice.is_open:
        return "the question is open"  # a newer question has its id
    begins = 0.0 if question is None else question.created_at
    messages = [
        each.message
        for each in await _calls(store, channel.name, delivery.question_id)
        if each.recipient == delivery.recipient and each.seq < delivery.seq and each.created_at >= begins
    ]
    reason = "there is no message to update"
    outcomes: list[str | None] = []
    for message in messages:
        if message is None:
            continue
        try:
            await sender.update(notice, message)
            outcomes.append(None)
        except Undelivered as failure:
            if not failure.is_final:
                raise
            outcomes.append(failure.reason)
    return next((each for each in outcomes if each is not None), None) if outcomes else reason


async def _calls(store: Store, channel: str, question_id: str) -> Sequence[Delivery]:
    """Return the deliveries of a question that call for an answer."""
    which = DeliveryFilter(channel=channel, question_id=question_id)
    page = await store.list_deliveries(which, limit=MOST_MESSAGES)
    return [each for each in page.items if each.kind in CALLS]
