"""The operations of a client on a store in this process."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any, Self

from signoff.engine.timers.cron import next_time
from signoff.engine.timers.retention import delete_settled, unannounced_seconds
from signoff.errors import InvalidValue, SignoffError
from signoff.people.links import answer_links, resume_tokens
from signoff.people.links.answer_links import NewLink
from signoff.people.links.resume_tokens import Response, Resumption
from signoff.people.questions import comments, question_operations, standing_approvals
from signoff.people.questions.answer_checks import check_texts
from signoff.people.questions.answers import answer, get_question
from signoff.people.questions.bulk_answers import GivenAnswer, answer_each
from signoff.people.questions.callback_terms import without_secret
from signoff.people.questions.search import QuestionSearch, search_questions
from signoff.people.questions.standalone_questions import StandaloneQuestion
from signoff.people.questions.standing_approvals import Alike
from signoff.people.schemas.promise_returns import check_value
from signoff.records import (
    AuditEvent,
    Entry,
    Group,
    LiveText,
    NewPromise,
    NewRun,
    NewSchedule,
    Origin,
    Promise,
    PromiseKind,
    PromiseState,
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
from signoff.records.deliveries import Delivery
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.names import check_by, check_named, check_text
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    Page,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    TokenFilter,
    WorkflowFilter,
    check_page,
)
from signoff.records.pruned import Pruned
from signoff.records.request_ids import check_free, check_length
from signoff.records.responders import Responder
from signoff.records.start_options import check_delay, check_timeout, seconds_of
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.service import interventions, invocations
from signoff.service.change_watcher import Watch, Watching
from signoff.service.checked_operation import operation
from signoff.service.follow_limit import FollowRoom
from signoff.service.journal_follower import JournalFollower
from signoff.service.question_watcher import QuestionWatch
from signoff.service.snapshots import Snapshot, load, save
from signoff.service.timeline import Timeline
from signoff.service.timeline_reader import TimelineReader
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.encrypted import showing
from signoff.stores.wrappers.origin_stamping import origin_stamped
from signoff.stores.wrappers.store_wrapper import unwrapped


class LocalBackend:
    """Performs a client's operations on a store, which it can open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watching = Watching(store, Watch)
        self._questions = Watching(store, QuestionWatch)
        self._room: FollowRoom | None = None

    def with_origin(self, origin: Origin) -> Self:
        """Return a view whose writes are stamped with an origin. Close this backend, not the view."""
        return self.on(origin_stamped(self._store, origin))

    def on(self, store: Store) -> Self:
        """Return a view on a view of its store. Close this backend, not the view."""
        backend = copy(self)
        backend._store = store
        return backend

    def sharing(self, room: FollowRoom) -> Self:
        """Return a view whose journal followers share the limits in ``room``."""
        backend = copy(self)
        backend._room = room
        return backend

    async def shown(self, result: Any) -> Any:
        """Return the result of an operation as this service shows it."""
        return result

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        """Stop listening. The store belongs to the app and stays open."""
        self._watching.close()
        self._questions.close()

    @operation
    async def create_run(
        self, new: NewRun, *, timeout_seconds: float | None = None, delay_seconds: float | None = None
    ) -> tuple[Run, bool]:
        check_named("workflow", new.workflow)
        check_named("group", new.group)
        start_at = new.start_at
        if delay_seconds is not None:
            if start_at is not None:
                raise InvalidValue("delay_seconds", "start_at is given, too; give only one of them")
            start_at = self._after(check_delay("delay_seconds", delay_seconds), "delay_seconds")
        deadline_at = self._after(timeout_seconds, "timeout_seconds", start_at)
        if start_at != new.start_at or deadline_at != new.deadline_at:
            new = replace(new, start_at=start_at, deadline_at=deadline_at)
        return await self._store.create_run(new)

    @operation
    async def get_run(self, run_id: str) -> Run:
        return await self._store.get_run(run_id)

    @operation
    async def save(self, run_id: str, *, by: str | None = None) -> dict[str, Any]:
        return await save(self._store, run_id, by=by)

    @operation
    async def load(self, snapshot: Snapshot, *, by: str | None = None) -> Run:
        return await load(self._store, snapshot, by=by)

    @operation
    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        check_page(after, limit)
        which.check()
        return await self._store.list_runs(which, after=after, limit=limit)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        """Return journal entries from ``after`` on. Raises NotFound."""
        check_text("run_id", run_id)
        entries = await showing(self._store).read_journal(run_id, after=after, limit=limit)
        if not entries:
            await showing(self._store).get_run(run_id)
        return [without_secret(entry) for entry in entries]

    async def follow(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry, None]:
        """Yield journal entries from ``after`` on, live, until the run has ended."""
        async with aclosing(self._events(run_id, after)) as events:
            async for event in events:
                if isinstance(event, Entry):
                    yield event
                del event  # it may be large, and the next one may take long

    async def follow_live(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry | LiveText, None]:
        """Yield journal entries as ``follow`` does, and the live text of running steps, from its start."""
        async with aclosing(self._events(run_id, after, live=True)) as events:
            async for event in events:
                if not isinstance(event, TimelineMark):
                    yield event
                del event

    async def timeline(
        self, run_id: str, *, after: int = -1, follow: bool = False, live: bool = False
    ) -> AsyncGenerator[TimelineChange | TimelineMark | LiveText, None]:
        """Yield the changes of a run's timeline that journal entries from ``after`` on make, then ``CURRENT``.

        Args:
            run_id: The run.
            after: The seq of the last entry whose changes are known.
            follow: Whether to continue until the run has ended.
            live: Whether to yield the live text of running steps, too.

        Raises:
            NotFound: The run does not exist.
        """
        check_text("run_id", run_id)
        reading = self._follower.reading
        async with reading():
            created_at = (await showing(self._store).get_run(run_id)).created_at
        reader = TimelineReader(run_id, Timeline(created_at), self, reading)
        async with aclosing(self._events(run_id, -1, live=live)) as events:
            changes = reader.read(events, after=after, follow=follow)
            async with aclosing(changes):
                async for change in changes:
                    yield change
                    del change

    def _events(
        self, run_id: str, after: int, *, live: bool = False
    ) -> AsyncGenerator[Entry | LiveText | TimelineMark, None]:
        return self._follower.events(run_id, after, live=live)

    @property
    def _follower(self) -> JournalFollower:
        return JournalFollower(self._store, self._watching, self._room)

    @operation
    async def wait(self, run_id: str) -> Run:
        """Return the run once it has ended."""
        while True:
            with self._watching.watch().awaiting_end(run_id) as ended:
                run = await self._store.get_run(run_id)
                if run.state.is_final:
                    return run
                del run  # saves memory: thousands of callers may wait
                await ended

    @operation
    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        check_text("run_id", run_id)
        check_texts(reason=reason)
        return await self._store.cancel(run_id, reason=reason, by=by)

    @operation
    async def suspend_run(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        check_texts(reason=reason)
        return await interventions.suspend(self._store, run_id, by=by, reason=reason)

    @operation
    async def resume_run(self, run_id: str, *, by: str | None = None) -> Run:
        return await interventions.resume(self._store, run_id, by=by)

    @operation
    async def terminate(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        check_texts(reason=reason)
        return await interventions.terminate(self._store, run_id, by=by, reason=reason)

    @operation
    async def retry(
        self, run_id: str, *, reason: str | None = None, by: str | None = None, token: str | None = None
    ) -> Run:
        check_texts(reason=reason)
        return await interventions.retry(self._store, run_id, by=by, reason=reason, token=token)

    @operation
    async def signal(
        self, run_id: str, name: str, value: str, *, by: str | None = None, request_id: str | None = None
    ) -> bool:
        check_length(request_id)
        check_text("run_id", run_id)
        if not check_text("name", name).strip():
            raise InvalidValue("name", "the signal's name is empty")
        return await self._store.signal(run_id, name, value, by=by, request_id=request_id)

    @operation
    async def create_promise(
        self, new: NewPromise, *, timeout_seconds: float | None = None
    ) -> tuple[Promise, bool]:
        return await self._store.create_promise(
            replace(
                new, due_at=self._after(check_timeout("timeout_seconds", timeout_seconds), "timeout_seconds")
            )
        )

    @operation
    async def get_promise(self, promise_id: str) -> Promise:
        return await self._store.get_promise(promise_id)

    @operation
    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        check_page(after, limit)
        return await self._store.list_promises(which, after=after, limit=limit)

    @operation
    async def list_invocations(
        self, which: InvocationFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[InvocationNode]:
        check_page(after, limit)
        return await invocations.list_invocations(self._store, which, after=after, limit=limit)

    @operation
    async def get_invocation(self, promise_id: str) -> InvocationNode:
        return await invocations.get_invocation(self._store, promise_id)

    @operation
    async def list_calls(
        self, promise_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[InvocationNode]:
        check_page(after, limit)
        return await invocations.list_calls(self._store, promise_id, after=after, limit=limit)

    async def list_questions(
        self, search: QuestionSearch, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        check_page(after, limit)
        return await search_questions(search, self.list_promises, after=after, limit=limit)

    @operation
    async def settle(self, promise_id: str, settlement: Settlement) -> Promise:
        """Settle a promise. Raises NotFound for a question: use ``answer``, which validates the answer."""
        check_texts(note=settlement.note)
        check_length(settlement.request_id)
        check_by(settlement.by)
        promise = await self._store.get_promise(promise_id)
        if promise.state is PromiseState.PENDING:
            await check_value(promise, settlement)
        return (await self._store.settle(promise_id, PromiseKind.PROMISE, settlement))[0]

    @operation
    async def ask(self, id: str, asked: StandaloneQuestion) -> tuple[Promise, bool]:
        """Ask a question of no run, or return the one with this id and these terms."""
        new = asked.new_promise(id, self._store.clock.now())
        question, created = await self._store.create_promise(new)
        asked.check_same(question)
        return question, created

    @operation
    async def wait_for_answer(self, question_id: str) -> Promise:
        """Return the question once it has been answered or closed otherwise."""
        while True:
            with self._questions.watch().awaiting_answer(question_id) as closed:
                question = await get_question(self._store, question_id)
                if question.state is not PromiseState.PENDING:
                    return question
                del question  # saves memory: thousands of callers may wait
                await closed

    @operation
    async def answer(
        self,
        question_id: str,
        value: Any,
        *,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        note: str | None = None,
        request_id: str | None = None,
        digest: str | None = None,
        alike: Alike | None = None,
    ) -> Promise:
        check_free(request_id)
        return await answer(
            self._store,
            question_id,
            value,
            user_id=user_id,
            groups=groups,
            roles=roles,
            note=note,
            request_id=request_id,
            digest=digest,
            alike=alike,
        )

    @operation
    async def answer_all(
        self, given: Sequence[GivenAnswer], responder: Responder
    ) -> Sequence[Promise | SignoffError]:
        return await answer_each(given, lambda each: self.answer_one(each, responder))

    @operation
    async def answer_one(self, given: GivenAnswer, responder: Responder) -> Promise:
        """Give one of several answers, as ``answer`` does."""
        return await self.answer(
            given.question_id,
            given.value,
            user_id=responder.user_id,
            groups=responder.groups,
            roles=responder.roles,
            note=given.note,
            request_id=given.request_id,
            digest=given.digest,
        )

    @operation
    async def view_question(self, question_id: str, responder: Responder) -> Promise:
        return await question_operations.view(self._store, question_id, responder)

    @operation
    async def comment_on_question(
        self, question_id: str, responder: Responder, text: str, request_id: str | None = None
    ) -> AuditEvent:
        return await comments.comment(self._store, question_id, responder, text, request_id)

    @operation
    async def claim_question(self, question_id: str, responder: Responder) -> Promise:
        return await question_operations.claim(self._store, question_id, responder)

    @operation
    async def release_question(self, question_id: str, responder: Responder) -> Promise:
        return await question_operations.release(self._store, question_id, responder)

    @operation
    async def delegate_question(
        self, question_id: str, responder: Responder, to: Sequence[str], note: str | None = None
    ) -> Promise:
        return await question_operations.delegate(self._store, question_id, responder, to, note)

    @operation
    async def cancel_question(
        self, question_id: str, *, by: str | None, reason: str | None, request_id: str | None
    ) -> Promise:
        check_free(request_id)
        return await question_operations.cancel(self._store, question_id, by, reason, request_id)

    @operation
    async def reassign_question(
        self, question_id: str, to: Sequence[str], *, by: str | None, reason: str | None
    ) -> Promise:
        return await question_operations.reassign(self._store, question_id, to, by, reason)

    @operation
    async def move_deadline(
        self, question_id: str, timeout_seconds: float, *, by: str | None, reason: str | None
    ) -> Promise:
        return await question_operations.move_deadline(self._store, question_id, timeout_seconds, by, reason)

    @operation
    async def get_session(self, session_id: str) -> Session:
        return await self._store.get_session(session_id)

    @operation
    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        check_page(after, limit)
        return await self._store.list_sessions(after=after, limit=limit)

    @operation
    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        check_page(after, limit)
        return await self._store.list_rules(which, after=after, limit=limit)

    @operation
    async def revoke_rule(self, rule_id: str, *, by: str | None, reason: str | None) -> Rule:
        return await standing_approvals.revoke(self._store, rule_id, by, reason)

    @operation
    async def create_link(
        self, question_id: str, responder: Responder, *, lifetime_seconds: float, by: str | None = None
    ) -> NewLink:
        assert responder.user_id is not None
        return await answer_links.create_link(
            self._store,
            question_id,
            user_id=responder.user_id,
            groups=responder.groups,
            roles=responder.roles,
            lifetime_seconds=lifetime_seconds,
            by=by,
        )

    @operation
    async def list_links(
        self, question_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        check_page(after, limit)
        await get_question(self._store, question_id)
        which = TokenFilter(TokenKind.LINK, question_id=question_id)
        return await self._store.list_tokens(which, after=after, limit=limit)

    @operation
    async def revoke_link(self, link_id: str, *, by: str | None = None) -> Token:
        return await answer_links.revoke_link(self._store, link_id, by=by)

    @operation
    async def create_resumption(
        self, session_id: str, run_id: str, questions: Collection[Promise], *, lifetime_seconds: float
    ) -> str:
        return await resume_tokens.create_resumption(
            self._store, session_id, run_id, questions, lifetime_seconds=lifetime_seconds
        )

    @operation
    async def find_resumption(self, session_id: str, secret: str) -> Resumption:
        return await resume_tokens.find_resumption(self._store, session_id, secret)

    @operation
    async def check_responses(
        self, session_id: str, secret: str, responses: Mapping[str, Response], responder: Responder
    ) -> None:
        await resume_tokens.check_responses(self._store, session_id, secret, responses, responder)

    @operation
    async def resume(
        self,
        session_id: str,
        secret: str,
        responses: Mapping[str, Response],
        responder: Responder,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        await resume_tokens.resume(self._store, session_id, secret, responses, responder, context)

    @operation
    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        check_page(after, limit)
        return await self._store.list_audit(which, after=after, limit=limit)

    @operation
    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        return await unwrapped(self._store).read_chain(
            after=after, limit=limit
        )  # events in their sealed form

    @operation
    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        check_page(after, limit)
        return await self._store.list_deliveries(which, after=after, limit=limit)

    @operation
    async def redeliver(self, delivery_id: str) -> Delivery:
        return await self._store.redeliver(delivery_id)

    @operation
    async def delete_ended(self, older_than_seconds: float, limit: int) -> Pruned:
        if not 0 <= older_than_seconds < math.inf:
            raise InvalidValue(
                "older_than_seconds", f"{older_than_seconds} is not a valid number of seconds, from 0 on"
            )
        now = self._store.clock.now()
        before = now - older_than_seconds
        return Pruned(
            await self._store.delete_ended(before, limit),
            await self._store.delete_tokens(before, limit),
            await self._store.delete_deliveries(before, limit),
            await self._store.delete_workflows(now - unannounced_seconds(older_than_seconds), limit),
            await delete_settled(self._store, before, 10 * limit),  # each call examines kept ones again
        )

    @operation
    async def put_schedule(self, new: NewSchedule) -> Schedule:
        check_named("workflow", new.workflow)
        check_named("group", new.group)
        next_at = next_time(new.cron, new.timezone, self._store.clock.now())
        return await self._store.put_schedule(replace(new, next_at=next_at))

    @operation
    async def get_schedule(self, schedule_id: str) -> Schedule:
        return await self._store.get_schedule(schedule_id)

    @operation
    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        check_page(after, limit)
        return await self._store.list_schedules(after=after, limit=limit)

    @operation
    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return await self._store.pause_schedule(schedule_id)

    @operation
    async def resume_schedule(self, schedule_id: str) -> Schedule:
        schedule = await self._store.get_schedule(schedule_id)
        next_at = next_time(schedule.cron, schedule.timezone, self._store.clock.now())
        return await self._store.resume_schedule(schedule_id, next_at)

    @operation
    async def delete_schedule(self, schedule_id: str) -> None:
        await self._store.delete_schedule(schedule_id)

    @operation
    async def list_workers(self) -> Sequence[WorkerInfo]:
        return await self._store.list_workers()

    @operation
    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        check_page(after, limit)
        return await self._store.list_workflows(which, after=after, limit=limit)

    @operation
    async def list_groups(self) -> Sequence[Group]:
        return await self._store.list_groups()

    @operation
    async def pause_group(self, name: str) -> None:
        await self._store.pause_group(name)

    @operation
    async def resume_group(self, name: str) -> None:
        await self._store.resume_group(name)

    @operation
    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        await self._store.limit_group(name, max_running=max_running, starts_per=starts_per)

    def _after(self, seconds: float | None, name: str, start_at: float | None = None) -> float | None:
        """Return the time ``seconds`` from now, or from a later start."""
        if seconds is None:
            return None
        return max(self._store.clock.now(), start_at or 0.0) + seconds_of(name, seconds)
