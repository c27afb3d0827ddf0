"""The remote store: the contract over HTTP, kept by the store of a ``signoff server``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from signoff.records import (
    Amendment,
    AuditEvent,
    CallKind,
    Due,
    Entry,
    EntryKind,
    Group,
    LiveText,
    Message,
    NewAuditEvent,
    NewPromise,
    NewRun,
    NewSchedule,
    NewToken,
    Promise,
    PromiseKind,
    Rate,
    Rule,
    Run,
    Schedule,
    Seal,
    Session,
    Settlement,
    Token,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery, NewDelivery, Report
from signoff.records.failed_items import Unreadable
from signoff.records.names import check_namespace
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    Page,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    TokenFilter,
    WorkflowFilter,
)
from signoff.runtime.clock import Clock
from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.snapshots import Saved
from signoff.stores.contract.store import PROBE, Change, Claim, Outcome, Write
from signoff.stores.contract.validation import (
    check_amendment,
    check_deliveries,
    check_events,
    check_limits,
    check_live,
    check_report,
    check_token,
    check_worker,
    check_workflows,
)
from signoff.stores.remote.connection import RemoteServer
from signoff.stores.shared.listed_payloads import bytes_of, may_be_cut

ENTRIES_AT_ONCE: Final = 1000
RECORDS_AT_ONCE: Final = 1_000
"""Events in one operation: a server takes no more."""
PIECES_AT_ONCE: Final = 1_000
"""Pieces of live text in one operation. Servers refuse ten times as many."""

PART_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of the entries in one request, if they can be split. Escaping them within JSON doubles them at worst."""
SHORT_PATIENCE_SECONDS: Final = 5.0  # for what is asked for again soon anyway, with fresh arguments


