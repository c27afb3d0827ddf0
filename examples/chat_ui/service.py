"""The web service for chat frontends: AG-UI at ``/agent``, the Vercel AI SDK at ``/chat``.

``uvicorn examples.chat_ui.service:service``. It signs nobody in: the proxy in front of it does, and names the user.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request

from examples.chat_service.assistant import NAME, app
from signoff.agents.ui import Caller, Chats, ag_ui_route, vercel_ai_routes


def signed_in(request: Request) -> Caller | None:
    """Return the user that the proxy has signed in. The proxy must remove the header from requests that bring it."""
    user = request.headers.get("x-forwarded-user")
    return Caller(user) if user else None


chats = Chats(source=app, agent=NAME, caller=signed_in)
service = Starlette(routes=[ag_ui_route("/agent", chats), *vercel_ai_routes("/chat", chats)])
