"""Client of an OpenID Connect provider: discovery, signing keys, and exchange of codes for claims."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import quote_plus

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from joserfc.jwt import JWTClaimsRegistry

from signoff.codec.strict_json import read_exactly
from signoff.errors import LoginFailed, ProviderUnavailable
from signoff.runtime.clock import Clock
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.wire.http import UNCOMPRESSED, new_client, read_uncompressed

ANSWER_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 3600.0
"""How long the provider's metadata and keys are cached. A key that it withdraws is accepted until then."""
REFETCH_SECONDS: Final = 30.0
"""Least age of the cached keys before an unknown key id makes them be fetched again."""
RETRY_SECONDS: Final = 5.0
"""Pause after a failed fetch. Callers that need the same URL meanwhile get the same failure."""
LEEWAY_SECONDS: Final = 60
"""Allowed difference between the provider's clock and ours."""
_LONGEST: Final = 1024 * 1024  # bytes
_KEY_TYPES: Final = ("RSA", "EC")


class Provider:
    """An OpenID Connect provider. Its metadata and keys are fetched when a user signs in, and cached for an hour.

    Args:
        settings: The provider, and this server's registration with it.
        clock: The clock for the expiry of tokens.
    """

    def __init__(self, settings: OpenIdConnect, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._http: httpx.AsyncClient | None = None
        self._fetching = asyncio.Lock()
        self._about: dict[str, Any] | None = None
        self._about_at = 0.0
        self._keys: KeySet | None = None
        self._keys_at = 0.0
        self._failures: dict[
            str, tuple[float, str]
        ] = {}  # by URL: when it may be fetched again, and the reason

    async def close(self) -> None:
        """Close its connections."""
        if self._http is not None:
            await self._http.aclose()

    async def login_url(self, state: str, nonce: str, verifier: str) -> str:
        """Return the URL at which a user signs in.

        Args:
            state: A value that the provider sends back unchanged.
            nonce: A value that the ID token must contain.
            verifier: The PKCE secret, which is needed to redeem the code.

        Raises:
            ProviderUnavailable: The provider's metadata cannot be fetched.
        """
        about = await self._discovered()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        scopes = dict.fromkeys(("openid", *self._settings.scopes))
        return str(
            httpx.URL(about["authorization_endpoint"]).copy_merge_params(
                {
                    "response_type": "code",
                    "client_id": self._settings.client_id,
                    "redirect_uri": self._settings.callback_url,
                    "scope": " ".join(scopes),
                    "state": state,
                    "nonce": nonce,
                    "code_challenge": challenge.decode(),
                    "code_challenge_method": "S256",
                }
            )
        )

    async def check_sender(self, iss: str | None) -> None:
        """Check that a response comes from this provider (mix-up attack, RFC 9207).

        Raises:
            LoginFailed: ``iss`` names another provider, or is missing although this provider always sends it.
            ProviderUnavailable: The provider's metadata cannot be fetched.
        """
        about = await self._discovered()
        always = about.get("authorization_response_iss_parameter_supported") is True
        if iss != self._settings.issuer and (iss is not None or always):
            raise LoginFailed("the response comes from another provider")

    async def redeem(self, code: str, verifier: str, nonce: str) -> dict[str, Any]:
        """Exchange a code for the claims of the user who signed in.

        Args:
            code: The code that the provider sent back.
            verifier: As in ``login_url``.
            nonce: As in ``login_url``.

        Raises:
            LoginFailed: The provider rejects the code, or its ID token is not valid or not for this server.
            ProviderUnavailable: The provider gives no usable response.
        """
        answer = await self._exchange(code, verifier)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderUnavailable(self._settings.issuer, "its token response has no id_token")
        asked_at = self._clock.now()
        claims = await self._claims(
            "ID token",
            token,
            asked_at,
            aud={"essential": True, "value": self._settings.client_id},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        several = isinstance(claims["aud"], list) and len(cast("list[object]", claims["aud"])) > 1
        client_id = self._settings.client_id
        if claims.get("azp", None if several else client_id) != client_id:
            raise LoginFailed("the ID token was issued to another client")
        return claims

    async def read_access_token(self, token: str, resource: str) -> dict[str, Any]:
        """Return the claims of an access token that the provider has issued for a resource (RFC 9068, RFC 8707).

        Args:
            token: The token, a JWT.
            resource: The URL of the resource, which must be its audience. An ID token has another one.

        Raises:
            LoginFailed: It is not valid, has expired, or is for another resource.
            ProviderUnavailable: The provider's keys cannot be fetched.
        """
        aud = {"essential": True, "value": resource}
        return await self._claims("access token", token, self._clock.now(), aud=aud)

    async def _claims(self, kind: str, token: str, asked_at: float, **wanted: Any) -> dict[str, Any]:
        """Return the claims of a signed token. Raises LoginFailed, ProviderUnavailable."""
        try:
            return self._read(kind, token, await self._signing_keys(), wanted)
        except InvalidKeyIdError:
            if asked_at - self._keys_at < REFETCH_SECONDS:
                raise _unknown_key(kind) from None
        try:
            return self._read(kind, token, await self._signing_keys(newer_than=asked_at), wanted)
        except InvalidKeyIdError:
            raise _unknown_key(kind) from None

    def _read(self, kind: str, token: str, keys: KeySet, wanted: dict[str, Any]) -> dict[str, Any]:
        """Return the claims of a token. Raises LoginFailed, or InvalidKeyIdError for an unknown key."""
        claims_wanted = JWTClaimsRegistry(
            int(self._clock.now()),
            LEEWAY_SECONDS,
            iss={"essential": True, "value": self._settings.issuer},
            sub={"essential": True},
            exp={"essential": True},
            **wanted,
        )
        try:
            for part in token.split(".")[:2]:
                read_exactly(base64.urlsafe_b64decode(part + "=="))
            claims = jwt.decode(token, keys, list(self._settings.algorithms)).claims
            claims_wanted.validate(claims)
        except InvalidKeyIdError:
            raise
        except (JoseError, ValueError, RecursionError) as error:
            raise LoginFailed(f"the {kind} is not valid: {error}") from None
        return claims

    async def _exchange(self, code: str, verifier: str) -> dict[str, Any]:
        settings = self._settings
        about = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.callback_url,
            "code_verifier": verifier,
        }
        headers: dict[str, str] = {}
        methods = about.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if settings.client_secret is None:
            form["client_id"] = settings.client_id
        elif "client_secret_basic" in methods:
            pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        status, answer = await self._ask("POST", about["token_endpoint"], data=form, headers=headers)
        if 400 <= status < 500:
            reason = str(answer.get("error", status))
            raise LoginFailed(f"the provider rejects its own code: {reason[:100]!r}")
        return self._expected(status, answer)

    async def _discovered(self) -> Mapping[str, Any]:
        """Return the provider's metadata. While the provider is unavailable, the cached metadata stays in use."""
        async with self._fetching:
            if self._about is None or self._clock.now() - self._about_at >= KEPT_SECONDS:
                try:
                    self._about = await self._discover()
                    self._about_at = self._clock.now()
                except ProviderUnavailable:
                    if self._about is None:
                        raise
            return self._about

    async def _discover(self) -> dict[str, Any]:
        url = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        about = await self._fetch(url)
        if about.get("issuer") != self._settings.issuer:
            raise ProviderUnavailable(self._settings.issuer, f"it calls itself {about.get('issuer')!r}")
        scheme = httpx.URL(self._settings.issuer).scheme
        for endpoint in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not str(about.get(endpoint)).startswith(f"{scheme}://"):
                raise ProviderUnavailable(
                    self._settings.issuer, f"its {endpoint} is not a valid {scheme} URL"
                )
        return about

    async def _signing_keys(self, newer_than: float | None = None) -> KeySet:
        about = await self._discovered()
        async with self._fetching:
            wanted_since = self._clock.now() - KEPT_SECONDS if newer_than is None else newer_than
            if self._keys is None or self._keys_at <= wanted_since:
                found = await self._fetch(about["jwks_uri"])
                self._keys = KeySet(_usable(found.get("keys")))
                self._keys_at = self._clock.now()
            return self._keys

    async def _fetch(self, url: str) -> dict[str, Any]:
        """Return the JSON object at a URL. After a failure, callers get the same error for ``RETRY_SECONDS``."""
        failed_until, reason = self._failures.get(url, (0.0, ""))
        if self._clock.now() < failed_until:
            raise ProviderUnavailable(self._settings.issuer, reason)
        try:
            found = self._expected(*await self._ask("GET", url))
        except ProviderUnavailable as error:
            self._failures[url] = (self._clock.now() + RETRY_SECONDS, error.reason)
            raise
        self._failures.pop(url, None)
        return found

    async def _ask(self, method: str, url: str, **sent: Any) -> tuple[int, dict[str, Any]]:
        """Return the status of a response and its JSON object, empty if it has none. Redirects are not followed."""
        issuer = self._settings.issuer
        if self._http is None:
            self._http = new_client(httpx.URL(issuer), answer_seconds=ANSWER_SECONDS)
        sent["headers"] = {**sent.get("headers", {}), **UNCOMPRESSED}
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._http.stream(method, url, **sent) as response:
                body = await read_uncompressed(response, _LONGEST)
            if len(body) > _LONGEST:
                raise ProviderUnavailable(issuer, "its response is too large")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise ProviderUnavailable(issuer, str(error) or type(error).__name__) from error
        try:
            answer = read_exactly(body)
        except (ValueError, RecursionError):
            answer = None
        return response.status_code, cast("dict[str, Any]", answer if isinstance(answer, dict) else {})

    def _expected(self, status: int, answer: dict[str, Any]) -> dict[str, Any]:
        if status != 200 or not answer:
            raise ProviderUnavailable(
                self._settings.issuer, f"it answers {status} without the expected JSON object"
            )
        return answer


def _unknown_key(kind: str) -> LoginFailed:
    return LoginFailed(f"the {kind} is signed with a key that the provider does not publish")


def _usable(found: object) -> list[Key]:
    """Return the keys that can sign ID tokens. Unreadable keys are skipped."""
    keys: list[Key] = []
    for data in cast("list[object]", found if isinstance(found, list) else []):
        described = cast("dict[str, Any]", data if isinstance(data, dict) else {})
        if described.get("kty") in _KEY_TYPES and described.get("use", "sig") == "sig":
            try:
                keys.append(JWKRegistry.import_key(described))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    return keys
