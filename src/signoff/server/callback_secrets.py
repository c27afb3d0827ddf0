"""Hides the secrets of callback addresses from clients that may not answer callbacks."""

from __future__ import annotations

import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.people.callbacks import SECRET
from signoff.people.links import PATH as LINKS_PATH
from signoff.server.actors import ANYBODY, Actor
from signoff.server.rights import Role, path_of

MAY_ANSWER: Final = frozenset({Role.OPERATOR.value, Role.ADMIN.value})
"""Roles that may answer a callback by hand, and so see its address."""

_SECRET: Final = re.compile(SECRET.pattern.encode())
_PREFIX: Final = b"sgc_"
_BEGUN: Final = re.compile(rb"(s|sg|sgc|sgc_[A-Za-z0-9_-]*)\Z")
"""The end of a part of a body in which a secret may have begun."""


class CallbackSecrets:
    """Replaces the secret of each callback address in a response by asterisks, wherever it stands.

    A workflow may pass such an address on as an argument, a result or a question's metadata, so no field is known to
    be free of one. The length of the body does not change.

    Args:
        app: The next ASGI app. The request's actor is known by then.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _may_see(scope):
            await self._app(scope, receive, send)
            return
        held = b""

        async def send_hidden(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.body":
                body = held + message.get("body", b"")
                held = b""
                if message.get("more_body", False) and (begun := _BEGUN.search(body)) is not None:
                    body, held = body[: begun.start()], body[begun.start() :]
                message = {**message, "body": _hidden(body)}
            await send(message)

        await self._app(scope, receive, send_hidden)


def _hidden(body: bytes) -> bytes:
    if _PREFIX not in body:
        return body
    return _SECRET.sub(lambda found: _PREFIX + b"*" * (len(found[0]) - len(_PREFIX)), body)


def _may_see(scope: Scope) -> bool:
    actor: Actor = scope.get("signoff.actor", ANYBODY)
    if actor.person is None:  # a server without sign-in, or a route that needs none
        return not path_of(scope).startswith(f"{LINKS_PATH}/")
    return not MAY_ANSWER.isdisjoint(actor.person.roles)
