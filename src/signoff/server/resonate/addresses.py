"""Addresses that messages are sent to: ``poll://any@GROUP[/PID]``, ``poll://uni@GROUP/PID``, and HTTP URLs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from signoff.errors import InvalidValue
from signoff.records.names import LONGEST_NAME_BYTES

LONGEST: Final = LONGEST_NAME_BYTES
"""Maximum bytes. A row of an index holds an address with a namespace and an id."""

ANY: Final = "any"
UNI: Final = "uni"


@dataclass(frozen=True, slots=True)
class PollAddress:
    """The processes of a group that poll this server.

    Attributes:
        group: The group.
        pid: The process; for ``any``, the preferred one.
        is_any: Whether every process of the group will do.
    """

    group: str
    pid: str | None
    is_any: bool


@dataclass(frozen=True, slots=True)
class PushAddress:
    """A URL that messages are posted to."""

    url: str


Address = PollAddress | PushAddress

_SCHEMES: Final = ("poll://", "http://", "https://")


def read_address(text: str) -> Address | None:
    """Return an address; None if it is not valid."""
    if len(text.encode(errors="replace")) > LONGEST or not text.isprintable() or " " in text:
        return None
    if not text.startswith(_SCHEMES):  # also HTTP://, which other code would take for no URL
        return None
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme in ("http", "https"):
        return PushAddress(text) if parts.hostname else None
    if parts.scheme != "poll" or parts.query or parts.fragment:
        return None
    cast, at, group = parts.netloc.partition("@")
    if not at or not group or cast not in (ANY, UNI):
        return None
    pid = parts.path[1:] or None
    if cast == UNI and pid is None:
        return None
    return PollAddress(group, pid, cast == ANY)


def check_poller(group: str, pid: str) -> None:
    """Check that messages can be addressed to a process that polls.

    A name that no address has is no queue of the store either: Postgres cannot even search for one with NUL.

    Raises:
        InvalidValue: Its group or its id is not valid.
    """
    if read_address(f"poll://{UNI}@{group}/{pid}") != PollAddress(group, pid, is_any=False):
        raise InvalidValue(
            "group and pid", f"no address has {group[:100]!r} and {pid[:100]!r}: poll://uni@GROUP/PID"
        )


def queues_of(group: str, pid: str) -> tuple[str, str]:
    """Return the queues that a process polls: its group's and its own, as ``records.tasks.queue_of`` names them."""
    return f"poll://{ANY}@{group}", f"poll://{UNI}@{group}/{pid}"
