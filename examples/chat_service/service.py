"""The web service. Any number of its processes may run, and each can take messages and answers, and stream events.

``uvicorn examples.chat_service.service:service``. Authentication is up to the proxy in front of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field
from pydantic_ai.messages import TextPart, UserPromptPart

from examples.chat_service.assistant import NAME, app
from signoff import AlreadySettled, NotAllowed, NotFound, SignoffError, WrongAnswer
from signoff.agents import Approve, Conversation, Deny, Edit, Finished, Paused, Pending, Reply
from signoff.errors import InvalidState, InvalidValue, RequestConflict, ResumeRefused
from signoff.records import LiveText

HERE = Path(__file__).parent
SESSION = Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")
STATUS: dict[type[SignoffError], int] = {
    WrongAnswer: 422,
    InvalidValue: 422,
    NotFound: 404,
    NotAllowed: 403,
    ResumeRefused: 403,
    AlreadySettled: 409,
    RequestConflict: 409,
    InvalidState: 409,
}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'"

service = FastAPI(title="Chat")


class Message(BaseModel):
    """A user's message."""

    session: str = SESSION
    text: str = Field(min_length=1, max_length=10_000)
    user: str = Field(default="guest", pattern=r"^[\w.@-]{1,100}$")
    id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,100}$")
    """A message that is sent twice with one id counts once."""


class Answer(BaseModel):
    """An answer to a question."""

    session: str = SESSION
    question: str
    decision: Literal["approve", "deny", "edit", "reply"]
    user: str = Field(pattern=r"^[\w.@-]{1,100}$")
    note: str | None = None
    value: Any = None
    """The arguments of an edit, or the value of a reply."""
    request_id: str | None = Field(default=None, max_length=200)


class Resumption(BaseModel):
    """An answer by resume token, for callers that received one with a waiting turn."""

    session: str = SESSION
    token: str
    answer: Any
    user: str = Field(default="guest", pattern=r"^[\w.@-]{1,100}$")


@service.exception_handler(SignoffError)
def refused(request: Request, error: SignoffError) -> JSONResponse:
    """Return the reason why a request was refused, or why a turn failed."""
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    return JSONResponse({"error": str(error)}, status)


@service.post("/chat")
async def chat(message: Message) -> dict[str, Any]:
    """Send a message. Returns when the turn has its answer or waits for people."""
    turn = await talk(message.session).run(
        message.text,
        id=None if message.id is None else f"{message.session}-{message.id}",
        user_id=message.user,
    )
    return shown(turn)


@service.post("/respond")
async def respond(said: Answer) -> dict[str, Any]:
    """Answer a question of a session, in any process."""
    decisions = {
        "approve": lambda: Approve(said.note),
        "deny": lambda: Deny(said.note),
        "edit": lambda: Edit(said.value if isinstance(said.value, dict) else {}, said.note),
        "reply": lambda: Reply(said.value, said.note),
    }
    turn = await talk(said.session).respond(
        said.question, decisions[said.decision](), user_id=said.user, request_id=said.request_id
    )
    return shown(turn)


@service.post("/resume")
async def resume(said: Resumption) -> dict[str, Any]:
    """Answer with a resume token, which works once."""
    return shown(await talk(said.session).resume(said.token, said.answer, user_id=said.user))


@service.get("/chat/{session}")
async def look(session: Annotated[str, SESSION]) -> dict[str, Any]:
    """Return the messages and the open questions."""
    conversation = talk(session)
    said = [
        {"by": "you" if isinstance(part, UserPromptPart) else "desk", "text": str(part.content)}
        for message in await conversation.messages()
        for part in message.parts
        if isinstance(part, (UserPromptPart, TextPart))
    ]
    return {"said": said, "asked": [asked(each) for each in await conversation.pending()]}


@service.get("/chat/{session}/events", response_class=EventSourceResponse)
async def events(
    session: Annotated[str, SESSION], last_event_id: Annotated[int | None, Header()] = None
) -> AsyncIterator[ServerSentEvent]:
    """Stream a session: ``turn`` events have an id to continue from, ``live`` events are words as they arrive."""
    yield ServerSentEvent(event="begin", raw_data="{}", retry=1000)
    async for event in talk(session).events(last_event_id or 0, live=True):
        if isinstance(event, LiveText):
            data = {"position": event.position, "text": event.text, "kind": event.kind}
            yield ServerSentEvent(event="live", data=data)
        else:
            entry = event.entry
            entry_facts = {"run": event.run_id, "kind": entry.kind, "call": entry.call, "name": entry.name}
            yield ServerSentEvent(event="turn", id=str(event.id), data=entry_facts)


@service.get("/")
def page() -> FileResponse:
    """Return the test page."""
    return FileResponse(HERE / "page.html", headers={"Content-Security-Policy": POLICY})


@service.get("/page.js")
def script() -> FileResponse:
    """Return the page's script."""
    return FileResponse(HERE / "page.js")


@service.get("/page.css")
def style() -> FileResponse:
    """Return the page's style."""
    return FileResponse(HERE / "page.css")


@service.get("/favicon.ico")
def icon() -> Response:
    """Return no icon."""
    return Response(status_code=204)


def talk(session: str) -> Conversation:
    """Return a session. It has no state in this process."""
    return app.conversation(NAME, session_id=session)


def shown(turn: Finished | Paused) -> dict[str, Any]:
    """Return the state of a turn, as JSON."""
    if isinstance(turn, Finished):
        return {"status": "finished", "turn": turn.run_id, "output": turn.output}
    return {
        "status": "paused",
        "turn": turn.run_id,
        "reason": turn.reason,
        "asked": [asked(each) for each in turn.pending],
        "resume_token": turn.resume_token,
    }


def asked(question: Pending) -> dict[str, Any]:
    """Return a question as JSON."""
    return {
        "id": question.id,
        "text": question.text,
        "kind": question.input_type,
        "tool": question.tool,
        "arguments": question.arguments,
    }
