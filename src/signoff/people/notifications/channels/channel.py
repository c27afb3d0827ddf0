"""A notification channel: its events, recipients and retries, and the sender that delivers its notices."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, runtime_checkable

from signoff.errors import InvalidValue
from signoff.people.links.answer_links import LIFETIME_SECONDS
from signoff.people.notifications.notices import Notice
from signoff.records import AuditKind

CALLS: Final = frozenset({AuditKind.ASKED, AuditKind.REMINDED, AuditKind.ESCALATED, AuditKind.DELEGATED})
"""Events that call for an answer."""

LONGEST_WAIT_SECONDS: Final = 24 * 3600.0
"""Longest wait that a server's ``Retry-After`` can impose."""


class Undelivered(Exception):
    """A notice could not be delivered. The reason is stored and logged, so it must not contain secrets.

    Args:
        reason: The reason.
        retry_after: Seconds until the server accepts further requests of this channel.
        is_final: Whether retrying is pointless.
    """

    def __init__(self, reason: str, *, retry_after: float | None = None, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = None if retry_after is None else min(retry_after, LONGEST_WAIT_SECONDS)
        self.is_final = is_final


class Sender(Protocol):
    """Delivers notices.

    Attributes:
        is_shared: Whether all notices go to one place, regardless of the recipient.
        is_record: Whether it wants every event, including calls to answer a question that has been answered since.
        is_mailbox: Whether only the recipient can read a notice, so that it may contain an answer link.
    """

    @property
    def is_shared(self) -> bool: ...
    @property
    def is_record(self) -> bool: ...
    @property
    def is_mailbox(self) -> bool: ...

    def address_of(self, assignee: str) -> str | None:
        """Return the address that an assignee's name contains, if it does."""
        ...

    async def send(self, notice: Notice) -> str | None:
        """Deliver a notice, and return the receiver's id of the message if it can be updated. Raises Undelivered."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class UpdatingSender(Protocol):
    """A sender that can change the messages it has sent.

    Attributes:
        can_update: Whether it can with its settings.
    """

    @property
    def can_update(self) -> bool: ...

    async def update(self, notice: Notice, message: str) -> None:
        """Show a notice in place of a message, which cannot be answered any more. Raises Undelivered."""
        ...


@dataclass(frozen=True, slots=True)
class Retry:
    """When a delivery is retried, and when it is given up.

    Attributes:
        first_seconds: Wait after the first failure. It doubles with each further one, with jitter.
        max_seconds: Longest wait.
        give_up_seconds: Age at which a delivery is given up.
        max_attempts: Maximum number of attempts; None: no limit.
    """

    first_seconds: float = 5.0
    max_seconds: float = 3600.0
    give_up_seconds: float = 3 * 24 * 3600.0
    max_attempts: int | None = None

    def next_at(
        self, created_at: float, attempts: int, now: float, retry_after: float | None = None
    ) -> float | None:
        """Return when to retry, in unix seconds; None: never."""
        end = created_at + self.give_up_seconds
        if now >= end or (self.max_attempts is not None and attempts >= self.max_attempts):
            return None
        wait = min(self.max_seconds, self.first_seconds * 2.0 ** min(attempts - 1, 60))
        wait *= random.uniform(0.75, 1.25)
        if retry_after is not None:
            wait = max(wait, retry_after)
        return min(now + wait, max(end, now + (retry_after or 0.0)))


@dataclass(frozen=True)
class Channel:
    """A place where notices of questions are sent.

    Attributes:
        name: Name under which its cursor and deliveries are stored; a renamed channel starts over. It has no colon.
        sender: Delivers its notices.
        events: The events it sends.
        assignees: Sends only questions for one of these assignees; empty: all questions.
        recipients: Addresses of assignees, such as ``{"user:ana": "ana@example.org"}``.
        to: Addresses that receive every notice.
        retry: When to retry.
        concurrency: Number of concurrent deliveries per process.
        timeout_seconds: Timeout of one attempt.
        public_url: The server's URL for people.
        answer_links: Whether users who are assigned by name get a link to answer without signing in. Anyone who can
            read the notice can then answer as that user.
        answer_link_seconds: Lifetime of such a link. It never outlives the question's deadline.
        begin: Where a new channel starts: with events from ``now`` on, or with the questions that are ``open``.

    Raises:
        InvalidValue: The sender does not allow answer links, ``public_url`` is missing for them, or their lifetime is
            invalid; ``begin="open"`` without the event ``asked``; or the name has a colon.

    Example::

        Channel("hook", WebhookSender("https://example.org/hook", [os.environ["HOOK_SECRET"]]))
    """

    name: str
    sender: Sender
    events: frozenset[AuditKind] = CALLS
    assignees: frozenset[str] = frozenset()
    recipients: Mapping[str, str] = field(default_factory=dict[str, str])
    to: tuple[str, ...] = ()
    retry: Retry = field(default_factory=Retry)
    concurrency: int = 4
    timeout_seconds: float = 15.0
    public_url: str | None = None
    answer_links: bool = False
    answer_link_seconds: float = LIFETIME_SECONDS
    begin: Literal["now", "open"] = "now"

    def __post_init__(self) -> None:
        if ":" in self.name:
            raise InvalidValue("name", f"{self.name!r} must not contain a colon")
        if self.begin == "open" and AuditKind.ASKED not in self.events:
            raise InvalidValue("begin", "'open' needs the event 'asked'")
        if not 0 < self.answer_link_seconds < math.inf:
            raise InvalidValue(
                "answer_link_seconds", f"{self.answer_link_seconds} is not a number of seconds above 0"
            )
        if self.answer_links and not self.sender.is_mailbox:
            raise InvalidValue(
                "answer_links", "only mail channels allow them: other people can read other channels"
            )
        if self.answer_links and self.public_url is None:
            raise InvalidValue("answer_links", "answer links need public_url, the server's URL for people")

    def recipients_of(self, assignees: Iterable[str]) -> list[str]:
        """Return the recipients of a notice for these assignees: empty for other questions, ``[""]`` if shared.

        Of several recipients with the same address, only the first gets it.
        """
        names = tuple(assignees)
        if self.assignees and self.assignees.isdisjoint(names):
            return []
        if self.sender.is_shared:
            return [""]
        found: dict[str, str] = {}
        for recipient in (*self.to, *names):
            address = self.address_of(recipient)
            if address is not None:
                found.setdefault(address, recipient)
        return list(found.values())

    def address_of(self, recipient: str) -> str | None:
        """Return a recipient's address, if it has one."""
        if self.sender.is_shared:
            return ""
        if recipient in self.to:
            return recipient
        return self.recipients.get(recipient) or self.sender.address_of(recipient)

    def names_at(self, address: str, assignees: Iterable[str]) -> list[str]:
        """Return the assignees with a given address, ignoring case."""
        return [each for each in assignees if (self.address_of(each) or "").casefold() == address.casefold()]

    def may_link(self, recipient: str) -> bool:
        """Whether a recipient gets answer links: a user whose address belongs to no other recipient."""
        if not self.answer_links or not recipient.startswith("user:") or recipient in self.to:
            return False
        address = (self.address_of(recipient) or "").casefold()
        others = [*self.to, *(each for name, each in self.recipients.items() if name != recipient)]
        return address not in (other.casefold() for other in others)
