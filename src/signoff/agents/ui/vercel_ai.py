"""Conversations for the Vercel AI SDK: the routes of ``useChat``, by its UI message stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_ai.ui.vercel_ai import VercelAIAdapter, VercelAIEventStream
from pydantic_ai.ui.vercel_ai.request_types import UIMessage
from pydantic_ai.ui.vercel_ai.response_types import (
    BaseChunk,
    DataChunk,
    MessageMetadataChunk,
    ToolApprovalRequestChunk,
)
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from signoff.agents.conversations.conversation import Conversation
from signoff.agents.conversations.session_turns import SessionTurns
from signoff.agents.conversations.turn_watcher import open_questions_of
from signoff.agents.ui.chats import Caller, Chats, body_of
from signoff.agents.ui.decisions import Refused, Said, Shown, give
from signoff.agents.ui.keep_alive import kept_alive
from signoff.agents.ui.prompts import check_new_message, is_turn, prompt_of
from signoff.agents.ui.stream_errors import public_error
from signoff.agents.ui.turn_reader import TurnReader
from signoff.agents.ui.turn_stream import TurnStream
from signoff.agents.ui.vercel_ai_history import ANSWER, SDK, answer_id, history_of, place_in
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidValue, SignoffError
from signoff.records import Run

QUESTION: Final = "data-question"
"""The transient data part about an open question that the SDK has no part for, such as one for a text."""

LATE_ANSWER: Final = "data-late-answer"
"""The transient data part about an answer that came too late: ``{"id", "reason", "by"}``."""


class _Answer(BaseModel):
    """An answer beside the SDK's approvals, in the request's ``answers``."""

    model_config = ConfigDict(extra="forbid")

    id: str
    payload: Any = None
    status: Literal["resolved", "cancelled"] = "resolved"


class _Body(BaseModel):
    """What ``useChat`` sends. Parts of messages stay as they are: each version of the SDK adds fields."""

    id: str
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messages: list[dict[str, Any]]
    answers: list[_Answer] = Field(default_factory=list[_Answer])


def vercel_ai_routes(path: str, chats: Chats) -> list[Route]:
    """Return the routes that serve conversations to ``useChat`` of the Vercel AI SDK, version 6 or newer.

    ``POST path`` takes a message or approvals, and streams the turn. ``GET path/{id}`` returns the messages of a
    conversation; ``GET path/{id}/stream`` streams its running or waiting turn from the turn's beginning, or is 204.

    Args:
        path: The path: the ``api`` of the SDK's transport.
        chats: The conversations.

    Example::

        service = Starlette(routes=vercel_ai_routes("/chat", Chats(source=app, agent="support", caller=signed_in)))
    """

    async def send(request: Request) -> Response:
        caller = await chats.authenticate(request)
        try:
            body = _Body.model_validate_json(await body_of(request))
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            raise HTTPException(
                422, "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:5])
            ) from None
        if body.trigger == "regenerate-message":
            raise HTTPException(422, "a turn is durable and not generated again: send a new message")
        served = _Served(chats, caller, chats.session(caller, body.id), body, request)
        return _streaming(served.chunks)

    async def history(request: Request) -> Response:
        caller = await chats.authenticate(request)
        async with chats.open(chats.session(caller, request.path_params["id"])) as (client, chat):
            messages = await history_of(client, chat.agent, chat.session_id)
        shown = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in messages]
        return JSONResponse(shown, headers=_NOT_STORED)

    async def resume(request: Request) -> Response:
        caller = await chats.authenticate(request)
        session_id = chats.session(caller, request.path_params["id"])
        async with chats.open(session_id) as (client, _):
            run = await SessionTurns(client, chats.agent, session_id).active()
        if run is None:
            return Response(status_code=204)

        async def chunks(stream: _Stream) -> AsyncGenerator[Any]:
            async with chats.open(session_id) as (client, _):
                async for chunk in _turn(client, chats.agent, run, -1, stream):
                    yield chunk

        return _streaming(chunks)

    return [
        Route(path, send, methods=["POST"]),
        Route(f"{path}/{{id}}", history, methods=["GET"]),
        Route(f"{path}/{{id}}/stream", resume, methods=["GET"]),
    ]


_NOT_STORED: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def _streaming(chunks: Any) -> Response:
    stream = _Stream(sdk_version=SDK)
    encoded = stream.encode_stream(stream.transform_stream(cast("AsyncIterator[Any]", chunks(stream))))
    headers = {**(stream.response_headers or {}), **_NOT_STORED}
    return StreamingResponse(kept_alive(encoded), media_type=stream.content_type, headers=headers)


@dataclass
class _Stream(VercelAIEventStream[Any, Any]):
    """Pydantic AI's event stream, which also passes chunks through, and notes in the message how far it came."""

    reader: TurnReader | None = field(default=None, kw_only=True)

    async def before_stream(self) -> AsyncIterator[BaseChunk]:
        """Start nothing yet: the message's id is known with its turn."""
        return
        yield

    async def begin(self, reader: TurnReader) -> AsyncIterator[BaseChunk]:
        """Yield the start of a turn's message."""
        self.reader = reader
        self.server_message_id = answer_id(reader.run_id)
        async for chunk in super().before_stream():
            yield chunk

    async def handle_event(self, event: Any) -> AsyncIterator[BaseChunk]:
        if isinstance(event, BaseChunk):
            yield event
            return
        async for chunk in super().handle_event(event):
            yield chunk

    async def on_error(self, error: Exception) -> AsyncIterator[BaseChunk]:
        async for chunk in super().on_error(Exception(public_error(error).message)):
            yield chunk

    async def after_stream(self) -> AsyncIterator[BaseChunk]:
        if self.reader is not None:
            yield MessageMetadataChunk(message_metadata=place_in(self.reader))
        async for chunk in super().after_stream():
            yield chunk


