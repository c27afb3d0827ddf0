"""A reverse proxy that serves Signoff under a path, beside other applications."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from signoff.server import Server
from signoff.server.process.uvicorn_server import Serving, bind

PREFIX = "/signoff"
_HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


@dataclass
class Host:
    """The host as browsers see it.

    Attributes:
        url: Where Signoff is.
        strips: Whether paths are passed on without the prefix.
        strays: Paths that were asked for beside the prefix.
    """

    url: str
    strips: bool
    strays: list[str] = field(default_factory=list[str])


@asynccontextmanager
async def behind_proxy(
    serve: Callable[[str], AbstractAsyncContextManager[Server]], *, strips: bool, host: str = "127.0.0.1"
) -> AsyncIterator[Host]:
    """A host with a server behind it.

    Args:
        serve: Serves what is reached at a URL.
        strips: Whether the proxy takes the prefix off.
        host: What browsers call it.
    """
    listener = bind("127.0.0.1", 0)
    here = Host(f"http://{host}:{listener.getsockname()[1]}{PREFIX}", strips)
    async with (
        serve(here.url) as server,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=None) as backend,
    ):

        async def pass_on(request: Request) -> Response:
            path: str = request.scope["raw_path"].decode()
            if path != PREFIX and not path.startswith(f"{PREFIX}/"):
                if path != "/favicon.ico":  # browsers look for it by themselves
                    here.strays.append(path)
                return PlainTextResponse("This is something else", 404)
            passed = (path.removeprefix(PREFIX) or "/") if strips else path
            query = urlsplit(str(request.url)).query
            url = httpx.URL(f"{server.url}{passed}{'?' if query else ''}{query}")
            asked = backend.build_request(
                request.method, url, headers=request.headers.raw, content=await request.body()
            )
            answer = await backend.send(asked, stream=True)
            reply = StreamingResponse(
                answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose)
            )
            reply.raw_headers = [
                (name, value)
                for name, value in answer.headers.raw
                if name.decode().lower() not in _HOP_BY_HOP
            ]
            return reply

        methods = ["GET", "POST", "HEAD", "OPTIONS"]
        proxy = Serving(Starlette(routes=[Route("/{path:path}", pass_on, methods=methods)]), listener)
        await proxy.listening.wait()
        try:
            yield here
        finally:
            await proxy.stop()
            listener.close()
