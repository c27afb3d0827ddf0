"""The outbox: turns audit events into deliveries for each channel, and sends them until delivered or given up."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from signoff.codec.strict_json import read_object
from signoff.errors import InvalidValue, MissingKey, NotFound, StoreError
from signoff.observability import events
from signoff.observability.events import DeliveryAttempted
from signoff.people.notifications.channels.channel import CALLS, Channel, Undelivered
from signoff.people.notifications.delivered_links import answer_url
from signoff.people.notifications.message_updates import (
    recipients_of_messages,
    update_messages,
    updates_messages,
)
from signoff.people.notifications.notices import Notice, details_of, url_of
from signoff.people.questions.question_operations import bring_up_to_date
from signoff.people.questions.question_state import QuestionState
from signoff.records import AuditEvent, AuditKind, Promise, PromiseState
from signoff.records.deliveries import SENT_AS, Delivery, DeliveryState, NewDelivery, Report
from signoff.records.names import check_assignee
from signoff.redaction import Redaction, Redactor
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.contract.validation import check_deliveries
from signoff.stores.shared.failed_items import FailedItems, raise_outage

log = own_logger("signoff.notifications")

AT_ONCE = 100
MADE_AT_ONCE = 1_000
"""Number of deliveries per write, beyond those of one event."""
PAGES_AT_ONCE = 20
"""Pages of events expanded for one channel before the others get a turn."""
LEASE_MARGIN_SECONDS = 30.0
"""How much longer a delivery's lease lasts than an attempt may take."""
KEPT_SECONDS = 30 * 24 * 3600.0
"""How long finished deliveries are kept."""
CLEAN_EVERY_SECONDS = 3600.0
LONGEST_ERROR = 500  # characters


def delivery_id(namespace: str, event_id: str, channel: str, recipient: str) -> str:
    """Return the id of a delivery: the same in every process and for all attempts."""
    facts = "\n".join((namespace, event_id, channel, recipient))
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


@dataclass(eq=False)
class _Line:
    """A channel and its state in this process."""

    channel: Channel
    cursor: int | None = None
    began_at: int = -1  # events up to here are sent only if their question is open
    sending: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    held_until: float = 0.0  # the server accepts no requests before
    is_failing: bool = False  # its last attempt failed


