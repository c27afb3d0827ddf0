"""Authenticators: find the identity behind a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from starlette.types import Scope

from signoff.records.responders import Responder


@dataclass(frozen=True)
class Identity:
    """The authenticated sender of a request.

    Attributes:
        person: A user, or a service named ``service:NAME``, with groups and roles.
        way: The method of authentication.
        namespace: The namespace that it works on; None: the server's.
        start_groups: The groups that it may start runs in; None: any.
        may_act_as: Whether it may name a user to act for, who is then recorded as the actor.
        credential: The id of the key or the login session.
    """

    person: Responder
    way: Literal["key", "login", "proxy"]
    namespace: str | None = None
    start_groups: frozenset[str] | None = None
    may_act_as: bool = False
    credential: str | None = None

    @property
    def is_service(self) -> bool:
        """Whether it is a service rather than a user."""
        return self.way == "key"


RECHECK_SECONDS: Final = 30.0
"""Seconds between two checks that a stream's reader is still authorized: its key may be revoked, its login ended."""


class Authenticator(Protocol):
    """One authentication method: a key, a cookie, or the headers of a proxy."""

    async def identify(self, scope: Scope) -> Identity | None:
        """Return the identity behind a request, or None if it has no credentials of this kind.

        Raises:
            NotAuthenticated: The credentials are not valid.
            TooManyRequests: The client has sent too many invalid credentials.
        """
        ...


class Authenticators:
    """The authenticators of a server, in order. The first one that finds an identity counts.

    Args:
        authenticators: The authenticators.
        required: Whether requests must always be authenticated. Otherwise callers may name any user, until the
            database has a key.
        has_keys: Returns whether the database has a valid key of a service or a worker, in any namespace.

    Attributes:
        required: Whether requests must be authenticated, as far as is known. Once true, it stays true.
    """

    def __init__(
        self,
        authenticators: Sequence[Authenticator],
        *,
        required: bool,
        has_keys: Callable[[], Awaitable[bool]],
    ) -> None:
        self._authenticators = authenticators
        self._has_keys = has_keys
        self.required = required

    async def look(self) -> bool:
        """Return whether requests must be authenticated. Another process may just have created the first key."""
        if not self.required:
            self.required = await self._has_keys()
        return self.required

    async def identify(self, scope: Scope) -> Identity | None:
        """Return the identity behind a request, or None if it has no credentials.

        Raises:
            NotAuthenticated, TooManyRequests: As the authenticators do.
        """
        for authenticator in self._authenticators:
            identity = await authenticator.identify(scope)
            if identity is not None:
                return identity
        return None
