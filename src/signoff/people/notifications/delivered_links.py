"""Answer links in notices. Each delivery that asks a person gets its own link, replaced by each retry.

A link is created when its message is sent, and exists in that message only. The outbox does not store it.
"""

from __future__ import annotations

import hashlib
from typing import Final

from signoff.errors import AlreadySettled, InvalidValue, NotAllowed, NotFound
from signoff.people.links.answer_links import create_link, revoke_link
from signoff.people.notifications.channels.channel import CALLS, Channel
from signoff.people.notifications.notices import Notice
from signoff.people.questions.question_state import QuestionState
from signoff.records.deliveries import Delivery
from signoff.records.responders import Responder
from signoff.stores.contract.store import Store

BY: Final = "signoff:notifications"
"""Creator of the links in notices. It cannot be the name of a user."""


async def answer_url(store: Store, channel: Channel, notice: Notice) -> str | None:
    """Create the recipient's answer link, and revoke those of the delivery's earlier attempts.

    Args:
        store: The question's store.
        channel: The notice's channel.
        notice: The notice.

    Returns:
        The link's URL; None unless the recipient is one user who may answer by the channel's links.
    """
    delivery, question = notice.delivery, notice.question
    if channel.public_url is None or question is None or delivery.kind not in CALLS:
        return None
    if not channel.may_link(delivery.recipient):
        return None
    await _revoke_former(store, delivery)
    name = delivery.recipient.removeprefix("user:")
    try:
        if QuestionState.of(question, notice.now).vote_of(Responder(name)) is not None:
            return None
        made = await create_link(
            store,
            question.id,
            user_id=name,
            lifetime_seconds=channel.answer_link_seconds,
            by=BY,
            id=_link_id(delivery, delivery.attempts),
        )
    except (AlreadySettled, InvalidValue, NotAllowed):  # closed, not theirs, or not a valid user name
        return None
    return made.at(channel.public_url)


async def _revoke_former(store: Store, delivery: Delivery) -> None:
    """Revoke the link of the last attempt that created one. That attempt has revoked the earlier ones."""
    for attempt in range(delivery.attempts - 1, 0, -1):
        try:
            await revoke_link(store, _link_id(delivery, attempt), by=BY)
        except NotFound:
            continue
        return


def _link_id(delivery: Delivery, attempt: int) -> str:
    """Return the id of an attempt's link. It opens nothing: the secret is random."""
    facts = f"{delivery.namespace}\n{delivery.id}\n{attempt}"
    return hashlib.sha256(facts.encode()).hexdigest()[:32]
