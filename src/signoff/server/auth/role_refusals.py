"""Records refused operations on a question in its audit trail, where the user lacked the role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.types import Scope

from signoff.errors import AccessDenied, NotFound, SignoffError
from signoff.people.audit.refusals import record_refusal
from signoff.people.questions.answers import get_question
from signoff.runtime.loggers import own_logger
from signoff.server.auth.actors import Actor
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.roles import path_of
from signoff.server.http.request_bodies import storable
from signoff.server.mcp.request import KEY as MCP

if TYPE_CHECKING:
    from signoff.server.services import Services

log = own_logger("signoff.server")

ATTEMPTS: Final = {
    "answer": None,
    "view": "view",
    "comments": "comment",
    "claim": "claim",
    "release": "release",
    "delegate": "delegate",
    "cancel": "cancel",
    "reassign": "reassign",
    "deadline": "move_deadline",
    "links": "link",
}
"""The audit trail's name of an operation, by the last part of its route; None for an answer."""

_QUESTION: Final = re.compile(rf"/v1/questions/([^/]+)/({'|'.join(ATTEMPTS)})")


async def keep_refusal(scope: Scope, identity: Identity, refusal: AccessDenied) -> None:
    """Record that an authenticated user lacks the role for a request, if it concerns an existing question."""
    found = _QUESTION.fullmatch(path_of(scope))
    if found is None or scope["method"] != "POST":
        return
    services: Services = scope["app"].state.services
    origin = Actor(identity, mcp=scope.get(MCP)).origin(services.address_of(scope))
    store = services.within(identity.namespace).with_origin(origin).store
    try:
        question = await get_question(store, storable(unquote(found[1])))
    except (NotFound, ValueError):
        return
    except SignoffError as trouble:
        log.warning("a refusal for question %s could not be recorded: %s", found[1], trouble)
        return
    await record_refusal(store, question, identity.person.user_id, refusal, attempt=ATTEMPTS[found[2]])
