"""A channel: what it tells of, to whom, how often it tries; and the sender that does the telling."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from signoff.errors import InvalidValue
from signoff.people.links.answer_links import LIFETIME_SECONDS
from signoff.people.notifications.notices import Notice
from signoff.records import AuditKind

CALLS: Final = frozenset({AuditKind.ASKED, AuditKind.REMINDED, AuditKind.ESCALATED, AuditKind.DELEGATED})
"""Events that call for an answer."""

LONGEST_WAIT_SECONDS: Final = 24 * 3600.0
"""So long at most, whatever another side asks for."""


class Undelivered(Exception):
    """A sender could not deliver. Its text is kept and logged, so it has no secrets.

    Args:
        reason: Why, in words.
        retry_after: In how many seconds the other side wants to hear of this channel again.
        is_final: Whether it is no use to try again.
    """

    def __init__(self, reason: str, *, retry_after: float | None = None, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = None if retry_after is None else min(retry_after, LONGEST_WAIT_SECONDS)
        self.is_final = is_final


class Sender(Protocol):
    """What carries a notice to where it goes.

    Attributes:
        is_shared: Whether all that it carries goes to one place, whoever it is for.
        is_record: Whether it wants every event as it was, also what calls for an answer that somebody has given since.
        is_mailbox: Whether what it sends to a person is theirs to read, so that it may have a link to answer by.
    """

    @property
    def is_shared(self) -> bool: ...
    @property
    def is_record(self) -> bool: ...
    @property
    def is_mailbox(self) -> bool: ...

    def address_of(self, assignee: str) -> str | None:
        """Return the address that an assignee's name is by itself, if it is one."""
        ...

    async def send(self, notice: Notice) -> None:
        """Deliver a notice. Raises Undelivered."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Retry:
    """When a delivery is tried again, and when it is given up.

    Attributes:
        first_seconds: The wait after the first failure; each further one is twice as long, with jitter.
        max_seconds: The longest wait.
        give_up_seconds: How long after it was made a delivery is given up.
        max_attempts: After how many attempts it is, at the latest; None: any number.
    """

    first_seconds: float = 5.0
    max_seconds: float = 3600.0
    give_up_seconds: float = 3 * 24 * 3600.0
    max_attempts: int | None = None

    def next_at(
        self, created_at: float, attempts: int, now: float, retry_after: float | None = None
    ) -> float | None:
        """Return when to try again, in unix seconds; None: not at all."""
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
    """Somewhere to tell of questions.

    Attributes:
        name: What its cursor and its deliveries are kept under: under another name it begins anew. It has no colon.
        sender: What carries a notice to where it goes.
        events: What it tells of.
        assignees: It tells of what is asked of one of these; empty: of every question.
        recipients: Addresses of assignees, such as ``{"user:ana": "ana@example.org"}``.
        to: Addresses that are told of everything.
        retry: How often it tries.
        concurrency: How many deliveries are under way at once in one process.
        timeout_seconds: How long an attempt may take.
        public_url: Where people reach the server.
        answer_links: Whether who is asked by name gets a link to answer by without signing in. Whoever reads it may
            answer as they.
        answer_link_seconds: How long such a link is good; never longer than until the question's deadline.
        begin: What a channel that is new tells first: what happens from ``now`` on, or also once of the questions that
            are ``open`` by then.

    Raises:
        InvalidValue: There are no links by this sender, nobody says where the server is, or the time is none; it begins
            with what is open and tells nobody what is asked; its name has a colon.

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
            raise InvalidValue("name", f"{self.name!r} has a colon")
        if self.begin == "open" and AuditKind.ASKED not in self.events:
            raise InvalidValue("begin", "to tell of what is open it needs the event 'asked'")
        if not 0 < self.answer_link_seconds < math.inf:
            raise InvalidValue(
                "answer_link_seconds", f"{self.answer_link_seconds} is not a number of seconds above 0"
            )
        if self.answer_links and not self.sender.is_mailbox:
            raise InvalidValue(
                "answer_links", "only mails have them: what else there is may be read by others"
            )
        if self.answer_links and self.public_url is None:
            raise InvalidValue("answer_links", "say where people reach the server: public_url")

    def recipients_of(self, assignees: Iterable[str]) -> list[str]:
        """Return to whom it tells what is for these: none if it does not tell of theirs, ``[""]`` if it is shared.

        Of several with the same address the first is told.
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
        """Return the address of somebody who is told, if there is one."""
        if self.sender.is_shared:
            return ""
        if recipient in self.to:
            return recipient
        return self.recipients.get(recipient) or self.sender.address_of(recipient)

    def names_at(self, address: str, assignees: Iterable[str]) -> list[str]:
        """Return which of these assignees have an address, in any letter case."""
        return [each for each in assignees if (self.address_of(each) or "").casefold() == address.casefold()]

    def may_link(self, recipient: str) -> bool:
        """Whether somebody gets links to answer by: a person, at an address that is nobody else's."""
        if not self.answer_links or not recipient.startswith("user:") or recipient in self.to:
            return False
        address = (self.address_of(recipient) or "").casefold()
        others = [*self.to, *(each for name, each in self.recipients.items() if name != recipient)]
        return address not in (other.casefold() for other in others)
