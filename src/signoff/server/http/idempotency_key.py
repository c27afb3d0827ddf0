"""The header ``Idempotency-Key``, mapped to request ids and run ids."""

from __future__ import annotations

import re
import uuid
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from signoff.errors import InvalidValue
from signoff.server.auth.actors import Actor

LONGEST_KEY: Final = 200  # characters

_KEY: Final = re.compile(r'"([\x20\x21\x23-\x5b\x5d-\x7e]+)"|([\x21\x23-\x5b\x5d-\x7e]+)')
_RUNS: Final = uuid.UUID("5f0d2b52-6d0a-4a35-9d0e-3c1a5c3f9b11")

_HEADER: Final = Header(
    alias="Idempotency-Key",
    description='A unique string for each new request, such as `"8e03978e-40d5"`: a repeated request takes effect once',
)


async def _key(request: Request, key: Annotated[str | None, _HEADER] = None) -> str | None:
    """Return the key of a request. Raises InvalidValue."""
    given = request.headers.getlist("idempotency-key")
    if not given:
        return None
    found = _KEY.fullmatch(given[0]) if len(given) == 1 else None
    text = "" if found is None else found[1] or found[2]
    if not 0 < len(text) <= LONGEST_KEY:
        raise InvalidValue(
            "Idempotency-Key", f"it must be one string in quotes, of 1 to {LONGEST_KEY} ASCII characters"
        )
    return text


KeyOf = Annotated[str | None, Depends(_key)]
"""Route parameter: the key."""


def request_id_of(key: str | None, said: str | None) -> str | None:
    """Return the request id: the key, or the one in the body.

    Raises:
        InvalidValue: Both are given, and they differ.
    """
    if key is not None and said is not None and key != said:
        raise InvalidValue("request_id", "it differs from the header Idempotency-Key; send only one of them")
    return said if key is None else key


def run_id_of(key: str | None, actor: Actor) -> str:
    """Return the id for a run started without one: random, or derived from the user and the key if there is a key."""
    if key is None:
        return str(uuid.uuid4())
    user = "" if actor.person is None else actor.person.user
    return str(uuid.uuid5(_RUNS, f"{user}\n{key}"))
