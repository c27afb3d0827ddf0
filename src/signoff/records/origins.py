"""From where things come: as plain JSON data, as text, and what a program says of itself."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from pydantic_core import from_json, to_json

from signoff.records import Origin, OriginWay

TIMER: Final = Origin(OriginWay.TIMER)
"""From where comes what time brings."""

_NAMES: Final = tuple(field.name for field in fields(Origin))


def facts_of(origin: Origin) -> dict[str, str]:
    """Return what an origin says, as plain JSON data; what it does not say is left out."""
    said = {name: getattr(origin, name) for name in _NAMES}
    return {name: str(value) for name, value in said.items() if value is not None}


def origin_of(facts: Mapping[str, str]) -> Origin:
    """Make an origin of what ``facts_of`` returned. What a newer version has added is passed over."""
    said: dict[str, Any] = {name: facts[name] for name in _NAMES if name in facts}
    return Origin(**{**said, "way": OriginWay(said["way"])})


def text_of(origin: Origin | None) -> str | None:
    """Return an origin as stores keep it."""
    return None if origin is None else to_json(facts_of(origin)).decode()


def from_text(text: str | None) -> Origin | None:
    """Read an origin that a store has kept."""
    return None if text is None else origin_of(from_json(text))


def of_program() -> Origin:
    """Return from where comes what this program does."""
    return Origin(OriginWay.APP, address=socket.gethostname())


def of_command() -> Origin:
    """Return from where comes what somebody does on the command line of this host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # in a container nobody may have that id
        user = None
    return Origin(OriginWay.CLI, user, address=socket.gethostname())
