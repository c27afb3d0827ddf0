"""The ways in which a request can say whose it is, and who that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from starlette.types import Scope

from signoff.records.responders import Responder


@dataclass(frozen=True)
class Identity:
    """Whose request it is.

    Attributes:
        person: A person, or a service by the name ``service:NAME``, with groups and roles.
        way: How the server knows.
        namespace: What it works on; None: what the server serves.
        start_groups: The groups that it starts runs in; None: any.
        may_act_as: Whether it may say for whom it acts, so that what it does is theirs.
        credential: The id of the key or the login.
    """

    person: Responder
    way: Literal["key", "login", "proxy"]
    namespace: str | None = None
    start_groups: frozenset[str] | None = None
    may_act_as: bool = False
    credential: str | None = None

    @property
    def is_service(self) -> bool:
        """Whether it is a program in its own name."""
        return self.way == "key"


RECHECK_SECONDS: Final = 30.0
"""How often it is looked at whether whoever reads a stream still may: a key that is revoked, a login that has ended."""


class Way(Protocol):
    """One way: a key, a cookie, the headers of a proxy."""

    async def identify(self, scope: Scope) -> Identity | None:
        """Return whose request it is, or None if it says nothing in this way.

        Raises:
            NotAuthenticated: It says something that is not true.
            TooManyRequests: So did many before it.
        """
        ...


class Ways:
    """All ways of a server, of which the first that a request takes counts.

    Args:
        ways: The ways.
        required: Whether a request must take one, whatever there is. Otherwise whoever reaches the server may say who
            they are, until there is a key.
        has_keys: Returns whether the database has an open key of a service or a worker, of any namespace.

    Attributes:
        required: Whether a request must take one, as far as that is known. Once it must, it stays so.
    """

    def __init__(
        self, ways: Sequence[Way], *, required: bool, has_keys: Callable[[], Awaitable[bool]]
    ) -> None:
        self._ways = ways
        self._has_keys = has_keys
        self.required = required

    async def look(self) -> bool:
        """Return whether a request must take one. Another process may just have made the first key."""
        if not self.required:
            self.required = await self._has_keys()
        return self.required

    async def identify(self, scope: Scope) -> Identity | None:
        """Return whose request it is, or None if it does not say. Raises NotAuthenticated, TooManyRequests."""
        for way in self._ways:
            identity = await way.identify(scope)
            if identity is not None:
                return identity
        return None
