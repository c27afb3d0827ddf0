"""Hides the secrets of callback addresses from clients that may not answer callbacks."""

from __future__ import annotations

import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.people.questions.callback_terms import SECRET
from signoff.server.auth.actors import ANYBODY, Actor
from signoff.server.auth.roles import Role, path_of

MAY_ANSWER: Final = frozenset({Role.OPERATOR.value, Role.ADMIN.value})
"""Roles that may answer a callback by hand, and so see its address."""

_SECRET: Final = re.compile(SECRET.pattern.encode())
_PREFIX: Final = b"sgc_"
_BEGUN: Final = re.compile(rb"(s|sg|sgc|sgc_[A-Za-z0-9_-]*)\Z")
"""The end of a part of a body in which a secret may have begun."""

_LENGTH: Final = 47
"""Bytes of a secret. One that begins further from the end of a part is complete."""

_OF_QUESTIONS: Final = ("/v1/questions", "/v1/resume-tokens")
"""Paths of what people decide on, which they see as it is."""

_OF_CHAIN: Final = ("/v1/audit/chain", "/v1/audit/export")
"""Paths of the audit trail whose events are compared with their hashes."""


class CallbackSecrets:
    """Replaces the secret of each callback address in a response by asterisks, wherever it stands.

    A workflow may pass such an address on as an argument or a result, so no field is known to be free of one. The
    length of the body does not change. What people decide on is shown to them as it is: an edit of masked text would
    write the asterisks.

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
                begun = _BEGUN.search(body[-_LENGTH:]) if message.get("more_body", False) else None
                if begun is not None:
                    cut = len(body) - len(begun[0])
                    body, held = body[:cut], body[cut:]
                message = {**message, "body": _hidden(body)}
            await send(message)

        await self._app(scope, receive, send_hidden)


def _hidden(body: bytes) -> bytes:
    if _PREFIX not in body:
        return body
    return _SECRET.sub(lambda found: _PREFIX + b"*" * (len(found[0]) - len(_PREFIX)), body)


def _may_see(scope: Scope) -> bool:
    actor: Actor = scope.get("signoff.actor", ANYBODY)
    if actor.person is None or not MAY_ANSWER.isdisjoint(actor.person.roles):
        return (
            True  # a server without sign-in, a route that needs none such as an answer link's, or an operator
        )
    path = path_of(scope)
    decides = Role.RESPONDER.value in actor.person.roles and path.startswith(_OF_QUESTIONS)
    return decides or path.startswith(_OF_CHAIN)
