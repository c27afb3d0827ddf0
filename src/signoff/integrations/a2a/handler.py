"""Requests of the protocol, answered from runs: nothing is kept in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.message import Message as ProtoMessage

from signoff import AsyncClient, IdConflict
from signoff.errors import (
    InvalidState,
    InvalidValue,
    NotFound,
    NotSerializable,
    PayloadTooLarge,
    RequestConflict,
)
from signoff.integrations.a2a.agent import A2AAgent, Caller, context_of
from signoff.integrations.a2a.answers import answer
from signoff.integrations.a2a.starts import start
from signoff.integrations.a2a.tasks import Found, artifacts_of, find, status_of, task_of
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.a2a")

CALLER: Final = "signoff.caller"
"""The key of the caller in the state of a request."""

_LOOK_AGAIN: Final = 5.0
"""Seconds until a watched task is read again without news: an answer reaches the journal once a worker takes it."""

_INVALID: Final = (InvalidValue, NotSerializable, PayloadTooLarge, IdConflict, RequestConflict)


class RunTasks(RequestHandler):
    """Serves an agent: a task is a run.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: A2AAgent) -> None:
        self._agent = agent

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Start a task or answer its questions, and return it once it has ended or waits for an answer."""
        caller = _caller(context)
        with _public_errors(params):
            async with self._agent.open() as client:
                task_id, problems = await self._take(client, caller, params)
                found = await find(client, self._agent, caller, task_id)
                if not problems and not params.configuration.return_immediately:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._agent.patience):
                            async with aclosing(self._watch(client, caller, found)) as seen:
                                async for found in seen:
                                    if found.is_stopped:
                                        break
                return task_of(self._agent, caller, found, problems)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Start a task or answer its questions, and yield its changes until it has ended or waits for an answer."""
        caller = _caller(context)
        with _public_errors(params):
            async with self._agent.open() as client:
                task_id, problems = await self._take(client, caller, params)
                found = await find(client, self._agent, caller, task_id)
                async with aclosing(self._events(client, caller, found, problems)) as events:
                    async for event, now in events:
                        yield event
                        if now.is_stopped and not now.run.state.is_final:
                            return

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Yield a task and its changes until it has ended, also while people answer its questions."""
        caller = _caller(context)
        with _public_errors(params):
            async with self._agent.open() as client:
                found = await find(client, self._agent, caller, params.id)
                if found.run.state.is_final:
                    raise UnsupportedOperationError("the task has ended")
                async with aclosing(self._events(client, caller, found)) as events:
                    async for event, _ in events:
                        yield event

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        """Return a task. It has no history: the journal of the run is its history."""
        caller = _caller(context)
        with _public_errors(params):
            async with self._agent.open() as client:
                return task_of(self._agent, caller, await find(client, self._agent, caller, params.id))

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        """Request the cancellation of a task, and wait a while for its end: its code may clean up first."""
        caller = _caller(context)
        with _public_errors(params):
            async with self._agent.open() as client:
                found = await find(client, self._agent, caller, params.id)
                if found.run.state.is_final:
                    raise TaskNotCancelableError("the task has ended")
                await client.cancel(params.id, reason="cancelled through A2A", by=caller.name)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._agent.patience):
                        await client.backend.wait(params.id)
                return task_of(self._agent, caller, await find(client, self._agent, caller, params.id))

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Refuse: runs are listed through Signoff's own API."""
        raise UnsupportedOperationError("this agent does not list tasks")

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse: there are no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse: there are no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Refuse: there are no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Refuse: there are no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse: all callers have one card."""
        raise ExtendedAgentCardNotConfiguredError

    async def _take(
        self, client: AsyncClient, caller: Caller, params: SendMessageRequest
    ) -> tuple[str, list[str]]:
        """Do what a message asks for. Returns the task, and why answers were refused."""
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        message = params.message
        if message.role != Role.ROLE_USER:
            raise InvalidParamsError("a caller's message has the role of the user")
        if not message.task_id:
            return await start(client, self._agent, caller, message), []
        found = await find(client, self._agent, caller, message.task_id)
        if message.context_id and message.context_id != context_of(message.task_id):
            raise InvalidParamsError("the task belongs to another context")
        problems = await answer(client, self._agent, caller, found.run, message)
        if problems and found.run.state.is_final:
            raise UnsupportedOperationError(f"the task has ended. {' '.join(problems)}")
        return message.task_id, problems

    async def _events(
        self, client: AsyncClient, caller: Caller, found: Found, problems: list[str] | None = None
    ) -> AsyncGenerator[tuple[Event, Found]]:
        """Yield the task, then its changes, each with the task as it then is."""
        agent = self._agent
        yield task_of(agent, caller, found, problems or []), found
        shown: TaskStatus = status_of(agent, caller, found)
        async with aclosing(self._watch(client, caller, found)) as seen:
            async for now in seen:
                status = status_of(agent, caller, now)
                if status == shown:
                    continue
                ids: dict[str, Any] = {"task_id": now.run.id, "context_id": context_of(now.run.id)}
                for artifact in artifacts_of(now.run):
                    yield TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True, **ids), now
                shown = status
                yield TaskStatusUpdateEvent(status=status, **ids), now

    async def _watch(self, client: AsyncClient, caller: Caller, found: Found) -> AsyncGenerator[Found]:
        """Yield a task as it is now, and again after each piece of news, until it has ended."""
        yield found
        if found.run.state.is_final:
            return
        async with _news(client, found.run.id) as news:
            while True:
                news.clear()
                found = await find(client, self._agent, caller, found.run.id)
                yield found
                if found.run.state.is_final:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN):
                        await news.wait()


@asynccontextmanager
async def _news(client: AsyncClient, run_id: str) -> AsyncGenerator[asyncio.Event]:
    """Provide an event that is set when a run's journal grows or ends."""
    news = asyncio.Event()

    async def listen() -> None:
        async with aclosing(client.backend.follow(run_id)) as entries:
            async for _ in entries:
                news.set()
        await client.backend.wait(run_id)
        news.set()

    listening = asyncio.create_task(listen())
    try:
        yield news
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def _caller(context: ServerCallContext) -> Caller:
    caller = context.state[CALLER]
    assert isinstance(caller, Caller)
    return caller


@contextmanager
def _public_errors(params: ProtoMessage) -> Generator[None]:
    """Check a request, and raise errors as the protocol has them. Unexpected ones are logged, and lose their text."""
    try:
        validate_proto_required_fields(params)
        yield
    except A2AError:
        raise
    except NotFound:
        raise TaskNotFoundError from None
    except InvalidState as error:
        raise UnsupportedOperationError(str(error)) from None
    except _INVALID as error:
        raise InvalidParamsError(str(error)) from None
    except Exception:
        log.exception("a request of an agent failed")
        raise InternalError("the request failed") from None
