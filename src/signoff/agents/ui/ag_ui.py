"""Conversations over AG-UI: a message or an answer comes in, and the turn's events go out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    UserMessage,
)
from pydantic import ValidationError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.ui.ag_ui import AGUIAdapter, AGUIEventStream
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from signoff.agents.conversations.conversation import Conversation
from signoff.agents.ui.chats import Caller, Chats, body_of
from signoff.agents.ui.decisions import Refused, Said, Shown, give
from signoff.agents.ui.keep_alive import kept_alive
from signoff.agents.ui.prompts import check_new_message, is_turn, prompt_of
from signoff.agents.ui.session_stream import History, SessionStream, Waiting
from signoff.agents.ui.stream_errors import public_error
from signoff.client.async_client import AsyncClient

LATE_ANSWER: Final = "signoff.late_answer"
"""The custom event about an answer that came too late: ``{"interruptId", "reason", "by"}``."""

_HIDDEN: Final = ("system", "developer")


def ag_ui_route(path: str, chats: Chats) -> Route:
    """Return the route that serves conversations over AG-UI.

    ``POST`` takes a ``RunAgentInput`` and streams events. A user's new message begins a turn, ``resume`` answers
    questions, and a request with neither shows the conversation as it is: its history, and the running or waiting turn.

    Args:
        path: The path.
        chats: The conversations.

    Example::

        service = Starlette(routes=[ag_ui_route("/agent", Chats(source=app, agent="support", caller=signed_in))])
    """

    async def run(request: Request) -> Response:
        caller = await chats.authenticate(request)
        try:
            run_input = AGUIAdapter.build_run_input(await body_of(request))
        except ValidationError as error:
            raise HTTPException(422, f"not a RunAgentInput: {_problems(error)}") from None
        session_id = chats.session(caller, run_input.thread_id)
        served = _Served(chats, caller, session_id, run_input, request)
        stream = _Stream(run_input, accept=request.headers.get("accept"))
        encoded = stream.encode_stream(
            stream.transform_stream(cast("AsyncIterator[Any]", served.events(stream)))
        )
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(kept_alive(encoded), media_type=stream.content_type, headers=headers)

    return Route(path, run, methods=["POST"])


@dataclass
class _Stream(AGUIEventStream[Any, Any]):
    """Pydantic AI's event stream, which also passes AG-UI events through, and ends with a turn's open questions."""

    questions: Sequence[Shown] = field(default=(), kw_only=True)
    has_failed: bool = field(default=False, kw_only=True)

    async def handle_event(self, event: Any) -> AsyncIterator[BaseEvent]:
        if isinstance(event, BaseEvent):
            yield event
            return
        async for each in super().handle_event(event):
            yield each

    async def on_error(self, error: Exception) -> AsyncIterator[BaseEvent]:
        self.has_failed = True
        public = public_error(error)
        yield RunErrorEvent(message=public.message, code=public.code, timestamp=_milliseconds())

    async def on_cancelled(self, cancelled: Exception) -> AsyncIterator[BaseEvent]:
        async for each in self.on_error(cancelled):
            yield each

    async def after_stream(self) -> AsyncIterator[BaseEvent]:
        if not self.has_failed:
            yield self.finished(self.run_id)

    def finished(self, run_id: str) -> RunFinishedEvent:
        """Return the end of a run, with the open questions as its interrupts."""
        outcome = (
            RunFinishedInterruptOutcome(interrupts=[_interrupt(each) for each in self.questions])
            if self.questions
            else RunFinishedSuccessOutcome()
        )
        return RunFinishedEvent(
            thread_id=self.thread_id, run_id=run_id, outcome=outcome, timestamp=_milliseconds()
        )


@dataclass
class _Served:
    """One request."""

    chats: Chats
    caller: Caller
    session_id: str
    run_input: RunAgentInput
    request: Request

    async def events(self, stream: _Stream) -> AsyncGenerator[Any]:
        """Do what the request asks for, then yield the conversation's events."""
        async with self.chats.open(self.session_id) as (client, chat):
            target, late = await self._take(client, chat)
            for each in late:
                value = {"interruptId": each.shown_id, "reason": each.reason, "by": each.by}
                yield CustomEvent(name=LATE_ANSWER, value=value)
            session = SessionStream(client, chat.agent, self.session_id)
            run_id, history = stream.run_id, History([], None)
            current = await session.current(target)
            parts = session.parts(current, target=target, follow=_wants_to_follow(self.run_input))
            async with aclosing(parts):
                async for part in parts:
                    if isinstance(part, History):
                        history = part
                        yield _snapshot(part.messages)
                    elif isinstance(part, Waiting):
                        stream.questions = part.questions
                        if _wants_to_follow(self.run_input):
                            yield stream.finished(run_id)
                    else:
                        if stream.questions:  # people have answered
                            stream.questions, run_id = (), str(uuid4())
                            yield RunStartedEvent(thread_id=stream.thread_id, run_id=run_id)
                        yield part
            stream.run_id = run_id
            has_discarded = history.reader is not None and history.reader.output.has_discarded
            if has_discarded and (last := await session.current(target)) is not None:
                yield _snapshot(await session.messages(last, None if last.state.is_final else history.reader))

    async def _take(self, client: AsyncClient, chat: Conversation) -> tuple[str | None, list[Refused]]:
        answers = [
            Said(each.interrupt_id, each.payload, each.status == "cancelled")
            for each in self.run_input.resume or ()
        ]
        target, late = await give(client, chat, self.caller, answers)
        for message in await self._new_messages(client):
            context_of = self.chats.context_of
            target = await chat.send(
                prompt_of(AGUIAdapter.load_messages([message])),
                context=None if context_of is None else context_of(self.caller, self.request),
                id=self.chats.turn_of(self.session_id, message.id),
                user_id=self.caller.user_id,
            )
        return target, late

    async def _new_messages(self, client: AsyncClient) -> list[UserMessage]:
        """Return the user's messages at the end that are not the prompt of a turn in the history they were shown."""
        new: list[UserMessage] = []
        for message in reversed(self.run_input.messages):
            if not isinstance(message, UserMessage):
                break
            check_new_message(message.id, len(new))
            if await is_turn(client, self.session_id, message.id):
                break
            new.append(message)
        return new[::-1]


