"""The conversations behind an endpoint: who calls, and which session a thread is."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request

from signoff import codec
from signoff.agents.conversations.conversation import Conversation
from signoff.client.async_client import App, AsyncClient
from signoff.errors import InvalidValue
from signoff.records.start_options import check_session

JSON: Final = "application/json"

LARGEST_BODY: Final = 4 * 1024 * 1024
"""Bytes of a request. A client sends the whole conversation with each message."""

LONGEST_ID: Final = 200
"""Characters of a thread's or a message's id."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user of a request.

    Attributes:
        user_id: The user, such as ``ana``.
        groups: Their groups, without ``group:``.
        roles: Their roles, without ``role:``.
    """

    user_id: str
    groups: Collection[str] = ()
    roles: Collection[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.user_id, str) or not self.user_id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidValue("user_id", "a caller needs a user id: an anonymous client answers nothing")


Authenticate = Callable[[Request], "Caller | Awaitable[Caller | None] | None"]
SessionOf = Callable[[Caller, str], "str | None"]
ContextOf = Callable[[Caller, Request], Any]


def own_session(caller: Caller, thread_id: str) -> str:
    """Return the session of a thread: each user has threads of their own, whatever ids others use."""
    return f"{quote(caller.user_id, safe='@.+-_')}/{quote(thread_id, safe='@.+-_')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chats:
    """The conversations of an agent, for the routes of a web service.

    Attributes:
        source: The app, or a client of a server. A client must be open.
        agent: The name that the agent is registered under.
        caller: Authenticates a request, such as by its session cookie or bearer token; None refuses it (401). It alone
            says who answers, never the body of a request. It may be async.
        session_of: Returns the session of a user's thread; None: the user may not use it (404). By default each user
            has threads of their own.
        context_of: Returns the context (the tools' ``ctx.deps``) of a new turn; by default none.

    Example::

        chats = Chats(source=app, agent="support", caller=signed_in)
        service = Starlette(routes=[ag_ui_route("/agent", chats), *vercel_ai_routes("/chat", chats)])
    """

    source: App | AsyncClient
    agent: str
    caller: Authenticate
    session_of: SessionOf = own_session
    context_of: ContextOf | None = None

    async def authenticate(self, request: Request) -> Caller:
        """Return the caller of a request. Raises HTTPException (401)."""
        found = self.caller(request)
        caller = await found if inspect.isawaitable(found) else found
        if not isinstance(caller, Caller):
            raise HTTPException(401, "not authenticated")
        return caller

    def session(self, caller: Caller, thread_id: str) -> str:
        """Return the session of a thread. Raises HTTPException: the id is invalid (422), or not the caller's (404)."""
        if not 0 < len(thread_id) <= LONGEST_ID:
            raise HTTPException(422, f"a thread's id has 1 to {LONGEST_ID} characters")
        session_id = self.session_of(caller, thread_id)
        if session_id is None:
            raise HTTPException(404, "no such conversation")
        try:
            return check_session(session_id) or ""
        except InvalidValue as error:
            raise HTTPException(422, str(error)) from None

    @asynccontextmanager
    async def open(self, session_id: str) -> AsyncGenerator[tuple[AsyncClient, Conversation]]:
        """Provide a client and the conversation of a session."""
        if isinstance(self.source, AsyncClient):
            yield self.source, Conversation(self.source, self.agent, session_id=session_id)
            return
        async with AsyncClient(self.source) as client:
            yield client, Conversation(client, self.agent, session_id=session_id)

    def turn_of(self, session_id: str, message_id: str) -> str:
        """Return the id of the turn that a message begins: sent twice with one id, a message begins one turn."""
        return f"chat-{codec.digest(codec.encode([self.agent, session_id, message_id]))[:40]}"


async def body_of(request: Request) -> bytes:
    """Read a request's JSON body.

    Raises:
        HTTPException: It is no JSON by its header (415): such a request may come from another site's page. Or it is too
            large (413).
    """
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != JSON:
        raise HTTPException(415, f"expected Content-Type: {JSON}")
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST_BODY:
            raise HTTPException(413, f"a request has at most {LARGEST_BODY} bytes")
        parts.append(part)
    return b"".join(parts)
