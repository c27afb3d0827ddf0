"""A checkpoint: the length of a namespace's chain at a given time, and the hash of its last event.

Its text follows C2SP's tlog-checkpoint (https://c2sp.org/tlog-checkpoint), the format in which transparency logs
publish their heads: origin, size, a hash in base64, then extension lines. The hash is that of the chain's last seal,
not the root of a Merkle tree.

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
"""Default name of the log."""

LONGEST_TEXT: Final = 4096  # bytes
LONGEST_REASON: Final = 500  # characters

_ORIGIN: Final = re.compile(r"[!-*,-~]+")  # as for the key name of a signed note: no spaces, no plus
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_TIME: Final = "time "
_RESTART: Final = "restart "


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a namespace's chain.

    Attributes:
        origin: The name of the log, such as ``signoff.example.com/prod``. It distinguishes databases that share an
            anchor.
        namespace: The namespace.
        size: Number of sealed events; the last event's ``seq`` is one less.
        hash: The last event's hash, in hex.
        at: Time of the checkpoint, in unix seconds.
        restart: Reason of a restart of the trail, such as a restored backup; None: it is not a restart.
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
    """Read a checkpoint. Unknown lines after the first three are ignored.

    Raises:
        InvalidValue: It is not one of Signoff's checkpoints.
    """
    body, _, _ = text.partition("\n\n")  # signatures of a signed note follow
    lines = body.splitlines()
    if len(text) > LONGEST_TEXT or len(lines) < 3:
        raise InvalidValue("checkpoint", "must have the three lines origin, size and hash")
    origin, separator, namespace = lines[0].rpartition("/")
    if not separator or not _ORIGIN.fullmatch(lines[0]):
        raise InvalidValue("checkpoint", "the first line is not ORIGIN/NAMESPACE")
    if not _SIZE.fullmatch(lines[1]):
        raise InvalidValue("checkpoint", "the second line is not a size")
    at, restart = 0.0, None
    for line in lines[3:]:
        if line.startswith(_TIME):
            at = _time_of(line.removeprefix(_TIME))
        elif line.startswith(_RESTART):
            restart = unquote(line.removeprefix(_RESTART))
    return Checkpoint(origin, unquote(namespace), int(lines[1]), _hash_of(lines[2]), at, restart)


def check_origin(origin: str) -> str:
    """Return the name of a log, checked. Raises InvalidValue."""
    if not _ORIGIN.fullmatch(origin) or len(origin) > 200:
        raise InvalidValue(
            "origin", f"{origin[:40]!r} is not a valid log name: up to 200 ASCII characters, no spaces or '+'"
        )
    return origin


def _hash_of(text: str) -> str:
    try:
        hash = base64.b64decode(text, validate=True)
    except ValueError:
        hash = b""
    if len(hash) != 32:
        raise InvalidValue("checkpoint", "the third line is not a SHA-256 hash in base64")
    return hash.hex()


def _time_of(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise InvalidValue("checkpoint", f"{text[:40]!r} is not a time") from None