class Dispatcher:
    """Creates deliveries of the events in a store's namespace, and sends them. Any number of processes may run one.

    It never delays a run: it reads the audit trail, which is written in any case.

    Args:
        store: An open store.
        channels: The channels.
        redaction: Hides payloads in notices.

    Example::

        dispatcher = Dispatcher(store, channels)
        timers = TimerService(store, periodic_jobs=(*PERIODIC_JOBS, dispatcher.serve))
    """

    def __init__(
        self, store: Store, channels: Sequence[Channel], *, redaction: Redaction | None = None
    ) -> None:
        self._store = store
        self._lines = [_Line(channel) for channel in channels]
        self._redactor = Redactor(store, redaction or Redaction(()))
        self._aside = FailedItems("channel", log)
        self._clean_at = 0.0
        self._is_closed = False

    async def serve(self, _: Store) -> float | None:
        """Create deliveries of new events, and start to send due ones. Returns when more is due, if known."""
        times: list[float] = []
        waiting = self._aside.waiting(self._store.clock.now())
        for line in self._lines:
            key = self._store.namespace, line.channel.name
            if key in waiting:
                continue
            try:
                is_behind = await self._expand(line)
                next_at = await self._begin(line)
            except Exception as error:  # one failing channel must not stop the others
                await raise_outage(self._store, error)
                self._aside.note(self._store.location, key, error, self._store.clock.now())
                continue
            self._aside.forget(key)
            if is_behind:
                times.append(self._store.clock.now())
            if next_at is not None:
                times.append(next_at)
        await self._clean()
        return min(times, default=None)

    @property
    def is_sending(self) -> bool:
        """Whether an attempt is under way."""
        return any(line.sending for line in self._lines)

    async def close(self) -> None:
        """Stop sending. Interrupted deliveries are sent again by another process once their leases expire."""
        self._is_closed = True
        tasks = [task for line in self._lines for task in line.sending]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for line in self._lines:
            await line.channel.sender.close()

    # Creating deliveries

    async def _expand(self, line: _Line) -> bool:
        """Create deliveries of some events. Returns whether there may be more."""
        name = line.channel.name
        for _ in range(PAGES_AT_ONCE):
            if line.cursor is None:
                line.cursor, line.began_at = await self._cursor(line.channel)
            links = await self._store.read_chain(after=line.cursor, limit=AT_ONCE)
            if not links:
                return False
            made: list[NewDelivery] = []
            end = line.cursor
            for seal, event in links:
                if event is not None:
                    made += await self._made_if_readable(line, event, seal.seq)
                end = seal.seq
                if len(made) >= MADE_AT_ONCE:
                    break
            line.cursor = end if await self._store.expand(name, line.cursor, end, made) else None
        return True

    async def _cursor(self, channel: Channel) -> tuple[int, int]:
        """Return a channel's cursor, and the position up to which it sends only open questions. Starts new channels."""
        mark = f"open:{channel.name}"
        while (cursor := await self._store.read_cursor(channel.name)) is None:
            last = await self._store.last_seal()
            end = -1 if last is None else last.seq
            if channel.begin == "open":
                # The mark comes first, so that a process that continues from here does not take older events for new
                # ones.
                await self._store.expand(mark, None, end, [])
                end = -1
            await self._store.expand(channel.name, None, end, [])
        began_at = await self._store.read_cursor(mark)
        return cursor, -1 if began_at is None else began_at

    async def _made_if_readable(self, line: _Line, event: AuditEvent, seq: int) -> list[NewDelivery]:
        """Return a channel's deliveries of an event. A failing event is skipped and blocks no later one."""
        try:
            made = await self._made(line, event, seq)
            check_deliveries(line.channel.name, made)
        except MissingKey as error:  # of this event's question alone
            log.error("channel %s left out event %s: %s", line.channel.name, event.id, error.undecrypted)
            return []
        except StoreError:
            raise
        except Exception as error:
            log.error(
                "channel %s skipped event %s of question %s, which cannot be read: %s",
                line.channel.name,
                event.id,
                event.question_id,
                error,
            )
            return []
        return made

    async def _made(self, line: _Line, event: AuditEvent, seq: int) -> list[NewDelivery]:
        """Return a channel's deliveries of an event: to those whom it notifies, and whose messages it updates."""
        channel = line.channel
        notified = await self._notified(line, event, seq)
        updated = await recipients_of_messages(self._store, channel, event)
        return [
            NewDelivery(
                delivery_id(self._store.namespace, event.id, channel.name, recipient),
                recipient,
                event.id,
                seq,
                event.kind,
                event.question_id,
                event.run_id,
            )
            for recipient in dict.fromkeys((*notified, *updated))
        ]

    async def _notified(self, line: _Line, event: AuditEvent, seq: int) -> list[str]:
        """Return the recipients whom a channel notifies of an event."""
        channel = line.channel
        if event.kind not in channel.events or await self._is_external(event):
            return []
        is_from_before = seq <= line.began_at
        concerned = await (self._still_asked(event) if is_from_before else self._concerned(event))
        if concerned is None:
            return []
        if not channel.sender.is_record:
            concerned = await self._not_excluded(event, concerned)
            if concerned is None:
                return []
        return channel.recipients_of(concerned)

    async def _is_external(self, event: AuditEvent) -> bool:
        """Whether another system answers the question, so that no person has to be notified."""
        data = details_of(event).get("data")
        if data is None:
            question = await self._question(event.question_id)
            data = None if question is None else question.data
        return isinstance(data, str) and read_object(data).get("input_type") == "external"

    async def _still_asked(self, event: AuditEvent) -> Sequence[str] | None:
        """Return the assignees of the question that an event asked; None if it is not open, or the event asked none."""
        if event.kind is not AuditKind.ASKED:
            return None
        question = await self._question(event.question_id)
        if question is None or question.state is not PromiseState.PENDING or question.created_at != event.at:
            return None  # a newer question reuses the id of a deleted one
        return question.assignees

    async def _concerned(self, event: AuditEvent) -> Sequence[str]:
        """Return the assignees that an event is for: those it calls, or else the question's."""
        if event.kind in CALLS:
            details = details_of(event)
            return _names(details.get("assignees" if event.kind is AuditKind.ASKED else "to"))
        question = await self._question(event.question_id)
        return () if question is None else question.assignees

    async def _not_excluded(self, event: AuditEvent, concerned: Sequence[str]) -> Sequence[str] | None:
        """Return the assignees who are not excluded; None if all of them are."""
        question = await self._question(event.question_id)
        state = None if question is None else QuestionState.readable(question, self._store.clock.now())
        if state is None:
            return concerned
        left = [each for each in concerned if not state.is_excluded(each)]
        return left if left or not concerned else None

    async def _question(self, question_id: str) -> Promise | None:
        try:
            return await self._store.get_promise(question_id)
        except NotFound:
            return None

    # Sending deliveries

    async def _begin(self, line: _Line) -> float | None:
        """Start to send due deliveries. Returns when more are due."""
        free = line.channel.concurrency - len(line.sending)
        if self._is_closed or free <= 0:
            return None  # running sends continue with the next delivery
        if line.held_until > self._store.clock.now():
            return line.held_until
        taken, next_at = await self._claim(line, free)
        for delivery in taken:
            task = asyncio.create_task(self._send_on(line, delivery), name=f"signoff {line.channel.name}")
            line.sending.add(task)
            task.add_done_callback(line.sending.discard)
        return next_at

    async def _claim(self, line: _Line, limit: int) -> tuple[Sequence[Delivery], float | None]:
        lease_seconds = line.channel.timeout_seconds + LEASE_MARGIN_SECONDS
        return await self._store.claim_deliveries(line.channel.name, limit, lease_seconds)

    async def _send_on(self, line: _Line, delivery: Delivery) -> None:
        """Send a delivery, then further due ones."""
        try:
            taken: Sequence[Delivery] = [delivery]
            while taken:
                delivery = taken[0]
                began = time.perf_counter()
                report = await self._attempt(line, delivery)
                await self._store.finish_delivery(delivery.id, delivery.attempts, report)
                _announce(delivery, report, time.perf_counter() - began)
                if self._is_closed or line.held_until > self._store.clock.now():
                    return
                taken, _ = await self._claim(line, 1)
        except StoreError as trouble:
            log.warning("channel %s stops until its store is available: %s", line.channel.name, trouble)
        except Exception:
            log.exception(
                "channel %s: delivery %s failed and is retried later", line.channel.name, delivery.id
            )

    async def _attempt(self, line: _Line, delivery: Delivery) -> Report:
        """Try to send a delivery, and return the outcome."""
        channel = line.channel
        try:
            notice = await self._notice(channel, delivery)
            reason = None if channel.sender.is_record else _pointless(notice, channel)
            if reason is not None:
                return Report(DeliveryState.DROPPED, error=reason)
            async with asyncio.timeout(channel.timeout_seconds):
                outdated = None
                if updates_messages(channel, delivery.kind):
                    outdated = await update_messages(self._store, channel, notice)
                sent = None
                if _is_notified(channel, notice):
                    link = await answer_url(self._store, channel, notice)
                    sent = await channel.sender.send(replace(notice, answer_url=link))
                elif outdated is not None:
                    return Report(DeliveryState.DROPPED, error=outdated)
        except Undelivered as failure:
            return self._failed(line, delivery, failure)
        except TimeoutError:
            slow = Undelivered(f"timed out after {channel.timeout_seconds:g} s")
            return self._failed(line, delivery, slow)
        except MissingKey as error:  # of this delivery's question alone
            return self._failed(line, delivery, Undelivered(error.undecrypted))
        except StoreError:
            raise
        except Exception as error:  # its text may contain a URL with a secret
            return self._failed(line, delivery, Undelivered(f"an error: {type(error).__name__}"))
        if line.is_failing:
            log.info("channel %s delivers again", channel.name)
        line.is_failing = False
        return Report(DeliveryState.DELIVERED, error=None if sent is None else f"{SENT_AS}{sent}")

    async def _notice(self, channel: Channel, delivery: Delivery) -> Notice:
        """Build the notice of a delivery from the current state. Raises Undelivered."""
        address = channel.address_of(delivery.recipient)
        if address is None and not updates_messages(channel, delivery.kind):
            raise Undelivered(f"no address is configured for {delivery.recipient} any more", is_final=True)
        links = await self._store.read_chain(after=delivery.seq - 1, limit=1)
        event = links[0][1] if links else None
        if event is None or event.id != delivery.event_id:
            raise Undelivered("its event was removed from the audit trail", is_final=True)
        question = await self._question(delivery.question_id)
        now = self._store.clock.now()
        if question is not None and event.kind in CALLS and not channel.sender.is_record:
            question = await self._with_rules(question, now)
        url = None if question is None else url_of(channel.public_url, question)
        shown = self._redactor.shown
        return Notice(delivery, address or "", await shown(event), await shown(question), url, now)

    async def _with_rules(self, question: Promise, now: float) -> Promise:
        """Return a question after the search for standing approvals: if one answers it, no notification is sent."""
        state = QuestionState.readable(question, now) if question.state is PromiseState.PENDING else None
        if state is None or not state.awaits_rules:
            return question
        return await bring_up_to_date(self._store, question)

    def _failed(self, line: _Line, delivery: Delivery, failure: Undelivered) -> Report:
        """Return when to retry, or that the delivery is given up."""
        name, now = line.channel.name, self._store.clock.now()
        reason = failure.reason.replace("\0", "")[:LONGEST_ERROR]
        if failure.retry_after is not None:
            line.held_until = now + failure.retry_after
        next_at = line.channel.retry.next_at(delivery.created_at, delivery.attempts, now, failure.retry_after)
        if failure.is_final or next_at is None:
            log.error(
                "channel %s gives up delivery %s (%s of question %s) after %d attempts: %s",
                name,
                delivery.id,
                delivery.kind.value,
                delivery.question_id,
                delivery.attempts,
                reason,
            )
            return Report(DeliveryState.DEAD, error=reason)
        if not line.is_failing:
            log.warning("channel %s failed and retries delivery %s: %s", name, delivery.id, reason)
        line.is_failing = True
        return Report(DeliveryState.PENDING, next_at, reason)

    async def _clean(self) -> None:
        """Delete deliveries that ended long ago."""
        now = self._store.clock.now()
        if now >= self._clean_at:
            deleted = await self._store.delete_deliveries(now - KEPT_SECONDS, AT_ONCE)
            self._clean_at = now if deleted == AT_ONCE else now + CLEAN_EVERY_SECONDS


