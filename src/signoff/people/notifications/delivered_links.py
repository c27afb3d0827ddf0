"""Answer links in messages. Each delivery that asks a person has a link of its own, which its next attempt replaces.

A link is made when a message is sent, and stands in that message only: the outbox never has one.
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
"""Who makes the links in messages. No person is called so."""


async def answer_url(store: Store, channel: Channel, notice: Notice) -> str | None:
    """Make the link by which the recipient of a notice answers, and revoke those of the delivery's former attempts.

    Args:
        store: Where the question is.
        channel: Through which the notice goes.
        notice: What is sent.

    Returns:
        The link's address; None unless the recipient is one person, by name, who may answer by the channel's links.
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
    except (AlreadySettled, InvalidValue, NotAllowed):  # it is over, or not for them; or nobody is called so
        return None
    return made.at(channel.public_url)


async def _revoke_former(store: Store, delivery: Delivery) -> None:
    """Revoke the link of the last attempt that made one: that attempt has revoked those before."""
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
