"""A checkpoint: how long a namespace's chain was at a time, and the hash of its last event.

Its text has the shape of C2SP's tlog-checkpoint (https://c2sp.org/tlog-checkpoint), in which transparency logs publish
their heads: the log's origin, its size, a hash in base64, then lines of the log's own. The hash is that of the chain's
last seal, not the root of a Merkle tree.

    signoff/default
    42
    n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=
    time 2026-11-26T22:41:19.250000+00:00
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

from signoff.errors import InvalidValue
from signoff.wire.timestamps import utc

ORIGIN: Final = "signoff"
"""The log's name, unless the configuration has another."""

LONGEST_TEXT: Final = 4096  # bytes
LONGEST_REASON: Final = 500  # characters

_ORIGIN: Final = re.compile(r"[!-*,-~]+")  # as the name of a signed note's key: no spaces, no plus
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_TIME: Final = "time "
_RESTART: Final = "restart "


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a namespace's chain.

    Attributes:
        origin: The name of the log, such as ``signoff.example.com/prod``: databases that share an anchor differ by it.
        namespace: The namespace.
        size: How many events are sealed; the last one's ``seq`` is one less. 0: none is.
        hash: The last one's hash, in hex.
        at: When the checkpoint was made, in unix seconds.
        restart: Why the trail counts anew from here, as after a backup was restored; None: it goes on.
    """

    origin: str
    namespace: str
    size: int
    hash: str
    at: float
    restart: str | None = None

    @property
    def text(self) -> str:
        """The checkpoint's lines."""
        lines = [
            f"{self.origin}/{quote(self.namespace, safe='')}",
            str(self.size),
            base64.b64encode(bytes.fromhex(self.hash)).decode(),
            f"{_TIME}{utc(self.at).isoformat(timespec='microseconds')}",
        ]
        if self.restart is not None:
            lines.append(f"{_RESTART}{quote(self.restart, safe=' ')}")
        return "".join(f"{line}\n" for line in lines)

    @property
    def seq(self) -> int:
        """The last event's ``seq``; -1 for an empty trail."""
        return self.size - 1


def read_checkpoint(text: str) -> Checkpoint:
    """Read a checkpoint back. Lines after its first three that are not known are passed over.

    Raises:
        InvalidValue: It is not one of Signoff's checkpoints.
    """
    body, _, _ = text.partition("\n\n")  # after it a signed note has its signatures
    lines = body.splitlines()
    if len(text) > LONGEST_TEXT or len(lines) < 3:
        raise InvalidValue("checkpoint", "has no three lines: origin, size, hash")
    origin, separator, namespace = lines[0].rpartition("/")
    if not separator or not _ORIGIN.fullmatch(lines[0]):
        raise InvalidValue("checkpoint", "its first line is not ORIGIN/NAMESPACE")
    if not _SIZE.fullmatch(lines[1]):
        raise InvalidValue("checkpoint", "its second line is not a size")
    at, restart = 0.0, None
    for line in lines[3:]:
        if line.startswith(_TIME):
            at = _time_of(line.removeprefix(_TIME))
        elif line.startswith(_RESTART):
            restart = unquote(line.removeprefix(_RESTART))
    return Checkpoint(origin, unquote(namespace), int(lines[1]), _hash_of(lines[2]), at, restart)


def check_origin(origin: str) -> str:
    """Return the name of a log. Raises InvalidValue if it can be none."""
    if not _ORIGIN.fullmatch(origin) or len(origin) > 200:
        raise InvalidValue(
            "origin", f"{origin[:40]!r} is not the name of a log: 200 ASCII characters, no spaces or '+'"
        )
    return origin


def _hash_of(text: str) -> str:
    try:
        hash = base64.b64decode(text, validate=True)
    except ValueError:
        hash = b""
    if len(hash) != 32:
        raise InvalidValue("checkpoint", "its third line is not the base64 of a SHA-256 hash")
    return hash.hex()


def _time_of(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise InvalidValue("checkpoint", f"{text[:40]!r} is not a time") from None
