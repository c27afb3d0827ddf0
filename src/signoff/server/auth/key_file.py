"""Worker keys from a key file or the environment. The server knows only the hashes of the secrets."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from signoff.errors import InvalidValue

PREFIX = "sgw_"

_HASH = re.compile("[0-9a-f]{64}")
_SECRET = re.compile(f"{PREFIX}[A-Za-z0-9_-]{{43}}")

SHARED_PREFIX = f"{PREFIX}shared_"
"""Prefix of shared keys, which a server accepts from its environment. Stored keys and keys for some groups lack it."""

_SHARED_SECRET = re.compile(f"{SHARED_PREFIX}[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True)
class WorkerKey:
    """A worker key as the server knows it.

    Attributes:
        hash: The SHA-256 of the secret, in hex. The secret is 256 random bits, so no slower hash is needed.
        namespace: The one namespace that it gives access to.
        groups: The groups that it gives access to; None means all groups of the namespace.
        id: The id of a stored key; None for a key file's.
        name: The name of a stored key; None for a key file's.
    """

    hash: str
    namespace: str
    groups: frozenset[str] | None = None
    id: str | None = None
    name: str | None = None

    @property
    def line(self) -> str:
        """The key as a line of a key file."""
        return " ".join(
            [self.hash, self.namespace, *([",".join(sorted(self.groups))] if self.groups else [])]
        )


def new_worker_key(namespace: str, groups: Iterable[str] = ()) -> tuple[str, WorkerKey]:
    """Create a key.

    Args:
        namespace: The namespace that it gives access to.
        groups: The groups that it gives access to; none means all.

    Returns:
        The secret, which cannot be shown again, and the key for the server's key file.

    Raises:
        InvalidValue: A name is empty, or contains white space, a comma, a semicolon or ``#``.
    """
    chosen = frozenset(groups)
    for name in (namespace, *chosen):
        if not name or re.search(r"[\s,;#]", name):
            raise InvalidValue(
                "name",
                f"{name!r} cannot be written to a key file: leave out spaces, commas, semicolons and #",
            )
    secret = (PREFIX if chosen else SHARED_PREFIX) + secrets.token_urlsafe(32)
    return secret, WorkerKey(_hash(secret), namespace, chosen or None)


def key_of(secret: str, namespace: str, source: str) -> WorkerKey | None:
    """Return the shared key of a secret, for all groups of a namespace; None for another kind of worker key.

    A stored key, or one for some groups, is not a shared key. Its access is what the database or the key file says, and
    it has none once it is revoked or deleted.

    Args:
        secret: The secret.
        namespace: The namespace that it gives access to.
        source: The source of the secret, for messages.

    Raises:
        InvalidValue: It is not a worker key. The message does not contain it.
    """
    if _SHARED_SECRET.fullmatch(secret) is not None:
        return WorkerKey(_hash(secret), namespace)
    if _SECRET.fullmatch(secret) is None:
        raise InvalidValue(source, "it is not a worker key; create one with `signoff keys create --worker`")
    return None


class WorkerKeys:
    """The worker keys that a server accepts besides those of its database.

    Args:
        keys: The keys of its key file.
        own: The key that the server and the workers of one machine share, see ``key_of``. An entry for the same secret
            in the key file or the database takes precedence.
    """

    def __init__(self, keys: Iterable[WorkerKey] = (), own: WorkerKey | None = None) -> None:
        self._keys = tuple(keys)
        self._own = own

    @classmethod
    def parse(cls, text: str, source: str) -> WorkerKeys:
        """Read the lines of a key file: ``HASH NAMESPACE [GROUP,GROUP...] [# comment]``; ``;`` separates as lines do.

        Args:
            text: The lines.
            source: The source of the lines, for messages.

        Raises:
            InvalidValue: A line is not a key. The message has its number, not its content.
        """
        keys: list[WorkerKey] = []
        for number, line in enumerate(re.split("[\n;]", text), start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if not 2 <= len(words) <= 3 or _HASH.fullmatch(words[0]) is None:
                raise InvalidValue(
                    f"{source} line {number}",
                    "it is not a worker key; `signoff keys create --worker` prints the line to add",
                )
            groups = frozenset(words[2].split(",")) - {""} if len(words) == 3 else None
            keys.append(WorkerKey(words[0], words[1], groups or None))
        return cls(keys)

    def __iter__(self) -> Iterator[WorkerKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find_own(self, secret: str) -> WorkerKey | None:
        """Return the shared key if this is its secret."""
        is_own = self._own is not None and hmac.compare_digest(self._own.hash, _hash(secret))
        return self._own if is_own else None

    def find(self, secret: str) -> WorkerKey | None:
        """Return the key in the file with this secret, in time that does not depend on which key it is."""
        hashed = _hash(secret)
        found: WorkerKey | None = None
        for key in self._keys:
            if hmac.compare_digest(key.hash, hashed):
                found = key
        return found


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
