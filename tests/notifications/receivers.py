"""Real local servers that receive notifications, and can be made to fail."""

from __future__ import annotations

import asyncio
import email
import email.policy
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any, cast

from aiosmtpd.smtp import SMTP
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from signoff.server.process.uvicorn_server import Serving, bind

Script = int | Response | Callable[[], Awaitable[Response]]


@dataclass
class Got:
    """A request that has come."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return from_json(self.body)

    @property
    def id(self) -> str:
        """Of the delivery."""
        return self.headers["webhook-id"]


@dataclass
class Web:
    """An HTTP server: each request gets the next reply of the script, and ``otherwise`` when that has ended."""

    url: str = ""
    script: list[Script] = field(default_factory=list[Script])
    otherwise: Script = 200
    got: list[Got] = field(default_factory=list[Got])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.got.append(Got(scope["path"], dict(request.headers), await request.body()))
        reply = self.script.pop(0) if self.script else self.otherwise
        if isinstance(reply, int):
            reply = Response(status_code=reply)
        elif not isinstance(reply, Response):
            reply = await reply()
        await reply(scope, receive, send)


@asynccontextmanager
async def web(*script: Script, otherwise: Script = 200) -> AsyncIterator[Web]:
    """Serve on this loop."""
    listener = bind("127.0.0.1", 0)
    server = Web(f"http://127.0.0.1:{listener.getsockname()[1]}", list(script), otherwise)
    serving = Serving(server, listener)
    await serving.listening.wait()
    try:
        yield server
    finally:
        await serving.stop()
        listener.close()


@dataclass
class Mails:
    """An SMTP server: what it has taken, and whom it refuses.

    Attributes:
        replies: What it says of the next mails, which it takes whatever it says of them.
    """

    port: int = 0
    got: list[EmailMessage] = field(default_factory=list[EmailMessage])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    to: list[str] = field(default_factory=list[str])
    replies: list[str] = field(default_factory=list[str])

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.got.append(cast("EmailMessage", message))
        self.to += envelope.rcpt_tos
        return self.replies.pop(0) if self.replies else "250 OK"


@asynccontextmanager
async def mails(port: int = 0, tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[Mails]:
    """Serve SMTP on this loop: in TLS from its first byte on with ``tls``, after STARTTLS with ``tls_context``."""
    taken = Mails()
    listener = bind("127.0.0.1", port)
    listener.listen()
    taken.port = listener.getsockname()[1]
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(taken, hostname="localhost", loop=loop, **options), sock=listener, ssl=tls
    )
    try:
        yield taken
    finally:
        server.close()
        await server.wait_closed()
