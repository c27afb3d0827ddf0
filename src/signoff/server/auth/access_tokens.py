"""Access tokens of the identity provider, with which MCP clients act for the user who has signed in to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Scope

from signoff.errors import LoginFailed, NotAuthenticated
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.keyring import bearer_of
from signoff.server.auth.oidc_flow import OidcFlow
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.server.auth.roles import path_of
from signoff.server.limits.wrong_secrets import WrongSecretLimit
from signoff.server.mcp.request import KEY, PATH
from signoff.stores.tokens import PREFIXES

METADATA: Final = "/.well-known/oauth-protected-resource"
"""The path of the description of the resource (RFC 9728): its authorization server signs users in."""


class AccessTokens:
    """Authenticator for access tokens. They count for the MCP server only, which is their audience.

    Args:
        flow: The identity provider, with its settings.
        wrong: Limits wrong tokens.
    """

    def __init__(self, flow: OidcFlow, wrong: WrongSecretLimit) -> None:
        self._provider = flow.provider
        self._settings = flow.settings
        self._wrong = wrong

    async def identify(self, scope: Scope) -> Identity | None:
        """Return the user for whom a token was issued; None without a token.

        Raises:
            NotAuthenticated: The token is not valid.
            TooManyRequests: The client has sent too many wrong tokens.
            ProviderUnavailable: The provider's keys cannot be fetched.
        """
        token = bearer_of(scope) if KEY in scope or path_of(scope) == PATH else None
        if token is None or token.startswith(tuple(PREFIXES.values())):
            return None
        try:
            claims = await self._provider.read_access_token(token, resource_of(self._settings))
            return Identity(self._settings.person_of(claims), "login")
        except LoginFailed as error:
            self._wrong.note(scope)
            raise NotAuthenticated(str(error)) from None


def resource_of(settings: OpenIdConnect) -> str:
    """Return the URL of the MCP server, for which the provider issues access tokens."""
    return settings.public_url.rstrip("/") + PATH


def metadata_url(settings: OpenIdConnect) -> str:
    """Return the URL of the description of the resource."""
    return settings.public_url.rstrip("/") + METADATA


def metadata(settings: OpenIdConnect) -> Mapping[str, Any]:
    """Return the description of the resource (RFC 9728)."""
    return {
        "resource": resource_of(settings),
        "authorization_servers": [settings.issuer],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(dict.fromkeys(("openid", *settings.scopes))),
        "resource_name": "Signoff",
    }
