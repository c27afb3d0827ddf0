"""Who people are, by the word of an OpenID Connect provider: how it is reached, and what its claims say of somebody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from signoff.errors import InvalidValue, LoginFailed
from signoff.records.responders import Responder
from signoff.server.auth.roles import Role
from signoff.server.auth.trusted_proxy import MOST_NAMES, RESERVED
from signoff.wire.http import is_loopback, server_url

ALGORITHMS: Final = ("RS256", "PS256", "ES256")
_SIGNED: Final = frozenset(f"{kind}{size}" for kind in ("RS", "PS", "ES") for size in (256, 384, 512))
HALF_A_DAY: Final = 12 * 3600.0  # seconds


@dataclass(frozen=True)
class OpenIdConnect:
    """A provider that signs people in, by the authorization code flow with PKCE, and what its claims mean here.

    Attributes:
        issuer: The provider, exactly as it calls itself, such as ``https://login.example.com/realms/acme``.
        client_id: What it calls this server.
        public_url: How browsers reach this server. ``/login/callback`` below it must be registered with the provider.
            Cookies are the whole host's: what else is on it gets them, too.
        client_secret: What this server proves itself by; None for a public client.
        scopes: What is asked for, besides ``openid``.
        user_claim: The claim that is their name here. ``email`` counts only if ``email_verified`` is
            the JSON value ``true``.
        groups_claim: The claim with their groups; dots lead into objects. None: they have none.
        roles_claim: The claim with their roles, likewise. ``viewer``, ``responder``, ``operator`` and ``admin`` say
            what they may do, and any role may be an assignee.
        default_role: A role that everybody has besides.
        lifetime_seconds: How long somebody stays signed in.
        idle_seconds: How long they may do nothing meanwhile.
        algorithms: How ID tokens may be signed, of RS, PS and ES with 256, 384 or 512.

    Example:
        Server(store, openid=OpenIdConnect("https://login.example.com", "signoff", "https://signoff.example.com",
                                           client_secret=os.environ["SIGNOFF_OIDC_CLIENT_SECRET"]))
    """

    issuer: str
    client_id: str
    public_url: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: Sequence[str] = ("email", "profile")
    user_claim: str = "email"
    groups_claim: str | None = "groups"
    roles_claim: str | None = "roles"
    default_role: Role | None = Role.RESPONDER
    lifetime_seconds: float = HALF_A_DAY
    idle_seconds: float = HALF_A_DAY
    algorithms: Sequence[str] = ALGORITHMS

    def __post_init__(self) -> None:
        """Raises InvalidValue."""
        _check_url("issuer", self.issuer)
        _check_url("public_url", self.public_url)
        if not self.client_id or self.client_secret == "":
            raise InvalidValue(
                "client_id", "the provider's name for this server, and its secret, are not empty"
            )
        if not self.algorithms or not _SIGNED.issuperset(self.algorithms):
            raise InvalidValue("algorithms", f"choose of {', '.join(sorted(_SIGNED))}")
        if not 60 <= self.idle_seconds <= self.lifetime_seconds <= 400 * 86400:
            raise InvalidValue(
                "idle_seconds", "a minute at least, and no more than lifetime_seconds (400 days)"
            )

    @property
    def host(self) -> str:
        """The name that browsers reach this server by."""
        return server_url(self.public_url).host

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by https, so that cookies can be bound to that."""
        return server_url(self.public_url).scheme == "https"

    @property
    def callback_url(self) -> str:
        """Where the provider sends people back to."""
        return f"{self.public_url.rstrip('/')}/login/callback"

    def person_of(self, claims: Mapping[str, Any]) -> Responder:
        """Return whom the claims of a valid ID token describe.

        Raises:
            LoginFailed: They name nobody, or what they name is no name.
        """
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not user:
            raise LoginFailed(
                f"the provider says no {self.user_claim!r} of you; have it do so, or choose a claim"
            )
        if self.user_claim == "email" and claims.get("email_verified") is not True:
            raise LoginFailed(f"the provider does not say that {user!r} is verified to be yours")
        if user.lower().startswith(RESERVED):
            raise LoginFailed(f"{user!r} is nobody's name")
        groups, roles = _names(claims, self.groups_claim), _names(claims, self.roles_claim)
        if self.default_role is not None:
            roles |= {self.default_role.value}
        if len(groups) + len(roles) > MOST_NAMES:
            raise LoginFailed(
                f"{len(groups)} groups and {len(roles)} roles are more than {MOST_NAMES}: "
                "have the provider name those that questions are for"
            )
        try:
            return Responder(user, groups, roles)
        except InvalidValue as error:
            raise LoginFailed(str(error)) from None


def _check_url(path: str, url: str) -> None:
    """Raise InvalidValue for what others on the way could read or alter."""
    parsed = server_url(url)
    if parsed.scheme != "https" and not is_loopback(parsed.host):
        raise InvalidValue(path, f"{url!r} must begin with https://; http is for this machine itself")
    if parsed.query or parsed.fragment or parsed.userinfo:
        raise InvalidValue(
            path, f"{parsed.copy_with(userinfo=b'', query=None)} must have no query and no user"
        )


def _names(claims: Mapping[str, Any], claim: str | None) -> frozenset[str]:
    """Return a claim's names: of a list of texts, or of one text. Raises LoginFailed."""
    if claim is None:
        return frozenset()
    if claim in claims.get("_claim_names", ()):
        raise LoginFailed(f"you have so many {claim} that the provider leaves them out; have it name fewer")
    said = _found(claims, claim)
    names = cast("list[object]", said if isinstance(said, list) else [] if said is None else [said])
    if not all(isinstance(name, str) for name in names):
        raise LoginFailed(f"the claim {claim!r} is no list of names")
    return frozenset(cast("list[str]", names)) - {""}


def _found(claims: Mapping[str, Any], claim: str) -> object:
    """Return a claim, which may be called so or lie deeper: Keycloak says ``realm_access.roles``."""
    if claim in claims:
        return claims[claim]
    found: object = claims
    for part in claim.split("."):
        found = cast("Mapping[str, object]", found).get(part) if isinstance(found, Mapping) else None
    return found