async def _turn(
    client: AsyncClient, agent: str, run: Run, seq: int | None, stream: _Stream
) -> AsyncGenerator[Any]:
    """Yield a turn's events after a journal entry, and its open questions. None: after all entries so far."""
    reader = TurnReader(run.id)
    entries = await client.backend.read_journal(run.id)
    reader.skip([each for each in entries if seq is None or each.seq <= seq])
    async for chunk in stream.begin(reader):
        yield chunk
    turn = TurnStream(client, agent, run.session_id or "", reader)
    async with aclosing(turn.events()) as events:
        async for event in events:
            yield event
    assert turn.stopped is not None
    for promise in turn.stopped.questions:
        shown = Shown.of(promise, run.id)
        call = shown.tool_call_id
        if shown.is_approval and call is not None and call in reader.open_calls:
            yield ToolApprovalRequestChunk(approval_id=shown.id, tool_call_id=call)
        else:
            yield DataChunk(type=QUESTION, id=shown.id, data=_asked(shown), transient=True)


def _asked(shown: Shown) -> dict[str, Any]:
    pending = shown.pending
    return {
        "id": shown.id,
        "text": pending.text,
        "reason": pending.reason,
        "inputType": pending.input_type,
        "responseSchema": dict(shown.response_schema),
        "expiresAt": shown.expires_at,
        "assignees": list(shown.assignees),
        "tool": pending.tool,
        "arguments": None if pending.arguments is None else dict(pending.arguments),
    }


