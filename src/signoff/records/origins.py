"""Origins: the way, the credential and the host through which an operation arrived."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json, to_json

from signoff.records.open_enum import OpenEnum


class OriginWay(OpenEnum):
    """The way an operation took."""

    KEY = "key"  # the HTTP API, with the API key of a service
    LOGIN = "login"  # the HTTP API, after a login
    PROXY = "proxy"  # the HTTP API, authenticated by a proxy
    OPEN = "open"  # the HTTP API without authentication
    LINK = "link"
    SLACK = "slack"
    CALLBACK = "callback"
    MCP = "mcp"  # the MCP server, with the key or the login that ``credential`` names
    WORKER = "worker"  # a store over HTTP
    APP = "app"  # a program with access to the database
    CLI = "cli"  # the command line, with access to the database
    RULE = "rule"
    TIMER = "timer"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an operation, as its receiver saw it. A caller cannot choose it."""

    way: OriginWay
    # Id of the key, login, link, callback or rule; the Slack user, or the user of the host.
    credential: str | None = None
    service: str | None = None  # the key's service, even if it acted for a person
    address: str | None = None  # the client's address; for a program with the database, its host


TIMER: Final = Origin(OriginWay.TIMER)
"""The origin of timeouts and other timed effects."""

_NAMES: Final = tuple(field.name for field in fields(Origin))


def facts_of(origin: Origin) -> dict[str, str]:
    """Return the known parts of an origin, as plain JSON data."""
    parts = {name: getattr(origin, name) for name in _NAMES}
    return {name: str(value) for name, value in parts.items() if value is not None}


def origin_of(facts: Mapping[str, str]) -> Origin:
    """Return the origin that ``facts_of`` described. Keys of newer versions are ignored."""
    parts: dict[str, Any] = {name: facts[name] for name in _NAMES if name in facts}
    return Origin(**{**parts, "way": OriginWay(parts["way"])})


@lru_cache(256)  # most writes have the origin of an earlier one
def text_of(origin: Origin | None) -> str | None:
    """Return an origin as stores keep it."""
    return None if origin is None else to_json(facts_of(origin)).decode()


@lru_cache(256)
def from_text(text: str | None) -> Origin | None:
    """Read an origin as stores keep it."""
    return None if text is None else origin_of(from_json(text))


def of_program() -> Origin:
    """Return the origin of operations of this program."""
    return Origin(OriginWay.APP, address=socket.gethostname())


def of_command() -> Origin:
    """Return the origin of a command on this host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # in a container the user id may have no name
        user = None
    return Origin(OriginWay.CLI, user, address=socket.gethostname())
