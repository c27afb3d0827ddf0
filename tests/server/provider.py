"""An OpenID Connect provider on this machine that signs with real keys, and browsers that sign in there."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from signoff.runtime.clock import Clock
from signoff.server import Server
from signoff.server.process.uvicorn_server import Serving, bind, url_of

CLIENT, SECRET = "sign:off", "s3cret/+ é"
PUBLIC = "https://signoff.example"
RSA = RSAKey.generate_key(2048, {"kid": "rsa-1", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "ec-1", "use": "sig", "alg": "ES256"})
NEXT = RSAKey.generate_key(2048, {"kid": "rsa-2", "use": "sig"})


class LocalProvider:
    """Signs in every visitor with ``claims``, without a form.

    Attributes:
        url: Where it is, which is its issuer.
        about: What its discovery document says besides the usual.
        claims: What its ID tokens say besides the usual; None leaves a claim out.
        key: What it signs with.
        header: What the header of its ID tokens says.
        published: The keys that it tells.
        rewrite: What becomes of an ID token on its way.
        broken: Which of its doors answer 500.
        asked: How often each door was knocked at.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.url = ""
        self.reset()

    def reset(self) -> None:
        """Be as at first, and forget what was asked."""
        self.about: dict[str, Any] = {}
        self.claims: dict[str, Any] = {"sub": "248289", "email": "ana@example.com", "email_verified": True}
        self.key: RSAKey | ECKey = RSA
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "rsa-1"}
        self.published: list[Any] = [RSA, EC]
        self.rewrite: Callable[[str], str] = lambda token: token
        self.broken: set[str] = set()
        self.change: Callable[[str, bytes], bytes] = lambda door, body: body
        self.asked: dict[str, int] = {}
        self.answered: dict[str, str] = {}
        self._codes: dict[str, dict[str, str]] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[LocalProvider]:
        doors = {
            ".well-known/openid-configuration": self._discovery,
            "keys": self._keys,
            "authorize": self._authorize,
            "token": self._token,
        }
        routes = [
            Route(f"/{path}", self._door(door), methods=["GET", "POST"]) for path, door in doors.items()
        ]
        listener = bind("127.0.0.1", 0)
        self.url = url_of("127.0.0.1", listener.getsockname()[1])
        serving = Serving(Starlette(routes=routes), listener)
        await serving.listening.wait()
        try:
            yield self
        finally:
            await serving.stop()
            listener.close()

    def _door(self, answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def counted(request: Request) -> Response:
            name = request.url.path.rpartition("/")[2]
            self.asked[name] = self.asked.get(name, 0) + 1
            if name in self.broken:
                return Response("sorry", 500)
            made: Response = await answer(request)
            body = self.change(name, bytes(made.body))
            return made if body == made.body else Response(body, made.status_code)

        return counted

    async def _discovery(self, _: Request) -> Response:
        about = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=1",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        return JSONResponse({**about, **self.about})

    async def _keys(self, _: Request) -> Response:
        keys = [
            key.as_dict(private=False) if isinstance(key, RSAKey | ECKey) else key for key in self.published
        ]
        return JSONResponse({"keys": keys})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe()
        self._codes[code] = asked
        answer = {"code": code, "state": asked["state"], **self.answered}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        asked = self._codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked is None or challenge.decode().rstrip("=") != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if self._client(request, form) != (CLIENT, SECRET) or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_client"}, 401)
        now = int(self.clock.now())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.claims,
        }
        told = {name: value for name, value in claims.items() if value is not None}
        token = jwt.encode(self.header, told, self.key, [self.header["alg"]])
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": self.rewrite(token)})

    def _client(self, request: Request, form: dict[str, str]) -> tuple[str, str]:
        scheme, _, pair = request.headers.get("authorization", "").partition(" ")
        if scheme != "Basic":
            return form.get("client_id", ""), form.get("client_secret", "")
        id, _, secret = base64.b64decode(pair).decode().partition(":")
        return unquote_plus(id), unquote_plus(secret)


class Browser:
    """A browser at a server that is known as ``PUBLIC``: it keeps cookies and goes where it is sent.

    Args:
        server: The server.
    """

    def __init__(self, server: Server) -> None:
        self._http = httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60)
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask for a page."""
        return self.send("GET", path, **{"accept": "text/html,*/*;q=0.8", **headers})

    def send(self, method: str, path: str, json: Any = None, **headers: str) -> httpx.Response:
        """Send a request with the cookies, and keep those that come back."""
        held = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"host": urlsplit(PUBLIC).netloc, **({"cookie": held} if held else {}), **headers}
        raw = {name.encode(): value.encode("latin-1") for name, value in sent.items()}
        answer = self._http.request(method, path, json=json, headers=raw)
        for line in answer.headers.get_list("set-cookie"):
            self.set_cookies.append(line)
            for name, morsel in SimpleCookie(line).items():
                self.cookies.pop(name, None)
                if morsel["max-age"] != "0":
                    self.cookies[name] = morsel.value
        return answer

    def to_provider(self, path: str = "/login") -> str:
        """Begin to sign in, and return where the provider sends back to, as a path."""
        begun = self.get(path)
        assert begun.status_code == 303, begun.text
        back = httpx.get(begun.headers["location"], trust_env=False, timeout=60)
        assert back.headers["location"].startswith(f"{PUBLIC}/login/callback?"), back.text
        return back.headers["location"].removeprefix(PUBLIC)

    def sign_in(self, path: str = "/login") -> httpx.Response:
        """Sign in at the provider, and return what the server says to that."""
        return self.get(self.to_provider(path))


def query_of(url: str) -> dict[str, str]:
    """What a URL asks."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