@dataclass
class _Served:
    """One request."""

    chats: Chats
    caller: Caller
    session_id: str
    body: _Body
    request: Request

    async def chunks(self, stream: _Stream) -> AsyncGenerator[Any]:
        """Do what the request asks for, then yield the turn's events."""
        async with self.chats.open(self.session_id) as (client, chat):
            turns = SessionTurns(client, chat.agent, self.session_id)
            try:
                target, late = await self._take(client, chat)
            except SignoffError:
                async for chunk in self._asked_again(client, turns, stream):
                    yield chunk
                raise
            run = await turns.last() if target is None else await turns.get(target)
            async with aclosing(_turn(client, chat.agent, run, self._known(run), stream)) as chunks:
                async for chunk in chunks:
                    yield chunk
                    if late and stream.reader is not None:
                        for each in late:
                            data = {"id": each.shown_id, "reason": each.reason, "by": each.by}
                            yield DataChunk(type=LATE_ANSWER, data=data, transient=True)
                        late = []

    async def _asked_again(
        self, client: AsyncClient, turns: SessionTurns, stream: _Stream
    ) -> AsyncGenerator[BaseChunk]:
        """Yield the approvals of the last message that are still open: their answers were refused."""
        answered = {each.shown_id for each in _approvals(self._last)}
        run = await turns.active()
        if run is None or not answered or self._last.get("id") != answer_id(run.id):
            return
        reader = TurnReader(run.id)
        known = self._known(run)
        entries = await client.backend.read_journal(run.id)
        reader.skip([each for each in entries if known is None or each.seq <= known])
        async for chunk in stream.begin(reader):
            yield chunk
        _, questions = await open_questions_of(client.backend, run)
        for shown in (Shown.of(each, run.id) for each in questions):
            if shown.id in answered and shown.tool_call_id is not None:
                yield ToolApprovalRequestChunk(approval_id=shown.id, tool_call_id=shown.tool_call_id)

    @property
    def _last(self) -> Mapping[str, Any]:
        return self.body.messages[-1] if self.body.messages else {}

    def _known(self, run: Run) -> int | None:
        """Return the last entry of a turn whose events the client has, as its message says; -1: it has none."""
        if self._last.get("id") != answer_id(run.id):
            return -1
        noted = self._last.get("metadata")
        place = cast("dict[str, Any]", noted).get("signoff") if isinstance(noted, dict) else None
        seq = cast("dict[str, Any]", place).get("seq") if isinstance(place, dict) else None
        return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq >= -1 else None

    async def _take(self, client: AsyncClient, chat: Conversation) -> tuple[str | None, list[Refused]]:
        answers = [Said(each.id, each.payload, each.status == "cancelled") for each in self.body.answers]
        target, late = await give(client, chat, self.caller, [*_approvals(self._last), *answers])
        for message in await self._new_messages(client):
            context_of = self.chats.context_of
            target = await chat.send(
                prompt_of(VercelAIAdapter.load_messages([message])),
                context=None if context_of is None else context_of(self.caller, self.request),
                id=self.chats.turn_of(self.session_id, message.id),
                user_id=self.caller.user_id,
            )
        id = self._last.get("id")
        if target is None and isinstance(id, str):
            said = id.removesuffix(ANSWER)
            target = said if await is_turn(client, self.session_id, said) else None
        return target, late

    async def _new_messages(self, client: AsyncClient) -> list[UIMessage]:
        """Return the user's messages at the end that are not the prompt of a turn in the history they were shown."""
        new: list[UIMessage] = []
        for given in reversed(self.body.messages):
            if given.get("role") != "user":
                break
            try:
                message = UIMessage.model_validate(given)
            except ValidationError:
                raise InvalidValue("messages", "the last message is not a UIMessage") from None
            check_new_message(message.id, len(new))
            if await is_turn(client, self.session_id, message.id):
                break
            new.append(message)
        return new[::-1]


def _approvals(message: Mapping[str, Any]) -> list[Said]:
    """Return the decisions in an assistant's message. What is no clear decision is refused later, never a yes."""
    found: list[Said] = []
    parts = message.get("parts") if message.get("role") == "assistant" else None
    for part in cast("list[Any]", parts) if isinstance(parts, list) else []:
        if not isinstance(part, dict) or cast("dict[str, Any]", part).get("state") != "approval-responded":
            continue
        approval: Any = cast("dict[str, Any]", part).get("approval")
        given = cast("dict[str, Any]", approval) if isinstance(approval, dict) else {}
        reason = given.get("reason")
        payload = {"approved": given.get("approved"), **({} if reason is None else {"reason": reason})}
        found.append(Said(str(given.get("id") or ""), payload))
    return found
