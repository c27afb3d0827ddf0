"""The clients' blocking side: ``Client``, its handles and promises, on a thread with an event loop of its own."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, overload

from signoff.client.async_client import App, AsyncClient, AsyncHandle, Workflow
from signoff.client.groups import AsyncGroups
from signoff.client.inbox import AsyncInbox
from signoff.client.links import AsyncLinks
from signoff.client.loop_thread import Background
from signoff.client.notifications import AsyncNotifications
from signoff.client.promises import AsyncPromises
from signoff.client.rules import AsyncRules
from signoff.client.schedules import AsyncSchedules
from signoff.client.sessions import AsyncSessions
from signoff.client.workflows import AsyncWorkflows
from signoff.errors import SignoffError
from signoff.people.links.answer_links import NewLink
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.people.questions.standing_approvals import Alike
from signoff.records import (
    AuditEvent,
    Entry,
    Group,
    LiveText,
    Origin,
    Promise,
    Rate,
    Rule,
    Run,
    RunState,
    Schedule,
    Session,
    Token,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery
from signoff.records.paging import Page
from signoff.service.snapshots import Snapshot
from signoff.stores.contract.store import Store

T = TypeVar("T")


class Client:
    """Runs, promises and questions of one namespace, for code that may block. See ``AsyncClient``.

    Example::

        with Client("http://127.0.0.1:8000") as client:
            print(client.start("refund_flow", "o-1", 7000, id="refund-o-1").result())
    """

    def __init__(
        self,
        target: App | str,
        *,
        group: str | None = None,
        key: str | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._async = AsyncClient(target, group=group, key=key, origin=origin)
        self._background = Background(self._async.backend.open)
        self._call("Client", self._async.backend.open())
        self.promises = Promises(self._async.promises, self._background)
        self.groups = Groups(self._async.groups, self._background)
        self.inbox = Inbox(self._async.inbox, self._background)
        self.rules = Rules(self._async.rules, self._background)
        self.sessions = Sessions(self._async.sessions, self._background)
        self.workflows = Workflows(self._async.workflows, self._background)
        self.links = Links(self._async.links, self._background)
        self.schedules = Schedules(self._async.schedules, self._background)
        self.notifications = Notifications(self._async.notifications, self._background)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections and the thread behind this client. An app's store stays open.

        Calls of other threads that are under way end with ClientClosed.
        """
        self._background.stop(self._async.close(), "Client.close")

    def close_with(self, store: Store) -> None:
        """Close the client and the store it used."""

        async def close_both() -> None:
            await self._async.close()
            await store.close()

        self._background.stop(close_both(), "close")

    def _call(self, method: str, work: Coroutine[Any, Any, T]) -> T:
        return self._background.call(work, method)

    def start(
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
        **kwargs: Any,
    ) -> Handle:
        """Start a run. See ``AsyncClient.start``."""
        work = self._async.start(
            workflow,
            *args,
            id=id,
            group=group,
            timeout_seconds=timeout_seconds,
            priority=priority,
            start_at=start_at,
            delay_seconds=delay_seconds,
            **kwargs,
        )
        return Handle(self._call("start", work), self._background)

    def get(self, run_id: str, *, returns: Any = Any) -> Handle:
        """Return the handle of a run. Raises NotFound."""
        return Handle(self._call("get", self._async.get(run_id, returns=returns)), self._background)

    def list(
        self,
        *,
        states: Sequence[RunState | str] = (),
        workflow: str | None = None,
        group: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Run]:
        """List runs, newest first. See ``AsyncClient.list``."""
        work = self._async.list(states=states, workflow=workflow, group=group, after=after, limit=limit)
        return self._call("list", work)

    def signal(
        self,
        run_id: str,
        name: str,
        value: Any = None,
        *,
        by: str | None = None,
        request_id: str | None = None,
    ) -> bool:
        """Send a signal to a run. See ``AsyncClient.signal``."""
        return self._call("signal", self._async.signal(run_id, name, value, by=by, request_id=request_id))

    def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Ask a run to stop. See ``AsyncClient.cancel``."""
        self._call("cancel", self._async.cancel(run_id, reason=reason, by=by))

    def suspend(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        """Have a run wait until ``resume``. See ``AsyncClient.suspend``."""
        return self._call("suspend", self._async.suspend(run_id, reason=reason, by=by))

    def resume(self, run_id: str, *, by: str | None = None) -> Run:
        """Have a suspended run go on. See ``AsyncClient.resume``."""
        return self._call("resume", self._async.resume(run_id, by=by))

    def terminate(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> None:
        """End a run at once, without its code. See ``AsyncClient.terminate``."""
        self._call("terminate", self._async.terminate(run_id, reason=reason, by=by))

    def retry(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Have a failed run go on from where it failed. See ``AsyncClient.retry``."""
        self._call("retry", self._async.retry(run_id, reason=reason, by=by))

    def save(self, run_id: str, *, by: str | None = None) -> dict[str, Any]:
        """Return a run as JSON data. See ``AsyncClient.save``."""
        return self._call("save", self._async.save(run_id, by=by))

    def load(self, snapshot: Snapshot, *, by: str | None = None) -> Handle:
        """Have a run go on here as it was saved. See ``AsyncClient.load``."""
        return Handle(self._call("load", self._async.load(snapshot, by=by)), self._background)

    def prune(self, older_than: timedelta) -> int:
        """Delete runs, and what else, that ended so long ago. See ``AsyncClient.prune``."""
        return self._call("prune", self._async.prune(older_than))

    def workers(self) -> Sequence[WorkerInfo]:
        """Return the workers of the whole database. See ``AsyncClient.workers``."""
        return self._call("workers", self._async.workers())

    def questions(
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
        """List open questions, oldest first. See ``AsyncClient.questions``."""
        work = self._async.questions(
            run_id=run_id,
            user_id=user_id,
            groups=groups,
            roles=roles,
            workflow=workflow,
            group=group,
            text=text,
            after=after,
            limit=limit,
        )
        return self._call("questions", work)

    def answer(
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
        """Answer a question. See ``AsyncClient.answer``."""
        work = self._async.answer(
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
        return self._call("answer", work)


class Handle:
    """A run, seen from outside, for code that may block. See ``AsyncHandle``."""

    def __init__(self, handle: AsyncHandle, background: Background) -> None:
        self.id = handle.id
        self._async = handle
        self._background = background

    @property
    def status(self) -> RunState:
        """The run's state."""
        return self._background.call(self._async.status(), "status")

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self.status.is_final

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the run's end and return its result. See ``AsyncHandle.result``."""
        return self._background.call(self._async.result(timeout), "result")

    def journal(self, after: int = -1) -> Sequence[Entry]:
        """Return the journal as it is now, from ``after`` on."""
        return self._background.call(self._async.journal(after), "journal")

    @overload
    def events(self, after: int = -1, *, live: Literal[False] = False) -> Iterator[Entry]: ...
    @overload
    def events(self, after: int = -1, *, live: Literal[True]) -> Iterator[Entry | LiveText]: ...
    def events(self, after: int = -1, *, live: bool = False) -> Iterator[Any]:
        """Iterate over the journal from ``after`` on, live, until the run ends."""
        events = self._async.events(after, live=True) if live else self._async.events(after)
        return self._background.iterate(events, "events")

    def cancel(self, reason: str | None = None) -> None:
        """Ask the run to stop."""
        self._background.call(self._async.cancel(reason), "cancel")

    def terminate(self, reason: str | None = None, *, by: str | None = None) -> None:
        """End the run at once, without its code. See ``AsyncClient.terminate``."""
        self._background.call(self._async.terminate(reason, by=by), "terminate")

    def suspend(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Have the run wait until ``resume``. See ``AsyncClient.suspend``."""
        self._background.call(self._async.suspend(reason, by=by), "suspend")

    def resume(self, *, by: str | None = None) -> None:
        """Have the suspended run go on. See ``AsyncClient.resume``."""
        self._background.call(self._async.resume(by=by), "resume")

    def signal(self, name: str, value: Any = None, *, request_id: str | None = None) -> bool:
        """Send the run a signal. See ``AsyncClient.signal``."""
        return self._background.call(self._async.signal(name, value, request_id=request_id), "signal")


class Promises:
    """Promises by their ids, for code that may block. See ``AsyncPromises``."""

    def __init__(self, promises: AsyncPromises, background: Background) -> None:
        self._async = promises
        self._background = background

    def create(
        self, id: str, *, timeout_seconds: float | None = None, data: Any = None, returns: Any = Any
    ) -> Promise:
        """Create a promise that belongs to no run, or find it. See ``AsyncPromises.create``."""
        work = self._async.create(id, timeout_seconds=timeout_seconds, data=data, returns=returns)
        return self._background.call(work, "promises.create")

    def get(self, id: str) -> Promise:
        """Return a promise. Raises NotFound."""
        return self._background.call(self._async.get(id), "promises.get")

    def resolve(
        self, id: str, value: Any = None, *, by: str | None = None, request_id: str | None = None
    ) -> Promise:
        """Settle a promise with a value. Raises NotFound, AlreadySettled, RequestConflict."""
        return self._background.call(
            self._async.resolve(id, value, by=by, request_id=request_id), "promises.resolve"
        )

    def reject(
        self, id: str, value: Any = None, *, by: str | None = None, request_id: str | None = None
    ) -> Promise:
        """Settle a promise with a reason against it; the run gets a ``PromiseRejected``."""
        return self._background.call(
            self._async.reject(id, value, by=by, request_id=request_id), "promises.reject"
        )

    def cancel(self, id: str, *, by: str | None = None, request_id: str | None = None) -> Promise:
        """Settle a promise by withdrawing it; the run gets a ``PromiseCancelled``."""
        return self._background.call(self._async.cancel(id, by=by, request_id=request_id), "promises.cancel")


class Groups:
    """Groups by their names, for code that may block. See ``AsyncGroups``."""

    def __init__(self, groups: AsyncGroups, background: Background) -> None:
        self._async = groups
        self._background = background

    def list(self) -> Sequence[Group]:
        """Return the groups that have runs, or were ever paused or limited, by name. Counts stop at 10,000."""
        return self._background.call(self._async.list(), "groups.list")

    def pause(self, name: str) -> None:
        """Have no more runs of a group taken by workers."""
        self._background.call(self._async.pause(name), "groups.pause")

    def resume(self, name: str) -> None:
        """Have runs of a paused group taken again."""
        self._background.call(self._async.resume(name), "groups.resume")

    def limit(self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None) -> None:
        """Replace the limits of a group. See ``AsyncGroups.limit``."""
        work = self._async.limit(name, max_running=max_running, starts_per=starts_per)
        self._background.call(work, "groups.limit")


class Inbox:
    """Who answers which question, for code that may block. See ``AsyncInbox``."""

    def __init__(self, inbox: AsyncInbox, background: Background) -> None:
        self._async = inbox
        self._background = background

    def answer_all(self, given: Sequence[GivenAnswer], **responder: Any) -> Sequence[Promise | SignoffError]:
        """Answer several questions, each by itself. See ``AsyncInbox.answer_all``."""
        return self._background.call(self._async.answer_all(given, **responder), "inbox.answer_all")

    def view(self, question_id: str, **responder: Any) -> Promise:
        """Show a question to somebody who may answer it. See ``AsyncInbox.view``."""
        return self._background.call(self._async.view(question_id, **responder), "inbox.view")

    def comment(self, question_id: str, text: str, **said: Any) -> AuditEvent:
        """Say something about a question. See ``AsyncInbox.comment``."""
        return self._background.call(self._async.comment(question_id, text, **said), "inbox.comment")

    def claim(self, question_id: str, **responder: Any) -> Promise:
        """Say that a person will answer. See ``AsyncInbox.claim``."""
        return self._background.call(self._async.claim(question_id, **responder), "inbox.claim")

    def release(self, question_id: str, *, user_id: str) -> Promise:
        """Let others answer again what this person has claimed. See ``AsyncInbox.release``."""
        return self._background.call(self._async.release(question_id, user_id=user_id), "inbox.release")

    def delegate(self, question_id: str, to: Sequence[str], **options: Any) -> Promise:
        """Have others answer instead of all who may now. See ``AsyncInbox.delegate``."""
        return self._background.call(self._async.delegate(question_id, to, **options), "inbox.delegate")

    def cancel(self, question_id: str, **options: Any) -> Promise:
        """Withdraw a question. See ``AsyncInbox.cancel``."""
        return self._background.call(self._async.cancel(question_id, **options), "inbox.cancel")

    def reassign(self, question_id: str, to: Sequence[str], **options: Any) -> Promise:
        """Have others answer, whoever is asked now. See ``AsyncInbox.reassign``."""
        return self._background.call(self._async.reassign(question_id, to, **options), "inbox.reassign")

    def move_deadline(self, question_id: str, timeout_seconds: float, **options: Any) -> Promise:
        """Have people answer until another time. See ``AsyncInbox.move_deadline``."""
        work = self._async.move_deadline(question_id, timeout_seconds, **options)
        return self._background.call(work, "inbox.move_deadline")

    def history(self, **which: Any) -> Page[AuditEvent]:
        """List what happened to questions, in order. See ``AsyncInbox.history``."""
        return self._background.call(self._async.history(**which), "inbox.history")


class Sessions:
    """Sessions by their ids, for code that may block. See ``AsyncSessions``."""

    def __init__(self, sessions: AsyncSessions, background: Background) -> None:
        self._async = sessions
        self._background = background

    def get(self, session_id: str) -> Session:
        """Return a session. See ``AsyncSessions.get``."""
        return self._background.call(self._async.get(session_id), "sessions.get")

    def list(self, **which: Any) -> Page[Session]:
        """List sessions, that in which a run was started last first. See ``AsyncSessions.list``."""
        return self._background.call(self._async.list(**which), "sessions.list")


class Workflows:
    """What workers run, for code that may block. See ``AsyncWorkflows``."""

    def __init__(self, workflows: AsyncWorkflows, background: Background) -> None:
        self._async = workflows
        self._background = background

    def list(self, **which: Any) -> Page[WorkflowInfo]:
        """List workflows by name, then by group and version. See ``AsyncWorkflows.list``."""
        return self._background.call(self._async.list(**which), "workflows.list")


class Rules:
    """Rules by their ids, for code that may block. See ``AsyncRules``."""

    def __init__(self, rules: AsyncRules, background: Background) -> None:
        self._async = rules
        self._background = background

    def list(self, **which: Any) -> Page[Rule]:
        """List rules, oldest first. See ``AsyncRules.list``."""
        return self._background.call(self._async.list(**which), "rules.list")

    def revoke(self, rule_id: str, **said: Any) -> Rule:
        """Have a rule approve nothing more. See ``AsyncRules.revoke``."""
        return self._background.call(self._async.revoke(rule_id, **said), "rules.revoke")


class Links:
    """Addresses by which one person answers one question, for code that may block. See ``AsyncLinks``."""

    def __init__(self, links: AsyncLinks, background: Background) -> None:
        self._async = links
        self._background = background

    def create(self, question_id: str, *, user_id: str, **options: Any) -> NewLink:
        """Make a link. See ``AsyncLinks.create``."""
        return self._background.call(
            self._async.create(question_id, user_id=user_id, **options), "links.create"
        )

    def list(self, question_id: str, *, after: str | None = None, limit: int = 100) -> Page[Token]:
        """List a question's links, open or not, oldest first."""
        return self._background.call(self._async.list(question_id, after=after, limit=limit), "links.list")

    def revoke(self, link_id: str, *, by: str | None = None) -> Token:
        """Have a link open nothing any more. Raises NotFound."""
        return self._background.call(self._async.revoke(link_id, by=by), "links.revoke")


class Schedules:
    """Schedules by their ids, for code that may block. See ``AsyncSchedules``."""

    def __init__(self, schedules: AsyncSchedules, background: Background) -> None:
        self._async = schedules
        self._background = background

    def put(self, id: str, workflow: Workflow, /, *args: Any, cron: str, **options: Any) -> Schedule:
        """Create a schedule, or change the one that has the id. See ``AsyncSchedules.put``."""
        return self._background.call(
            self._async.put(id, workflow, *args, cron=cron, **options), "schedules.put"
        )

    def get(self, id: str) -> Schedule:
        """Return a schedule. Raises NotFound."""
        return self._background.call(self._async.get(id), "schedules.get")

    def list(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        """List schedules by id; ``after`` is a former page's ``next``."""
        return self._background.call(self._async.list(after=after, limit=limit), "schedules.list")

    def pause(self, id: str) -> Schedule:
        """Have a schedule start nothing more. Raises NotFound."""
        return self._background.call(self._async.pause(id), "schedules.pause")

    def resume(self, id: str) -> Schedule:
        """Have a paused schedule go on with its next time. Raises NotFound."""
        return self._background.call(self._async.resume(id), "schedules.resume")

    def delete(self, id: str) -> None:
        """Delete a schedule. Its runs stay. Raises NotFound."""
        self._background.call(self._async.delete(id), "schedules.delete")


class Notifications:
    """What channels have told people, for code that may block. See ``AsyncNotifications``."""

    def __init__(self, notifications: AsyncNotifications, background: Background) -> None:
        self._async = notifications
        self._background = background

    def list(self, **which: Any) -> Page[Delivery]:
        """List deliveries, newest first. See ``AsyncNotifications.list``."""
        return self._background.call(self._async.list(**which), "notifications.list")

    def redeliver(self, delivery_id: str) -> Delivery:
        """Have a delivery that has ended sent again. Raises NotFound."""
        return self._background.call(self._async.redeliver(delivery_id), "notifications.redeliver")
