"""Settings for an OpenID Connect provider, and the mapping of its claims to users, groups and roles."""

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
    """A provider that signs users in by the authorization code flow with PKCE, and the meaning of its claims.

    Attributes:
        issuer: The provider's issuer, exactly as its metadata has it, such as
            ``https://login.example.com/realms/acme``.
        client_id: This server's client id at the provider.
        public_url: The URL of this server in browsers. ``/login/callback`` below it must be registered with
            the provider. Cookies are set for the whole host, so other applications on it receive them, too.
        client_secret: This server's client secret; None for a public client.
        scopes: The requested scopes besides ``openid``.
        user_claim: The claim with the user's name. ``email`` counts only if ``email_verified`` is the JSON value
            ``true``.
        groups_claim: The claim with the user's groups; dots lead into objects. None: users have no groups.
        roles_claim: The claim with the user's roles, likewise. ``viewer``, ``responder``, ``operator`` and ``admin``
            grant rights, and any role may be an assignee.
        default_role: A role that every user has besides.
        lifetime_seconds: How long a login lasts.
        idle_seconds: How long a login lasts without requests.
        algorithms: The accepted signature algorithms of ID tokens: RS, PS and ES with 256, 384 or 512.

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
                "client_id", "the client id, and the client secret if there is one, must not be empty"
            )
        if not self.algorithms or not _SIGNED.issuperset(self.algorithms):
            raise InvalidValue("algorithms", f"choose from {', '.join(sorted(_SIGNED))}")
        if not 60 <= self.idle_seconds <= self.lifetime_seconds <= 400 * 86400:
            raise InvalidValue(
                "idle_seconds", "it must be from 60 up to lifetime_seconds, which is at most 400 days"
            )

    @property
    def host(self) -> str:
        """The host name of this server in browsers."""
        return server_url(self.public_url).host

    @property
    def is_secure(self) -> bool:
        """Whether browsers connect by https, so that cookies can be restricted to https."""
        return server_url(self.public_url).scheme == "https"

    @property
    def callback_url(self) -> str:
        """The URL to which the provider sends users back."""
        return f"{self.public_url.rstrip('/')}/login/callback"

    def person_of(self, claims: Mapping[str, Any]) -> Responder:
        """Return the user whom the claims of a valid ID token describe.

        Raises:
            LoginFailed: The claims name no user, or a name is not valid.
        """
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not user:
            raise LoginFailed(
                f"the provider sends no claim {self.user_claim!r}; configure it there, or choose another claim"
            )
        if self.user_claim == "email" and claims.get("email_verified") is not True:
            raise LoginFailed(f"the provider has not verified that {user!r} is your address")
        if user.lower().startswith(RESERVED):
            raise LoginFailed(f"{user!r} is a reserved name")
        groups, roles = _names(claims, self.groups_claim), _names(claims, self.roles_claim)
        if self.default_role is not None:
            roles |= {self.default_role.value}
        if len(groups) + len(roles) > MOST_NAMES:
            raise LoginFailed(
                f"{len(groups)} groups and {len(roles)} roles are more than {MOST_NAMES}: "
                "configure the provider to send only those that questions are assigned to"
            )
        try:
            return Responder(user, groups, roles)
        except InvalidValue as error:
            raise LoginFailed(str(error)) from None


def _check_url(path: str, url: str) -> None:
    """Raise InvalidValue for a URL that is not https (except on this machine), or has a query or user info."""
    parsed = server_url(url)
    if parsed.scheme != "https" and not is_loopback(parsed.host):
        raise InvalidValue(path, f"{url!r} must start with https://; http is accepted on this machine only")
    if parsed.query or parsed.fragment or parsed.userinfo:
        raise InvalidValue(
            path, f"{parsed.copy_with(userinfo=b'', query=None)} must have no query and no user"
        )


def _names(claims: Mapping[str, Any], claim: str | None) -> frozenset[str]:
    """Return the names in a claim, which is a list of strings or one string. Raises LoginFailed."""
    if claim is None:
        return frozenset()
    if claim in claims.get("_claim_names", ()):
        raise LoginFailed(
            f"you have so many {claim} that the provider leaves them out; configure it to send fewer"
        )
    said = _found(claims, claim)
    names = cast("list[object]", said if isinstance(said, list) else [] if said is None else [said])
    if not all(isinstance(name, str) for name in names):
        raise LoginFailed(f"the claim {claim!r} is not a list of names")
    return frozenset(cast("list[str]", names)) - {""}


def _found(claims: Mapping[str, Any], claim: str) -> object:
    """Return a claim by its name, or by a dotted path such as Keycloak's ``realm_access.roles``."""
    if claim in claims:
        return claims[claim]
    found: object = claims
    for part in claim.split("."):
        found = cast("Mapping[str, object]", found).get(part) if isinstance(found, Mapping) else None
    return found