def _announce(delivery: Delivery, report: Report, seconds: float) -> None:
    outcome = "retried" if report.state is DeliveryState.PENDING else report.state.value
    events.announce(
        DeliveryAttempted(
            delivery.namespace, delivery.channel, delivery.id, delivery.question_id, outcome, seconds
        )
    )


def _names(details: object) -> list[str]:
    """Return the valid assignees in an event's details, which a worker may have written in any form."""
    names: list[str] = []
    for name in cast("list[object]", details) if isinstance(details, list) else ():
        with contextlib.suppress(InvalidValue):
            names.append(check_assignee("to", str(name)))
    return names


def _is_notified(channel: Channel, notice: Notice) -> bool:
    """Whether a delivery is a message of its own, and not only the update of earlier ones."""
    kind, recipient = notice.event.kind, notice.delivery.recipient
    if not updates_messages(channel, kind):
        return True
    assignees = () if notice.question is None else notice.question.assignees
    return kind in channel.events and recipient in channel.recipients_of(assignees)


def _pointless(notice: Notice, channel: Channel) -> str | None:
    """Return why the recipient need not be notified any more; None if they can still answer."""
    if notice.event.kind not in CALLS:
        return None
    question, recipient = notice.question, notice.delivery.recipient
    if question is None:
        return "the question was deleted"
    if question.state is not PromiseState.PENDING:
        return f"the question is already {question.state.value.replace('_', ' ')}"
    state = QuestionState.readable(question, notice.now)
    if state is None or recipient in channel.to or not recipient.startswith(("user:", "group:", "role:")):
        return None
    names = channel.names_at(notice.address, (recipient, *question.assignees))
    whys = [state.why_not_asked(each) for each in names]
    if None not in whys:
        return whys[0]
    is_only_theirs = not any(each.startswith("user:") and not state.is_excluded(each) for each in names)
    if is_only_theirs and channel.names_at(notice.address, state.policy.excluded):
        return "the address belongs to the requester, who may not answer (four eyes)"
    return None
