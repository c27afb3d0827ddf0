"""Authentication by a trusted proxy that signs users in and names them in headers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from starlette.types import Scope

from signoff.errors import InvalidValue, NotAuthenticated
from signoff.records.names import LONGEST_PERSON_BYTES
from signoff.records.responders import SERVICE, Responder
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.roles import Role
from signoff.server.auth.trusted_networks import LOOPBACK, Networks, address

MOST_NAMES: Final = 200
"""The most groups and roles that a user may have: the inbox query names each of them."""
LONGEST_NAME: Final = 256  # characters
LONGEST_BYTES: Final = LONGEST_PERSON_BYTES - len("group:")

_HEADER: Final = re.compile("[A-Za-z0-9][A-Za-z0-9-]*")
_MEANS_ELSE: Final = frozenset(
    {"authorization", "connection", "content-length", "content-type", "cookie", "host", "origin"}
    | {"sec-fetch-site", "transfer-encoding", "forwarded", "x-forwarded-for", "x-forwarded-host"}
    | {"x-forwarded-port", "x-forwarded-proto", "x-real-ip"}
)
RESERVED: Final = ("signoff:", "user:", "group:", "role:", SERVICE)


@dataclass(frozen=True)
class TrustedProxy:
    """A proxy that signs users in and names them in headers of each request that it forwards.

    It must remove these headers from clients' requests, including those that it does not set itself.

    Attributes:
        user_header: The header with the user's name.
        groups_header: The header with the user's groups, separated by commas; None: users have no groups.
        roles_header: The header with the user's roles, likewise. ``viewer``, ``responder``, ``operator`` and ``admin``
            grant rights, and any role may be an assignee.
        addresses: The addresses of the proxy, and networks such as ``10.0.0.0/8``.
        default_role: A role that every user has besides.

    Example:
        Server(store, proxy=TrustedProxy("X-Forwarded-User", groups_header="X-Forwarded-Groups"))
    """

    user_header: str
    groups_header: str | None = None
    roles_header: str | None = None
    addresses: Sequence[str] = LOOPBACK
    default_role: Role | None = Role.RESPONDER

    def __post_init__(self) -> None:
        """Raise InvalidValue if a header or an address is not valid, or one header has two meanings."""
        named = [
            name.lower()
            for name in (self.user_header, self.groups_header, self.roles_header)
            if name is not None
        ]
        for name in named:
            if _HEADER.fullmatch(name) is None:
                raise InvalidValue(
                    "header", f"{name!r} is not a valid header name: use letters, digits and hyphens"
                )
            if name in _MEANS_ELSE or named.count(name) > 1:
                raise InvalidValue("header", f"{name!r} already has another meaning; choose another header")
        _ = self._networks  # raises InvalidValue now

    @cached_property
    def _networks(self) -> Networks:
        return Networks(self.addresses)

    def trusts(self, host: str) -> bool:
        """Whether an address is the proxy's."""
        peer = address(host)
        return peer is not None and peer in self._networks

    async def identify(self, scope: Scope) -> Identity:
        """Return the identity that the proxy names. Raises NotAuthenticated, as ``person_of`` does."""
        return Identity(self.person_of(scope), "proxy")

    def person_of(self, scope: Scope) -> Responder:
        """Return the user whom the proxy names in a request.

        Raises:
            NotAuthenticated: The request does not come from the proxy, names no user, or a name is not valid.
        """
        host, port = scope.get("client") or ("", None)
        if port == 0:
            raise NotAuthenticated(
                "the ASGI server reports a forwarded address, not the peer's: start it without proxy headers"
            )
        if not self.trusts(host):
            raise NotAuthenticated(
                f"{host or 'the peer'} is not the trusted proxy; connect through the proxy"
            )
        user = _value(scope, self.user_header)
        if user is None:
            raise NotAuthenticated(f"the proxy names no user: the header {self.user_header} is missing")
        _check_user(self.user_header, user)
        groups, roles = _names(scope, self.groups_header), _names(scope, self.roles_header)
        if self.default_role is not None:
            roles |= {self.default_role.value}
        if len(groups) + len(roles) > MOST_NAMES:
            raise NotAuthenticated(
                f"{len(groups)} groups and {len(roles)} roles are more than {MOST_NAMES}: "
                "configure the proxy to send only those that questions are assigned to"
            )
        return Responder(user, groups, roles)


def _value(scope: Scope, header: str) -> str | None:
    """Return a header's value; None if it is missing or empty.

    Raises:
        NotAuthenticated: The header occurs twice, so one may be forged, or its value is not plain text.
    """
    name = header.lower().encode()
    values: list[bytes] = [value for key, value in scope["headers"] if key == name]
    if len(values) > 1:
        raise NotAuthenticated(
            f"there are {len(values)} headers {header}: the proxy must remove those of clients"
        )
    try:
        text = values[0].decode().strip(" \t") if values else ""
    except UnicodeDecodeError:
        raise NotAuthenticated(f"{header} is not UTF-8") from None
    if not text.isprintable() or not unicodedata.is_normalized("NFC", text):
        raise NotAuthenticated(f"{header} has characters that are invisible or look like others")
    return text or None


def _names(scope: Scope, header: str | None) -> frozenset[str]:
    text = None if header is None else _value(scope, header)
    names = frozenset(name.strip() for name in (text or "").split(",")) - {""}
    _check_lengths(header or "", names)
    return names


def _check_user(header: str, user: str) -> None:
    _check_lengths(header, [user])
    if "," in user:
        raise NotAuthenticated(
            f"{header} has a comma, so it may be two merged headers: the proxy must remove those of clients"
        )
    if user.lower().startswith(RESERVED):
        raise NotAuthenticated(f"{header}: {user!r} is a reserved name")


def _check_lengths(header: str, names: Iterable[str]) -> None:
    if any(len(name) > LONGEST_NAME for name in names):
        raise NotAuthenticated(f"{header} has a name of more than {LONGEST_NAME} characters")
    if any(len(name.encode()) > LONGEST_BYTES for name in names):
        raise NotAuthenticated(f"{header} has a name of more than {LONGEST_BYTES} bytes in UTF-8")
