"""``Signoff``: the registry of workflows, bound to a store."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from signoff.client.async_client import AsyncClient, Workflow
from signoff.client.blocking import Client, Groups, Handle, Inbox, Promises, Schedules
from signoff.engine.run.child_calls import group_of
from signoff.errors import InvalidValue, RegistrationError
from signoff.records import Promise, Schedule
from signoff.runtime import forks
from signoff.service.embedded_worker import RunningWorker
from signoff.stores.address import store_at
from signoff.stores.contract.store import Store
from signoff.wire.public_url import checked_public_url
from signoff.workflow.concurrency import Concurrency
from signoff.workflow.registry import Registry, workflow_name

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent

    from signoff.agents.conversations.conversation import Conversation
    from signoff.agents.conversations.turn_workflow import OnMessage
    from signoff.agents.steps.budgets import Budget
    from signoff.flows.flow import Flow

F = TypeVar("F", bound=Callable[..., Any])


def _module_of_caller(frame: FrameType | None) -> str:
    caller = None if frame is None else frame.f_back
    return __name__ if caller is None else str(caller.f_globals.get("__name__", __name__))


def _store_in(store: str | Store, namespace: str | None) -> Store:
    if isinstance(store, str):
        return store_at(store, namespace="default" if namespace is None else namespace)
    if not hasattr(store, "namespace"):
        raise InvalidValue("store", f"{store!r} is neither a URL, such as sqlite:///signoff.db, nor a store")
    if namespace not in (None, store.namespace):
        raise InvalidValue(
            "namespace",
            f"the store is one of namespace {store.namespace!r}. Make it with namespace={namespace!r}, or pass its URL",
        )
    return store


class Signoff:
    """Workflows, and the store of their runs.

    Its methods block, for scripts and plain functions. Async code uses ``AsyncClient(app)``.

    Args:
        store: ``sqlite:///file.db`` (relative to the working directory), ``postgresql://user@host/db``, or a store.
        group: The group that runs are started in and that workers poll.
        namespace: The tenant, by default ``default``. A store given as an object has its own.
        public_url: The server's public URL, such as ``https://signoff.example.com``, with which callback addresses
            begin. By default SIGNOFF_PUBLIC_URL; without either there are no callbacks.
        operators: The assignees of questions about interrupted ``effect="once"`` steps, such as ``["group:ops"]``,
            unless a step sets others. Empty: anyone may answer.

    Raises:
        InvalidValue: ``store``, ``public_url`` or an operator is not valid, or ``store`` is an object of another
            namespace.

    Example::

        app = Signoff("sqlite:///signoff.db")

        @app.workflow
        async def greet(ctx: Context, name: str) -> str:
            return await ctx.step("greet", lambda: f"Hello {name}")

        with app.worker():
            print(app.start(greet, "Ana", id="greet-ana").result())
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///signoff.db",
        *,
        group: str = "default",
        namespace: str | None = None,
        public_url: str | None = None,
        operators: Sequence[str] = (),
    ) -> None:
        public_url = public_url or os.environ.get("SIGNOFF_PUBLIC_URL") or None
        if public_url is not None:
            public_url, _ = checked_public_url(public_url)
        for name, given in (("group", group), ("namespace", namespace)):
            if given is not None and not given.strip():
                raise InvalidValue(name, "it is empty; leave it out for the default")
        self.store: Store = _store_in(store, namespace)
        self.group = group
        # The test environment sets it, so that waiting advances the virtual clock. See ``testing.environment``.
        self.client_in_tests: AsyncClient | None = None
        self.registry = Registry(group, public_url, operators)
        self._making_client = threading.RLock()  # reentrant: a signal handler may interrupt its holder
        self._made_client: Client | None = None
        forks.in_child(self)

    @property
    def public_url(self) -> str | None:
        """The server's public URL, for links and callbacks; None if not set."""
        return self.registry.public_url

    @classmethod
    def remote(
        cls,
        url: str,
        *,
        key: str | None = None,
        group: str = "default",
        namespace: str = "default",
        public_url: str | None = None,
        operators: Sequence[str] = (),
    ) -> Signoff:
        """Return an app that uses the store of a ``signoff server``. It needs no database credentials or inbound port.

        Args:
            url: The server, such as ``https://signoff.example.com``.
            key: A worker key, see ``signoff keys create``.
            group: The group that runs are started in and that workers poll.
            namespace: The tenant. The key must be valid for it.
            public_url: The server's public URL, if it differs from ``url``.
            operators: The assignees of questions about interrupted ``effect="once"`` steps.

        Raises:
            InvalidValue: ``url`` is not valid.

        Example::

            app = Signoff.remote("https://signoff.example.com", key=os.environ["SIGNOFF_WORKER_KEY"])
        """
        from signoff.stores.remote.store import RemoteStore  # imports httpx, which is slow

        store = RemoteStore(url, key=key, namespace=namespace)
        return cls(store, group=group, public_url=public_url, operators=operators)

    # Registering

    @overload
    def workflow(self, function: F) -> F: ...
    @overload
    def workflow(
        self, *, name: str | None = None, version: str = "1", concurrency: Concurrency | int | None = None
    ) -> Callable[[F], F]: ...
    def workflow(
        self,
        function: F | None = None,
        *,
        name: str | None = None,
        version: str = "1",
        concurrency: Concurrency | int | None = None,
    ) -> F | Callable[[F], F]:
        """Register an async function or a generator function as a workflow. Its first parameter is the context.

        Args:
            function: The function, when used without parentheses.
            name: Its name in the store; by default the function's.
            version: The version, recorded in each run. A run continues with its own version while that is registered,
                else with the one registered last.
            concurrency: How many of its runs may run at once in each group: a number, or ``Concurrency`` with a key.

        Returns:
            The function itself.

        Raises:
            RegistrationError: It cannot be a workflow, or its name and version are taken.
            InvalidValue: The concurrency is not above 0.
        """
        limited = Concurrency(concurrency) if isinstance(concurrency, int) else concurrency

        def register(decorated: F) -> F:
            self.registry.add(decorated, name, version, limited)
            return decorated

        return register if function is None else register(function)

    @overload
    def register(
        self,
        what: AbstractAgent[Any, Any],
        *,
        name: str | None = None,
        version: str = "1",
        budget: Budget | None = None,
        on_message: OnMessage = "queue",
        concurrency: Concurrency | int | None = None,
    ) -> None: ...
    @overload
    def register(
        self,
        what: Flow,
        *,
        version: str = "1",
        resources: Mapping[str, Any] | None = None,
        concurrency: Concurrency | int | None = None,
    ) -> None: ...
    def register(
        self,
        what: AbstractAgent[Any, Any] | Flow,
        *,
        name: str | None = None,
        version: str = "1",
        budget: Budget | None = None,
        on_message: OnMessage = "queue",
        resources: Mapping[str, Any] | None = None,
        concurrency: Concurrency | int | None = None,
    ) -> None:
        """Register a Pydantic AI agent or a flow as a workflow of its name.

        Each run of an agent is a turn of a conversation; each run of a flow is an execution.

        Args:
            what: The agent, created with ``capabilities=[Durable(...)]``, or the flow.
            name: An agent's name in the store; by default its own. It must never change.
            version: The version, recorded in each run. See ``workflow``.
            budget: The limits of each turn; by default 50 model requests.
            on_message: The effect of a new message while a turn waits for people: ``queue`` starts the next turn after
                it, ``cancel`` aborts it, ``answer`` answers its question if exactly one is open.
            resources: The resources that this process provides for a flow's chunks.
            concurrency: How many of its runs may run at once, as for ``workflow``.

        Raises:
            RegistrationError: The agent has no name or is not durable, the flow is not complete, the name is taken, or
                ``budget`` or ``on_message`` is not valid.

        Example::

            agent = Agent("openai:gpt-5", name="support", capabilities=[Durable(approvals=["delete_file"])])
            app.register(agent)
        """
        from signoff.flows.flow import Flow

        caller = _module_of_caller(inspect.currentframe())  # a notebook may register it again
        if isinstance(what, Flow):
            from signoff.flows.workflow import register as register_flow

            execution = register_flow(self, what, name, resources)
            execution.__module__ = caller
            self.workflow(name=what.name, version=version, concurrency=concurrency)(execution)
            return
        if not hasattr(what, "root_capability"):
            called = getattr(what, "__name__", None) or type(what).__name__
            raise RegistrationError(
                f"app.register takes an agent or a flow, and {called!r} is neither; a function is registered with "
                "@app.workflow"
            )
        from signoff.agents.conversations.turn_workflow import register
        from signoff.agents.steps import budgets  # imports Pydantic AI, which is slow

        given = cast("object", budget)
        if given is not None and not isinstance(given, budgets.Budget):
            raise RegistrationError(f"budget: expected a Budget, such as Budget(requests=20), not {given!r}")
        workflow, chosen = register(self, what, name, budget, on_message)
        workflow.__module__ = caller
        self.workflow(name=chosen, version=version, concurrency=concurrency)(workflow)

    def conversation(self, agent: str, *, session_id: str) -> Conversation:
        """Return a session of an agent that any process has registered. See ``signoff.agents.Conversation``.

        Example::

            turn = await app.conversation("support", session_id="conv-42").run("delete temp files")
        """
        from signoff.agents.conversations.conversation import Conversation

        return Conversation.on(self, agent, session_id=session_id)

    # Working

    def worker(self, **options: Any) -> RunningWorker:
        """Return a worker as a context manager: ``with`` runs it on a thread, ``async with`` on this loop.

        Args:
            options: Arguments of ``engine.worker.worker.Worker``, such as ``concurrency``, ``threads`` and ``build``.

        Raises:
            InvalidValue: An option is not valid.
        """
        return RunningWorker(self.store, self.registry, {"group": self.group, **options})

    def close(self) -> None:
        """Close the client behind the blocking methods, and the store."""
        client, self._made_client = self._made_client, None
        if client is not None:
            client.close_with(self.store)
        else:
            asyncio.run(self.store.close())

    # Blocking calls

    @property
    def _client(self) -> Client:
        if self._made_client is None:
            with self._making_client:
                if self._made_client is None:
                    self._made_client = Client(self)
        return self._made_client

    def forked(self) -> None:
        """Replace the lock, which a thread of the parent may hold. See ``signoff.runtime.forks``."""
        self._making_client = threading.RLock()

    @property
    def promises(self) -> Promises:
        """Promises, by id."""
        return self._client.promises

    @property
    def groups(self) -> Groups:
        """Groups, by name: pause and limit them."""
        return self._client.groups

    @property
    def inbox(self) -> Inbox:
        """Questions: claim and delegate them, and read their history."""
        return self._client.inbox

    @property
    def schedules(self) -> Schedules:
        """Schedules, by id."""
        return self._client.schedules

    def schedule(self, id: str, workflow: Workflow, /, *args: Any, cron: str, **options: Any) -> Schedule:
        """Start a workflow at the times of a cron expression. See ``AsyncSchedules.put``.

        Example::

            app.schedule("nightly", report, "all", cron="0 9 * * *", timezone="Europe/Berlin")
        """
        return self._client.schedules.put(id, workflow, *args, cron=cron, **options)

    def start(self, workflow: Workflow, /, *args: Any, id: str | None = None, **kwargs: Any) -> Handle:
        """Start a run. See ``AsyncClient.start``."""
        return self._client.start(workflow, *args, id=id, **kwargs)

    def get(self, run_id: str) -> Handle:
        """Return the handle of a run. Raises NotFound."""
        return self._client.get(run_id)

    def signal(self, run_id: str, name: str, value: Any = None, *, request_id: str | None = None) -> bool:
        """Send a signal to a run. See ``AsyncClient.signal``."""
        return self._client.signal(run_id, name, value, request_id=request_id)

    def answer(self, question_id: str, value: Any, **options: Any) -> Promise:
        """Answer a question. See ``AsyncClient.answer``."""
        return self._client.answer(question_id, value, **options)

    def cancel(self, run_id: str, *, reason: str | None = None) -> None:
        """Ask a run to stop."""
        self._client.cancel(run_id, reason=reason)

    def retry(self, run_id: str) -> None:
        """Retry a run that failed because of its code."""
        self._client.retry(run_id)

    def options(
        self,
        *,
        target: str | None = None,
        timeout_seconds: float | None = None,
        priority: int | None = None,
        start_at: datetime | None = None,
        delay_seconds: float | None = None,
        started_by: str | None = None,
        session_id: str | None = None,
    ) -> Starter:
        """Return a starter of runs with options, such as another group or a later start.

        Args:
            target: ``poll://any@group``, or the group.
            timeout_seconds: The run's own deadline, counted from its start.
            priority: Workers claim ready runs with the highest priority first.
            start_at: When it starts, with a time zone.
            delay_seconds: The delay of its start, instead of ``start_at``.
            started_by: The requester, such as ``user:ana``.
            session_id: Its session. The run waits until the session's earlier runs have ended.

        Example::

            app.options(delay_seconds=3600, priority=5).begin_rpc("remind-7", "remind", 7)
        """
        return Starter(self).options(
            target=target,
            timeout_seconds=timeout_seconds,
            priority=priority,
            start_at=start_at,
            delay_seconds=delay_seconds,
            started_by=started_by,
            session_id=session_id,
        )

    def begin_run(self, id: str, workflow: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Handle:
        """Start a registered function as run ``id`` and return its handle."""
        return Starter(self).begin_run(id, workflow, *args, **kwargs)

    def run(self, id: str, workflow: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Start a registered function as run ``id`` and wait for its result."""
        return self.begin_run(id, workflow, *args, **kwargs).result()

    def begin_rpc(self, id: str, workflow: Workflow, /, *args: Any, **kwargs: Any) -> Handle:
        """Start a workflow, by function or by name, as run ``id`` and return its handle."""
        return Starter(self).begin_rpc(id, workflow, *args, **kwargs)

    def rpc(self, id: str, workflow: Workflow, /, *args: Any, **kwargs: Any) -> Any:
        """Start a workflow, by function or by name, as run ``id`` and wait for its result."""
        return self.begin_rpc(id, workflow, *args, **kwargs).result()


@dataclass(frozen=True)
class Starter:
    """Starts runs with other options than the app's."""

    app: Signoff
    group: str | None = None
    timeout_seconds: float | None = None
    priority: int = 0
    start_at: datetime | None = None
    delay_seconds: float | None = None
    started_by: str | None = None
    session_id: str | None = None

    def options(
        self,
        *,
        target: str | None = None,
        timeout_seconds: float | None = None,
        priority: int | None = None,
        start_at: datetime | None = None,
        delay_seconds: float | None = None,
        started_by: str | None = None,
        session_id: str | None = None,
    ) -> Starter:
        """Return a copy with these options changed. See ``Signoff.options``."""
        return replace(
            self,
            group=group_of(target) if target else self.group,
            timeout_seconds=self.timeout_seconds if timeout_seconds is None else timeout_seconds,
            priority=self.priority if priority is None else priority,
            start_at=self.start_at if start_at is None else start_at,
            delay_seconds=self.delay_seconds if delay_seconds is None else delay_seconds,
            started_by=self.started_by if started_by is None else started_by,
            session_id=self.session_id if session_id is None else session_id,
        )

    def begin_run(self, id: str, workflow: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Handle:
        """See ``Signoff.begin_run``."""
        self.app.registry.program(workflow_name(workflow), None)
        return self.begin_rpc(id, workflow, *args, **kwargs)

    def run(self, id: str, workflow: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """See ``Signoff.run``."""
        return self.begin_run(id, workflow, *args, **kwargs).result()

    def begin_rpc(self, id: str, workflow: Workflow, /, *args: Any, **kwargs: Any) -> Handle:
        """See ``Signoff.begin_rpc``."""
        return self.app.start(
            workflow,
            *args,
            id=id,
            group=self.group,
            timeout_seconds=self.timeout_seconds,
            priority=self.priority,
            start_at=self.start_at,
            delay_seconds=self.delay_seconds,
            started_by=self.started_by,
            session_id=self.session_id,
            **kwargs,
        )

    def rpc(self, id: str, workflow: Workflow, /, *args: Any, **kwargs: Any) -> Any:
        """See ``Signoff.rpc``."""
        return self.begin_rpc(id, workflow, *args, **kwargs).result()