class RemoteStore:
    """Keeps runs at a ``signoff server``. The contract of every method is in ``signoff.stores.contract.store.Store``.

    It needs no database credentials and no inbound port. While the server cannot be reached, operations wait.

    Args:
        url: The server, such as ``https://signoff.example.com``.
        key: A worker key, see ``signoff keys create``. Servers of this version require one.
        namespace: The tenant.
        patience_seconds: How long operations wait for a server that cannot be reached, before StoreUnavailable.

    Raises:
        InvalidValue: ``url`` is no such URL, or ``key`` can be no key.

    Example:
        store = RemoteStore("https://signoff.example.com", key=os.environ["SIGNOFF_WORKER_KEY"])
        await store.open()
    """

    def __init__(
        self, url: str, *, key: str | None = None, namespace: str = "default", patience_seconds: float = 120.0
    ) -> None:
        self.namespace = check_namespace(namespace)
        self._owner = True
        self._server = RemoteServer(url, key, patience_seconds)
        self.clock: Clock = self._server.clock
        self.lease_seconds = 0.0  # the server says it

    @property
    def location(self) -> str:
        return self._server.url

    async def open(self) -> None:
        await self._server.open(self.namespace)
        self.lease_seconds = self._server.lease_seconds

    async def close(self) -> None:
        if self._owner:
            await asyncio.to_thread(self._server.close)

    def within(self, namespace: str) -> RemoteStore:
        view = object.__new__(RemoteStore)
        view.namespace = check_namespace(namespace)
        view._owner = False
        view._server = self._server
        view.clock = self.clock
        view.lease_seconds = self.lease_seconds
        return view

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """As in the contract. When it begins to hear, and after a gap, it tells that anything may have changed."""
        return self._server.connection.changes.listen(self.namespace, callback)

    # Runs

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        return await self._once("create_run", ("run", new.id), token, new=new)

    async def get_run(self, run_id: str) -> Run:
        return await self._ask("get_run", run_id=run_id)

    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        return await self._ask("ended", run_ids=run_ids)

    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        return await self._ask("list_runs", which=which, after=after, limit=limit)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        if limit is not None:
            return await self._ask("read_journal", run_id=run_id, after=after, limit=limit)
        entries: list[Entry] = []
        while page := await self._ask("read_journal", run_id=run_id, after=after, limit=ENTRIES_AT_ONCE):
            entries += page
            after = entries[-1].seq
            if not may_be_cut(page, ENTRIES_AT_ONCE):
                break
        return entries

    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        return await self._ask("read_messages", run_ids=run_ids)

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        return await self._ask("cancel", ("run", run_id), run_id=run_id, reason=reason, by=by)

    async def retry(
        self,
        run_id: str,
        *,
        how: Retry | None = None,
        event: NewAuditEvent | None = None,
        token: str | None = None,
    ) -> Run:
        return await self._once("retry", ("run", run_id), token, run_id=run_id, how=how, event=event)

    async def suspend(
        self, run_id: str, event: NewAuditEvent, *, reason: str | None = None, epoch: int | None = None
    ) -> Run:
        key = ("run", run_id)
        return await self._ask("suspend", key, run_id=run_id, event=event, reason=reason, epoch=epoch)

    async def resume(self, run_id: str, event: NewAuditEvent) -> Run:
        return await self._ask("resume", ("run", run_id), run_id=run_id, event=event)

    async def terminate(self, run_id: str, event: NewAuditEvent, *, reason: str | None = None) -> Run:
        return await self._ask("terminate", ("run", run_id), run_id=run_id, event=event, reason=reason)

    async def signal(
        self,
        run_id: str,
        name: str,
        value: str,
        *,
        by: str | None = None,
        request_id: str | None = None,
        token: str | None = None,
    ) -> bool:
        return await self._once(
            "signal",
            ("run", run_id),
            token,
            run_id=run_id,
            name=name,
            value=value,
            by=by,
            request_id=request_id,
        )

    async def delete_ended(self, before: float, limit: int) -> int:
        return await self._ask("delete_ended", before=before, limit=limit)

    # What the holder of a lease does

    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        return await self._once(
            "claim",
            ("worker", worker_id),
            token,
            worker_id=worker_id,
            group=group,
            workflows=workflows,
            limit=limit,
        )

    async def append(self, write: Write) -> None:
        write = await self._ahead(write)
        await self._ask("append", ("run", write.run_id), write=write)

    async def _ahead(self, write: Write) -> Write:
        """Append the outcomes of steps that a large write begins with in parts. Returns what is left to write.

        A request holds a few mebibytes, and each outcome counts by itself: what was done is kept, whatever comes of
        the rest.
        """
        entries = list(write.entries)
        if len(entries) < 2 or sum(len(each.value or "") for each in entries) <= PART_BYTES // 4:
            return write
        while len(entries) > 1 and bytes_of(entries) > PART_BYTES:
            part, size = 0, 0
            while part < len(entries) - 1 and _is_outcome(entries[part]):
                size += bytes_of(entries[part])
                if part and size > PART_BYTES:
                    break
                part += 1
            if part == 0:
                break
            ahead = Write(write.run_id, write.epoch, tuple(entries[:part]))
            await self._ask("append", ("run", write.run_id), write=ahead)
            del entries[:part]
        return write if len(entries) == len(write.entries) else replace(write, entries=tuple(entries))

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        write = await self._ahead(write)
        return await self._ask("pause", ("run", write.run_id), write=write, wakes=wakes, wake_at=wake_at)

    async def complete(self, write: Write, outcome: Outcome) -> None:
        write = await self._ahead(write)
        await self._ask("complete", ("run", write.run_id), write=write, outcome=outcome)

    # Live text

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        """As in the contract. It gives up soon: what it tells is old by then."""
        check_live(pieces)
        for begin in range(0, len(pieces), PIECES_AT_ONCE):
            some = pieces[begin : begin + PIECES_AT_ONCE]
            await self._ask("publish", is_patient=False, pieces=some)

    async def read_live(self, run_id: str, *, epoch: int = 0, after: int = -1) -> Sequence[LiveText]:
        return await self._ask("read_live", run_id=run_id, epoch=epoch, after=after)

    # Promises

    async def create_promise(self, new: NewPromise, *, token: str | None = None) -> tuple[Promise, bool]:
        return await self._once("create_promise", ("promise", new.id), token, new=new)

    async def get_promise(self, promise_id: str) -> Promise:
        return await self._ask("get_promise", promise_id=promise_id)

    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        which.check()
        return await self._ask("list_promises", which=which, after=after, limit=limit)

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        return await self._once(
            "settle",
            ("promise", promise_id),
            token,
            promise_id=promise_id,
            kind=kind,
            settlement=settlement,
        )

    # Questions

    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_amendment(amendment)
        return await self._once(
            "amend", ("promise", question_id), token, question_id=question_id, amendment=amendment
        )

    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        return await self._ask("due_questions", limit=limit)

    # Sessions

    async def get_session(self, session_id: str) -> Session:
        return await self._ask("get_session", session_id=session_id)

    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        return await self._ask("list_sessions", after=after, limit=limit)

    # Snapshots

    async def save_run(self, run_id: str) -> Saved:
        return await self._ask("save_run", run_id=run_id)

    async def load_run(self, saved: Saved, event: NewAuditEvent) -> Run:
        check_events([event])
        return await self._ask("load_run", ("run", saved.id), saved=saved, event=event)

    # Rules

    async def get_rule(self, rule_id: str) -> Rule:
        return await self._ask("get_rule", rule_id=rule_id)

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        which.check()
        return await self._ask("list_rules", which=which, after=after, limit=limit)

    async def revoke_rule(self, rule_id: str, event: NewAuditEvent) -> Rule:
        check_events([event])
        return await self._ask("revoke_rule", ("rule", rule_id), rule_id=rule_id, event=event)

    # The audit trail

    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        check_events(events)
        for begin in range(0, len(events), RECORDS_AT_ONCE):
            await self._ask("record", events=events[begin : begin + RECORDS_AT_ONCE])

    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        which.check()
        return await self._ask("list_audit", which=which, after=after, limit=limit)

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        return await self._ask("read_chain", after=after, limit=limit)

    async def last_seal(self) -> Seal | None:
        return await self._ask("last_seal")

    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        return await self._ask("heads", after=after, limit=limit)

    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        return await self._ask("unsealed", limit=limit, besides=besides)

    async def seal(self, seals: Sequence[Seal]) -> bool:
        return await self._ask("seal", ("chain", ""), seals=seals)

    # Tokens

    async def create_token(self, new: NewToken) -> Token:
        check_token(new)
        return await self._ask("create_token", ("token", new.id), new=new)

    async def find_token(self, hash: str) -> Token | None:
        return await self._ask("find_token", hash=hash)

    async def has_token(self, kinds: Sequence[TokenKind]) -> bool:
        return await self._ask("has_token", kinds=kinds)

    async def get_token(self, token_id: str) -> Token:
        return await self._ask("get_token", token_id=token_id)

    async def list_tokens(
        self, which: TokenFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        which.check()
        return await self._ask("list_tokens", which=which, after=after, limit=limit)

    async def revoke_token(self, token_id: str) -> Token:
        return await self._ask("revoke_token", ("token", token_id), token_id=token_id)

    async def expire_token(self, token_id: str, at: float) -> Token:
        return await self._ask("expire_token", ("token", token_id), token_id=token_id, at=at)

    async def touch_token(self, token_id: str) -> None:
        await self._ask("touch_token", ("token", token_id), token_id=token_id)

    async def delete_tokens(self, before: float, limit: int) -> int:
        return await self._ask("delete_tokens", before=before, limit=limit)

    # Notifications

    async def read_cursor(self, channel: str) -> int | None:
        return await self._ask("read_cursor", channel=channel)

    async def expand(
        self, channel: str, expected: int | None, seq: int, deliveries: Sequence[NewDelivery]
    ) -> bool:
        check_deliveries(channel, deliveries)
        return await self._ask(
            "expand",
            ("channel", channel),
            channel=channel,
            expected=expected,
            seq=seq,
            deliveries=deliveries,
        )

    async def claim_deliveries(
        self, channel: str, limit: int, lease_seconds: float
    ) -> tuple[Sequence[Delivery], float | None]:
        return await self._ask(
            "claim_deliveries",
            ("channel", channel),
            channel=channel,
            limit=limit,
            lease_seconds=lease_seconds,
        )

    async def finish_delivery(self, delivery_id: str, attempt: int, report: Report) -> None:
        check_report(report)
        await self._ask(
            "finish_delivery",
            ("delivery", delivery_id),
            delivery_id=delivery_id,
            attempt=attempt,
            report=report,
        )

    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        which.check()
        return await self._ask("list_deliveries", which=which, after=after, limit=limit)

    async def redeliver(self, delivery_id: str) -> Delivery:
        return await self._ask("redeliver", ("delivery", delivery_id), delivery_id=delivery_id)

    async def delete_deliveries(self, before: float, limit: int) -> int:
        return await self._ask("delete_deliveries", ("deliveries", ""), before=before, limit=limit)

    # Time and leases

    async def due(self, limit: int = 1000) -> float | None:
        return await self._ask("due", limit=limit)

    # Groups

    async def pause_group(self, name: str) -> None:
        await self._ask("pause_group", ("group", name), name=name)

    async def resume_group(self, name: str) -> None:
        await self._ask("resume_group", ("group", name), name=name)

    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_limits(max_running, starts_per)  # JSON cannot say infinity
        await self._ask(
            "limit_group", ("group", name), name=name, max_running=max_running, starts_per=starts_per
        )

    async def list_groups(self) -> Sequence[Group]:
        return await self._ask("list_groups")

    # Schedules

    async def put_schedule(self, new: NewSchedule) -> Schedule:
        return await self._ask("put_schedule", ("schedule", new.id), new=new)

    async def get_schedule(self, schedule_id: str) -> Schedule:
        return await self._ask("get_schedule", schedule_id=schedule_id)

    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        return await self._ask("list_schedules", after=after, limit=limit)

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return await self._ask("pause_schedule", ("schedule", schedule_id), schedule_id=schedule_id)

    async def resume_schedule(self, schedule_id: str, next_at: float) -> Schedule:
        key = ("schedule", schedule_id)
        return await self._ask("resume_schedule", key, schedule_id=schedule_id, next_at=next_at)

    async def delete_schedule(self, schedule_id: str) -> None:
        await self._ask("delete_schedule", ("schedule", schedule_id), schedule_id=schedule_id)

    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        return await self._ask("due_schedules", limit=limit)

    async def fire_schedule(
        self, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        return await self._ask(
            "fire_schedule",
            ("schedule", schedule_id),
            schedule_id=schedule_id,
            expected=expected,
            runs=runs,
            next_at=next_at,
        )

    # Workers

    async def enlist(self, worker: WorkerInfo) -> None:
        check_worker(worker)
        await self._ask("enlist", ("worker", worker.id), worker=worker)

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return await self._ask("list_workers")

    async def announce(self, workflows: Sequence[WorkflowInfo]) -> None:
        check_workflows(workflows)
        await self._ask("announce", ("workflows", ""), workflows=workflows)

    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        which.check()
        return await self._ask("list_workflows", which=which, after=after, limit=limit)

    async def delete_workflows(self, before: float, limit: int) -> int:
        return await self._ask("delete_workflows", ("workflows", ""), before=before, limit=limit)

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        """As in the contract. It gives up soon: the next one knows better what is held."""
        return await self._ask("heartbeat", is_patient=False, worker_id=worker_id, held=held)

    async def check_writable(self) -> None:
        """Ask the server for something that changes nothing, but fails where nothing can be changed."""
        await self.release(PROBE)

    def hold_leases(self) -> None:
        """Do nothing: the server looks after leases."""

    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        """As in the contract. It gives up soon: nobody who wants to stop should wait for a server that is gone."""
        asked = {"worker_id": worker_id, "dead": dead}
        return await self._ask("release", ("worker", worker_id), is_patient=False, **asked)

    async def _once(self, name: str, key: tuple[str, str], token: str | None, /, **arguments: Any) -> Any:
        return await self._ask(name, key, **arguments, token=token or uuid.uuid4().hex)

    async def _ask(
        self, name: str, key: tuple[str, str] | None = None, /, *, is_patient: bool = True, **arguments: Any
    ) -> Any:
        patience_seconds = self._server.patience_seconds
        if not is_patient:
            patience_seconds = min(patience_seconds, SHORT_PATIENCE_SECONDS)
        return await self._server.connection.batches.ask(
            OPERATIONS[name],
            self.namespace,
            arguments,
            key=None if key is None else (self.namespace, *key),
            patience_seconds=patience_seconds,
        )


def _is_outcome(entry: Entry) -> bool:
    """Whether an entry records what came of a step, which is so whatever else happens."""
    kinds = (EntryKind.STEP_STARTED, EntryKind.ATTEMPT_FAILED, EntryKind.COMPLETED)
    return entry.kind in kinds and entry.call is CallKind.STEP