def _milliseconds() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def _wants_to_follow(run_input: RunAgentInput) -> bool:
    asked = run_input.forwarded_props
    return isinstance(asked, dict) and cast("dict[str, Any]", asked).get("follow") is True


def _snapshot(messages: Sequence[ModelMessage]) -> MessagesSnapshotEvent:
    return MessagesSnapshotEvent(messages=list(_dumped(messages)))


def _dumped(messages: Sequence[ModelMessage]) -> Iterator[Message]:
    """Yield messages as AG-UI has them, with ids that stay. The id of a turn's prompt is that of its run."""
    counts: dict[str, int] = {}
    for message in messages:
        run_id = message.run_id or ""
        for each in AGUIAdapter.dump_messages([message]):
            if each.role in _HIDDEN:
                continue
            number = counts.get(run_id, 0)
            counts[run_id] = number + 1
            each.id = run_id if number == 0 else f"{run_id}-{number}"
            yield each


def _interrupt(question: Shown) -> Interrupt:
    pending = question.pending
    about: dict[str, Any] = {
        "questionId": pending.id,
        "reason": pending.reason,
        "inputType": pending.input_type,
        "assignees": list(question.assignees),
    }
    if pending.tool is not None:
        about |= {"tool": pending.tool, "arguments": dict(pending.arguments or {})}
    return Interrupt(
        id=question.id,
        reason="tool_call" if question.is_approval else "input_required",
        message=pending.text,
        tool_call_id=question.tool_call_id,
        response_schema=dict(question.response_schema),
        expires_at=question.expires_at,
        metadata=about,
    )


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:5])
