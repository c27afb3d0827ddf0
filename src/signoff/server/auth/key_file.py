"""Worker keys: secrets of which the server knows only hashes, and what each of them opens."""

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
"""What keys begin with that a server accepts from its environment. No key of a database or for some groups does."""

_SHARED_SECRET = re.compile(f"{SHARED_PREFIX}[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True)
class WorkerKey:
    """What a server knows of a worker key.

    Attributes:
        hash: The SHA-256 of the secret, in hex. The secret is 256 random bits, so no slower hash is needed.
        namespace: The one namespace that it opens.
        groups: The groups that it opens; None means all of the namespace.
        id: By which the store knows it; None: it is of a key file.
        name: What people call it, likewise.
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
    """Make a key.

    Args:
        namespace: The namespace that it opens.
        groups: The groups that it opens; none means all.

    Returns:
        The secret, which nobody can be told again, and what a server is told.

    Raises:
        InvalidValue: A name has a space or a comma in it.
    """
    chosen = frozenset(groups)
    for name in (namespace, *chosen):
        if not name or re.search(r"[\s,;#]", name):
            raise InvalidValue(
                "name", f"{name!r} cannot stand in a key file: no spaces, commas, semicolons or #"
            )
    secret = (PREFIX if chosen else SHARED_PREFIX) + secrets.token_urlsafe(32)
    return secret, WorkerKey(_hash(secret), namespace, chosen or None)


def key_of(secret: str, namespace: str, source: str) -> WorkerKey | None:
    """Return what a server knows of a key whose secret it is given, for all groups of a namespace.

    A key of a database, or one for some groups, is not such a key: it opens what the database or the key file says, and
    nothing once it is revoked, also when nothing remembers it any more.

    Args:
        secret: The secret.
        namespace: The namespace that it opens.
        source: Where it is from, for messages.

    Raises:
        InvalidValue: It is not a worker key. The message does not contain it.
    """
    if _SHARED_SECRET.fullmatch(secret) is not None:
        return WorkerKey(_hash(secret), namespace)
    if _SECRET.fullmatch(secret) is None:
        raise InvalidValue(source, "it is not a worker key; create one with `signoff keys create --worker`")
    return None


class WorkerKeys:
    """The keys that a server accepts besides those of its database.

    Args:
        keys: Those of its key file.
        own: The one that server and workers of one machine share, see ``key_of``. The file and the database go before
            it: a key that either of them knows opens what is said there.
    """

    def __init__(self, keys: Iterable[WorkerKey] = (), own: WorkerKey | None = None) -> None:
        self._keys = tuple(keys)
        self._own = own

    @classmethod
    def parse(cls, text: str, source: str) -> WorkerKeys:
        """Read the lines of a key file: ``HASH NAMESPACE [GROUP,GROUP...] [# comment]``; ``;`` separates as lines do.

        Args:
            text: The lines.
            source: Where they are from, for messages.

        Raises:
            InvalidValue: A line is no key. The message names it by its number, not by what it says.
        """
        keys: list[WorkerKey] = []
        for number, line in enumerate(re.split("[\n;]", text), start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if not 2 <= len(words) <= 3 or _HASH.fullmatch(words[0]) is None:
                raise InvalidValue(
                    f"{source} line {number}",
                    "it is no worker key; `signoff keys create --worker` prints the line to put there",
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
        """Return the key of a secret, of those in the file. Takes the same time whichever it is."""
        hashed = _hash(secret)
        found: WorkerKey | None = None
        for key in self._keys:
            if hmac.compare_digest(key.hash, hashed):
                found = key
        return found


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
