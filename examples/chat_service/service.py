"""The web service: any number of processes of it, of which any may talk, answer and listen.

``uvicorn examples.chat_service.service:service``. Who may come in, and as whom, is for whatever stands before it.
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
    """What somebody says."""

    session: str = SESSION
    text: str = Field(min_length=1, max_length=10_000)
    user: str = Field(default="guest", pattern=r"^[\w.@-]{1,100}$")
    id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,100}$")
    """Said twice with one id it is said once."""


class Answer(BaseModel):
    """What somebody answers to a question."""

    session: str = SESSION
    question: str
    decision: Literal["approve", "deny", "edit", "reply"]
    user: str = Field(pattern=r"^[\w.@-]{1,100}$")
    note: str | None = None
    value: Any = None
    """The arguments of an edit, or the value of a reply."""
    request_id: str | None = Field(default=None, max_length=200)


class Resumption(BaseModel):
    """The same by a token: for who was given one with a turn that waits."""

    session: str = SESSION
    token: str
    answer: Any
    user: str = Field(default="guest", pattern=r"^[\w.@-]{1,100}$")


@service.exception_handler(SignoffError)
def refused(request: Request, error: SignoffError) -> JSONResponse:
    """Say what was refused, and why; what a turn has failed with, too."""
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    return JSONResponse({"error": str(error)}, status)


@service.post("/chat")
async def chat(message: Message) -> dict[str, Any]:
    """Say something; returns when the turn has its answer or waits for people."""
    turn = await talk(message.session).run(
        message.text,
        id=None if message.id is None else f"{message.session}-{message.id}",
        user_id=message.user,
    )
    return shown(turn)


@service.post("/respond")
async def respond(said: Answer) -> dict[str, Any]:
    """Answer a question of a session; any process may."""
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
    """Answer by a resume token, which is good once."""
    return shown(await talk(said.session).resume(said.token, said.answer, user_id=said.user))


@service.get("/chat/{session}")
async def look(session: Annotated[str, SESSION]) -> dict[str, Any]:
    """Return what was said, and what is asked."""
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
    """Follow a session: ``turn`` for what has happened, with an id to go on from; ``live`` for words as they come."""
    yield ServerSentEvent(event="begin", raw_data="{}", retry=1000)
    async for event in talk(session).events(last_event_id or 0, live=True):
        if isinstance(event, LiveText):
            data = {"position": event.position, "text": event.text, "kind": event.kind}
            yield ServerSentEvent(event="live", data=data)
        else:
            entry = event.entry
            told = {"run": event.run_id, "kind": entry.kind, "call": entry.call, "name": entry.name}
            yield ServerSentEvent(event="turn", id=str(event.id), data=told)


@service.get("/")
def page() -> FileResponse:
    """Return the page to try it."""
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
    """There is none."""
    return Response(status_code=204)


def talk(session: str) -> Conversation:
    """Return a session; nothing of it is in this process."""
    return app.conversation(NAME, session_id=session)


def shown(turn: Finished | Paused) -> dict[str, Any]:
    """Return how a turn stands, as JSON."""
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
