"""Starts, watches and answers runs from outside, in async code. ``blocking`` has the same for other code."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import astuple
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol, TypeVar, cast, overload

from typing_extensions import Unpack

from signoff import codec
from signoff.client.groups import AsyncGroups, GroupBackend
from signoff.client.inbox import AsyncInbox, InboxBackend
from signoff.client.links import AsyncLinks, LinkBackend
from signoff.client.notifications import AsyncNotifications, DeliveryBackend
from signoff.client.promises import AsyncPromises, PromiseBackend
from signoff.client.questions import (
    AsyncQuestionHandle,
    CallDecision,
    CallTerms,
    Decide,
    QuestionBackend,
    approve_call,
    ask,
)
from signoff.client.rules import AsyncRules, RuleBackend
from signoff.client.run_ends import end_of
from signoff.client.schedules import AsyncSchedules, ScheduleBackend
from signoff.client.sessions import AsyncSessions, SessionBackend
from signoff.client.workflows import AsyncWorkflows, WorkflowBackend
from signoff.errors import InvalidValue, RunCancelled, RunFailed
from signoff.observability.trace_context import current_traceparent
from signoff.people.links.resume_tokens import ResumptionBackend
from signoff.people.questions.actions import Action
from signoff.people.questions.search import QuestionSearch
from signoff.people.questions.standalone_questions import QuestionTerms
from signoff.people.questions.standing_approvals import Alike
from signoff.records import (
    Entry,
    LiveText,
    NewRun,
    Origin,
    Promise,
    Run,
    RunState,
    WorkerInfo,
)
from signoff.records.names import check_text
from signoff.records.origins import of_program
from signoff.records.paging import Page, PromiseFilter, RunFilter
from signoff.records.pruned import Pruned
from signoff.records.responders import Responder
from signoff.records.start_options import check_id, check_priority, check_session, unix_time
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.runtime.real_threads import check_loop, check_threads
from signoff.service.service import LocalBackend
from signoff.service.snapshots import Snapshot
from signoff.stores.contract.store import Store
from signoff.workflow.concurrency import slot_of
from signoff.workflow.registry import workflow_name

T = TypeVar("T")
Workflow = Callable[..., Any] | str

PRUNED_AT_ONCE = 100  # of each kind in one transaction


class Functions(Protocol):
    """The registry of workflows, as a client sees it."""

    def function(self, workflow: Workflow) -> Callable[..., Any] | None:
        """Return the newest function of a workflow's name; None if it is not registered."""
        ...


class App(Protocol):
    """The parts of a ``Signoff`` app that a client needs."""

    store: Store
    group: str

    @property
    def registry(self) -> Functions:
        """The workflows that it knows."""
        ...


