"""Hides the secrets of callback addresses from clients that may not answer callbacks."""

from __future__ import annotations

import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.people.questions.callback_terms import SECRET
from signoff.server.auth.actors import UNAUTHENTICATED, Actor
from signoff.server.auth.roles import Role, path_of

MAY_ANSWER: Final = frozenset({Role.OPERATOR.value, Role.ADMIN.value})
"""Roles that may answer a callback manually, and so may see its address."""

_SECRET: Final = re.compile(SECRET.pattern.encode())
_PREFIX: Final = b"sgc_"
_BEGUN: Final = re.compile(rb"(s|sg|sgc|sgc_[A-Za-z0-9_-]*)\Z")
"""Matches the start of a secret at the end of a body part."""

_LENGTH: Final = 47
"""Bytes of a secret. A secret that starts further from the end of a part is complete."""

_OF_QUESTIONS: Final = ("/v1/questions", "/v1/resume-tokens")
"""Paths that show people what they decide on, unmasked."""

_OF_CHAIN: Final = ("/v1/audit/chain", "/v1/audit/export")
"""Audit trail paths whose events clients verify against their hashes."""


class CallbackSecrets:
    """Masks the secret of every callback address in a response with asterisks.

    A workflow may pass such an address as an argument or a result, so any field may contain one. The length of the
    body does not change. What people decide on is not masked: an edit of masked text would save the asterisks.

    Args:
        app: The next ASGI app. The request's actor must be known already.
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
    actor: Actor = scope.get("signoff.actor", UNAUTHENTICATED)
    if actor.person is None or not MAY_ANSWER.isdisjoint(actor.person.roles):
        return True  # no sign-in on this server or this route (such as an answer link's), or an operator
    path = path_of(scope)
    decides = Role.RESPONDER.value in actor.person.roles and path.startswith(_OF_QUESTIONS)
    return decides or path.startswith(_OF_CHAIN)