class Backend(
    PromiseBackend,
    QuestionBackend,
    GroupBackend,
    InboxBackend,
    RuleBackend,
    SessionBackend,
    WorkflowBackend,
    LinkBackend,
    ScheduleBackend,
    DeliveryBackend,
    ResumptionBackend,
    Protocol,
):
    """The back end of a client: a store in this process, or a server."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def create_run(
        self, new: NewRun, *, timeout_seconds: float | None = None, delay_seconds: float | None = None
    ) -> tuple[Run, bool]: ...
    async def get_run(self, run_id: str) -> Run: ...
    async def list_runs(
        self, which: RunFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Run]: ...
    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]: ...
    def follow(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry]: ...
    def follow_live(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry | LiveText]: ...
    def timeline(
        self, run_id: str, *, after: int = -1, follow: bool = False, live: bool = False
    ) -> AsyncGenerator[TimelineChange | TimelineMark | LiveText]: ...
    async def wait(self, run_id: str) -> Run: ...
    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run: ...
    async def terminate(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run: ...
    async def retry(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run: ...
    async def suspend_run(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run: ...
    async def resume_run(self, run_id: str, *, by: str | None = None) -> Run: ...
    async def signal(
        self, run_id: str, name: str, value: str, *, by: str | None = None, request_id: str | None = None
    ) -> bool: ...
    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]: ...
    async def list_questions(
        self, search: QuestionSearch, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]: ...
    async def list_workers(self) -> Sequence[WorkerInfo]: ...
    async def delete_ended(self, older_than_seconds: float, limit: int) -> Pruned: ...
    async def save(self, run_id: str, *, by: str | None = None) -> dict[str, Any]: ...
    async def load(self, snapshot: Snapshot, *, by: str | None = None) -> Run: ...
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
    ) -> Promise: ...


KEY_VARIABLE: Final = "SIGNOFF_KEY"


class AsyncClient:
    """Runs, promises and questions of one namespace, from async code.

    Args:
        target: A ``Signoff`` app (its store is used directly), or the URL of a ``signoff server``.
        group: The group that runs are started in; by default the app's, or ``default``.
        key: For a server, an API key; by default that of the environment variable ``SIGNOFF_KEY``.
        origin: For an app, the origin of all actions in the audit trail: a program with users of its own may state
            their addresses. By default this program. A server determines the origin itself.

    Example::

        async with AsyncClient("http://127.0.0.1:8000") as client:
            run = await client.start("refund_flow", "o-1", 7000, id="refund-o-1")
            print(await run.result())
    """

    def __init__(
        self,
        target: App | str,
        *,
        group: str | None = None,
        key: str | None = None,
        origin: Origin | None = None,
    ) -> None:
        if isinstance(target, str):
            from signoff.client.http_backend import HttpBackend

            self.backend: Backend = HttpBackend(target, key=key or os.environ.get(KEY_VARIABLE))
            self._group = group or "default"
            self._functions: Functions | None = None
        else:
            self.backend = LocalBackend(target.store).with_origin(origin or of_program())
            self._group = group or target.group
            self._functions = target.registry
        if not self._group.strip() or (group is not None and not group.strip()):
            raise InvalidValue("group", "it is empty; leave it out for the default")
        self.promises = AsyncPromises(self.backend)
        self.groups = AsyncGroups(self.backend)
        self.inbox = AsyncInbox(self.backend)
        self.rules = AsyncRules(self.backend)
        self.sessions = AsyncSessions(self.backend)
        self.workflows = AsyncWorkflows(self.backend)
        self.links = AsyncLinks(self.backend)
        self.schedules = AsyncSchedules(self.backend, self._group, self._function)
        self.notifications = AsyncNotifications(self.backend)

    async def __aenter__(self) -> AsyncClient:
        check_threads("AsyncClient")
        check_loop("AsyncClient")
        await self.backend.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections. An app's store stays open."""
        await self.backend.close()

    async def start(
        self,
        workflow: Workflow,
        /,
        *args: Any,
        id: str | None = None,
        group: str | None = None,
        timeout_seconds: float | None = None,
        priority: int = 0,
        start_at: datetime | None = None,
        delay_seconds: float | None = None,
        started_by: str | None = None,
        session_id: str | None = None,
        **kwargs: Any,
    ) -> AsyncHandle:
        """Start a run, now or later. It is durable when this returns.

        Args:
            workflow: A registered function, or a workflow's name.
            args: Its arguments, without the context.
            id: A chosen id. Starting twice with one id starts once.
            group: The group whose workers run it.
            timeout_seconds: The run's own deadline, counted from its start.
            priority: Workers take ready runs of the highest priority first.
            start_at: The start time, with a time zone; a past time means at once.
            delay_seconds: Seconds until it starts, instead of ``start_at``.
            started_by: The user who starts it, such as ``user:ana``, who cannot answer its questions with four eyes.
            session_id: The session it belongs to, such as a conversation: it waits until the session's runs that were
                started before it have ended.
            kwargs: Its keyword arguments.

        Returns:
            The handle of the run, whether it was started now or before.

        Raises:
            IdConflict: The id belongs to another workflow, other arguments or another session.
            NotSerializable, PayloadTooLarge: An argument cannot be stored.
            InvalidValue: The arguments do not fit the function, or an option makes no sense.
        """
        function = None if isinstance(workflow, str) else workflow
        if not check_text("workflow", workflow_name(workflow)).strip():
            raise InvalidValue("workflow", "its name is empty")
        if group is not None and not check_text("group", group).strip():
            raise InvalidValue("group", "it is empty; leave it out for the client's own")
        known = self._function(workflow)
        arguments = codec.encode_arguments(function, args, kwargs, name=workflow_name(workflow), known=known)
        concurrency_key, concurrency_limit = slot_of(known, arguments)
        new = NewRun(
            id=check_id(id) if id is not None else str(uuid.uuid4()),
            workflow=workflow_name(workflow),
            group=group or self._group,
            arguments=arguments,
            priority=check_priority(priority),
            start_at=unix_time(start_at),
            concurrency_key=concurrency_key,
            concurrency_limit=concurrency_limit,
            traceparent=current_traceparent(),
            started_by=started_by,
            session_id=check_session(session_id),
        )
        run, _ = await self.backend.create_run(
            new, timeout_seconds=timeout_seconds, delay_seconds=delay_seconds
        )
        return AsyncHandle(
            self.backend, run.id, Any if function is None else codec.return_annotation(function)
        )

    def _function(self, workflow: Workflow) -> Callable[..., Any] | None:
        if self._functions is not None:
            return self._functions.function(workflow)
        return None if isinstance(workflow, str) else workflow

    async def get(self, run_id: str, *, returns: Any = Any) -> AsyncHandle:
        """Return the handle of a run. Raises NotFound, and InvalidValue if ``returns`` is not a type."""
        codec.check_type("returns", returns)
        await self.backend.get_run(run_id)
        return AsyncHandle(self.backend, run_id, returns)

    async def list(
        self,
        *,
        states: Sequence[RunState | str] = (),
        workflow: str | None = None,
        group: str | None = None,
        session_id: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Run]:
        """List runs, newest first; ``after`` is the ``next`` of the previous page."""
        chosen = frozenset(RunState(state) for state in states) or None
        which = RunFilter(chosen, workflow, group, session_id=session_id)
        return await self.backend.list_runs(which, after=after, limit=limit)

    async def signal(
        self,
        run_id: str,
        name: str,
        value: Any = None,
        *,
        by: str | None = None,
        request_id: str | None = None,
    ) -> bool:
        """Send a signal to a run; it is kept until the run waits for it.

        Returns:
            False if the signal with this ``request_id`` was sent before.

        Raises:
            NotFound, InvalidState, RequestConflict
            NotSerializable: The value, or a part of it, cannot be restored with its own type.
        """
        text = signal_text(name, value)
        return await self.backend.signal(run_id, name, text, by=by, request_id=request_id)

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Ask a run to stop. Its code may clean up first. Raises NotFound."""
        await self.backend.cancel(run_id, reason=reason, by=by)

    async def terminate(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> None:
        """End a run at once, without its code: none of its clean-up runs. Prefer ``cancel``, which lets it clean up.

        Its open questions and promises are closed, and its child runs are asked to stop. A worker that holds it writes
        nothing more, and cancels its steps. Effects that they had already remain.

        Args:
            run_id: The run.
            reason: Why, for people. Callers that wait for the run read it in ``RunTerminated``.
            by: The user who asks for it, such as ``user:ana``, for the audit trail.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
        """
        await self.backend.terminate(run_id, reason=reason, by=by)

    async def retry(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Retry a failed run from the point of failure, or resume a suspended one.

        A run that failed retryably was kept whole. A run that failed permanently keeps its journal up to the call that
        failed; callers that waited for it keep its failure.

        Args:
            run_id: The run.
            reason: Why, for people.
            by: The user who asks for it, such as ``user:ana``, for the audit trail.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has not failed, or cannot be retried; the message says why.
        """
        await self.backend.retry(run_id, reason=reason, by=by)

    async def suspend(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        """Suspend a run until ``resume``: no worker claims it. Running steps finish first; nothing else begins.

        Answers, signals and timers that arrive meanwhile are kept, and delivered when it is resumed. The
        deadlines of its questions still apply; its own ends it when it is resumed. A suspended run stays as it is.

        Args:
            run_id: The run.
            reason: Why, for people.
            by: The user who asks for it, such as ``user:ana``, for the audit trail.

        Returns:
            The run as it is now: ``running`` until its worker has released it.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.

        Example::

            await client.suspend("refund-o-1", reason="the bank is down", by="user:olga")
        """
        return await self.backend.suspend_run(run_id, reason=reason, by=by)

    async def resume(self, run_id: str, *, by: str | None = None) -> Run:
        """Resume a suspended run where it stopped. A run that is not suspended stays as it is.

        Args:
            run_id: The run.
            by: The user who asks for it, such as ``user:ana``, for the audit trail.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
        """
        return await self.backend.resume_run(run_id, by=by)

    async def save(self, run_id: str, *, by: str | None = None) -> dict[str, Any]:
        """Return a run as JSON data, which ``load`` takes in another store: the run, its journal and its promises.

        The snapshot is a copy at one moment; the run itself continues here. See docs/snapshots.md.

        Args:
            run_id: The run.
            by: The user who saves it, such as ``user:ana``, for the audit trail.

        Raises:
            NotFound: The run does not exist.
            SnapshotRefused: It waits for a promise or a run that belongs to another run, and would wait permanently
                elsewhere; or the server redacts data that a snapshot would contain.
            AccessDenied: A server allows snapshots to admins only.

        Example::

            Path("refund.json").write_text(json.dumps(await client.save("refund-o-1")))
        """
        return await self.backend.save(run_id, by=by)

    async def load(self, snapshot: Snapshot, *, by: str | None = None) -> AsyncHandle:
        """Load a run, which continues here as it was saved. A snapshot is loaded once.

        Args:
            snapshot: The result of ``save``, from this or another store, also after a round trip through JSON.
            by: The user who loads it, such as ``user:ana``, for the audit trail.

        Raises:
            SnapshotRefused: The run, one of its child runs or promises exists here, or its session continues here.
            InvalidValue: It is not a snapshot, comes from a newer Signoff, or was changed; nothing is loaded.
            PayloadTooLarge: It is over 6 MiB, and this client's target is a server.
            AccessDenied: A server allows snapshots to admins only.
        """
        return AsyncHandle(self.backend, (await self.backend.load(snapshot, by=by)).id)

    async def prune(self, older_than: timedelta) -> int:
        """Delete runs that ended longer ago than ``older_than``, with their journals and promises, in small batches.

        Runs that failed retryably are kept: retry or cancel them. This also deletes promises without a run that were
        settled that long ago, links, keys and logins that expired or were revoked, and ended deliveries. Workflows are
        deleted if no worker has announced them for that long, and for at least a week.

        Returns:
            The number of runs.
        """
        if not isinstance(cast("object", older_than), timedelta):
            raise InvalidValue("older_than", f"{older_than!r} is not a timedelta; pass timedelta(days=30)")
        total = 0
        while True:
            deleted = await self.backend.delete_ended(older_than.total_seconds(), PRUNED_AT_ONCE)
            total += deleted.runs
            if max(astuple(deleted)) < PRUNED_AT_ONCE:
                return total

    async def workers(self) -> Sequence[WorkerInfo]:
        """Return the workers of the whole database. One that has died stays listed for a minute at most."""
        return await self.backend.list_workers()

    async def questions(
        self,
        *,
        run_id: str | None = None,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        workflow: str | None = None,
        group: str | None = None,
        text: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Promise]:
        """List open questions, oldest first. A page may be shorter than ``limit``, or empty, and have a ``next``.

        Args:
            run_id: Only questions of this run.
            user_id: Only questions that this user may answer, by name, groups and roles.
            groups: The user's groups.
            roles: The user's roles.
            workflow: Only questions of runs of this workflow.
            group: Only questions of runs in this group.
            text: Only questions with all these words in their text, id, run id or tool.
            after: The ``next`` of the previous page.
            limit: The most to return.

        Raises:
            InvalidValue: A name is not valid, or there are too many.
        """
        names = Responder.of(user_id, groups, roles).names
        search = QuestionSearch(run_id, names or None, workflow, group, text)
        _ = search.listed
        return await self.backend.list_questions(search, after=after, limit=limit)

    async def ask(self, id: str, question: str, /, **terms: Unpack[QuestionTerms]) -> AsyncQuestionHandle:
        """Ask a question that belongs to no run. It is durable when this returns.

        A program that calls this again after a crash gets the question that exists. ``Context.wait_for_user`` is the
        same in workflow code, and ``signoff.ask`` for code that runs in both.

        Args:
            id: A chosen id.
            question: The question's text.
            terms: The other arguments of ``Context.wait_for_user``: form, assignees, quorum, deadline, proposal and so
                on. Four eyes need a ``requester`` here; over HTTP that is by default the caller.

        Returns:
            The handle of the question, whether it was asked now or before.

        Raises:
            IdConflict: The id belongs to a question with other terms, or to something else.
            RegistrationError: The terms contradict each other.
            InvalidValue: The id, a name, a number or a time is not valid.
            NotSerializable, PayloadTooLarge: A part cannot be stored.

        Example::

            question = await client.ask("refund-o-1", "Refund 70 EUR?", assignees=["group:finance"])
            answer = await question.answer()
        """
        return await ask(self.backend, id, question, terms)

    def question(self, id: str, *, returns: Any = None) -> AsyncQuestionHandle:
        """Return the handle of a question, for example to wait for its answer in another process.

        Args:
            id: Its id.
            returns: The type of its form or of its proposal, which the answer then has; None: plain data.
        """
        return AsyncQuestionHandle(self.backend, id, declared=returns)

    async def approve_call(
        self,
        id: str,
        action: Action,
        /,
        *,
        decide: Decide | None = None,
        text: str | None = None,
        arguments_schema: dict[str, Any] | None = None,
        timeout: float | None = None,
        **terms: Unpack[CallTerms],
    ) -> CallDecision:
        """Decide whether a tool call may run: by a policy, or else by a person.

        Run the tool with the decision's ``arguments`` and with nothing else. A deadline, a withdrawn question, a
        policy that fails and an error are never an approval.

        Args:
            id: A chosen id of the call. Asking twice with one id asks once, and the answer counts whatever the policy
                says by then.
            action: The tool and its arguments, which people see and approve as they are.
            decide: The policy, a function or a coroutine function that returns ``approve``, ``deny`` or ``ask``. If it
                raises or returns anything else, a person is asked. By default a person is always asked.
            text: The question's text.
            arguments_schema: The JSON Schema of the tool's arguments. People may then edit them, within the schema.
            timeout: The most seconds to wait here. The question stays open.
            terms: Other arguments of ``Context.wait_for_user``: assignees, quorum, ``timeout_seconds`` and so on. There
                is no ``timeout_answer``.

        Returns:
            The decision.

        Raises:
            TimeoutError: There was no decision within ``timeout``.
            IdConflict: The id belongs to another call.
            RegistrationError, InvalidValue, NotSerializable, PayloadTooLarge: As in ``ask``.

        Example::

            decision = await client.approve_call(call.id, Action("refund", call.arguments), assignees=["group:finance"])
            if decision.approved:
                refund(**decision.arguments)
        """
        return await approve_call(
            self.backend,
            id,
            action,
            decide=decide,
            text=text,
            arguments_schema=arguments_schema,
            timeout=timeout,
            **terms,
        )

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
        """Answer a question, or vote where several users must agree: then it stays pending until they do.

        Args:
            question_id: The question.
            value: ``True`` or ``False`` for an approval; else a text, an option's value, a list of them, or a form.
            user_id: The user who answers.
            groups: The user's groups, without ``group:``, which the caller vouches for.
            roles: The user's roles, likewise.
            note: A comment on the answer.
            request_id: Makes a repeated call with the same answer succeed without effect.
            digest: The digest of the question that the user saw; another question is refused.
            alike: The other questions about the same action that are approved with it, and for how long.

        Raises:
            NotFound, WrongAnswer, AlreadySettled, RequestConflict
            NotAllowed: The user is not an assignee, is excluded, or is not named.
            QuestionClaimed: Another user has claimed it.
            AlreadyVoted: The user has given another vote.
        """
        return await self.backend.answer(
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


class AsyncHandle:
    """A run, seen from outside."""

    def __init__(self, backend: Backend, run_id: str, returns: Any = Any) -> None:
        self.id = run_id
        self._backend = backend
        self._returns = returns

    async def status(self) -> RunState:
        """Return the run's state."""
        return (await self._backend.get_run(self.id)).state

    async def done(self) -> bool:
        """Return whether the run has ended."""
        return (await self.status()).is_final

    async def result(self, timeout: float | None = None) -> Any:
        """Wait for the run's end and return its result.

        Args:
            timeout: The most seconds to wait. The run itself continues.

        Raises:
            TimeoutError: It did not end in time.
            RunCancelled: It was cancelled.
            CircularWait: The caller is a step of this run, or of a run that this one waits for.
            Exception: The workflow's error, if its class is imported here; else ``RunFailed``.
        """
        async with asyncio.timeout(timeout):
            run = await end_of(self._backend, self.id)
        return result_of(run, self._returns)

    async def journal(self, after: int = -1) -> Sequence[Entry]:
        """Return the journal as it is now, from ``after`` on."""
        return await self._backend.read_journal(self.id, after=after)

    @overload
    def events(self, after: int = -1, *, live: Literal[False] = False) -> AsyncGenerator[Entry]: ...
    @overload
    def events(self, after: int = -1, *, live: Literal[True]) -> AsyncGenerator[Entry | LiveText]: ...
    def events(self, after: int = -1, *, live: bool = False) -> AsyncGenerator[Any]:
        """Iterate over the journal from ``after`` on, live, until the run ends.

        Args:
            after: The ``seq`` of the last known entry.
            live: Whether to include the live output of running steps (``StepInfo.live``) as ``LiveText``: first the
                output so far, then the rest.
        """
        return (self._backend.follow_live if live else self._backend.follow)(self.id, after=after)

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the run to stop."""
        await self._backend.cancel(self.id, reason=reason)

    async def terminate(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the run at once, without its code. See ``AsyncClient.terminate``."""
        await self._backend.terminate(self.id, reason=reason, by=by)

    async def suspend(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Suspend the run until ``resume``. See ``AsyncClient.suspend``."""
        await self._backend.suspend_run(self.id, reason=reason, by=by)

    async def resume(self, *, by: str | None = None) -> None:
        """Resume the suspended run. See ``AsyncClient.resume``."""
        await self._backend.resume_run(self.id, by=by)

    async def signal(self, name: str, value: Any = None, *, request_id: str | None = None) -> bool:
        """Send the run a signal. See ``AsyncClient.signal``."""
        return await self._backend.signal(self.id, name, signal_text(name, value), request_id=request_id)


def signal_text(name: str, value: Any) -> str:
    """Write the value of a signal, which the run reads as its ``wait_for_signal`` declares."""
    return codec.encode_for(f"the wait for signal {name!r}", value, path=f"value of signal {name!r}")


def result_of(run: Run, returns: Any = Any) -> Any:
    """Return the result of a run that has ended, or raise its error.

    Raises:
        InvalidValue: The run comes from a list, without its result.
    """
    if run.left_out:
        raise InvalidValue(
            "run", f"run {run.id!r} comes from a list, without large payloads; read it by its id"
        )
    if run.state is RunState.SUCCEEDED:
        return codec.decode(run.result or "null", returns)
    record = json.loads(run.error or "{}")
    error = codec.decode_error(run.error) if run.error else None
    if run.state is RunState.CANCELLED:
        raise error if isinstance(error, RunCancelled) else RunCancelled(run.id)
    if error is None or (type(error).__name__ == "StepFailed" and not record["type"].endswith(":StepFailed")):
        raise RunFailed(run.id, record.get("type", "an unknown error"), record.get("message", ""))
    raise error
