"""Access tokens of the identity provider: the user of an MCP client is the person who signed in to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from mcp import Client

from tests.server.keyed import client_of
from tests.server.mcp.clients import told, with_client
from tests.server.oidc_world import World, world
from tests.server.provider import CLIENT, NEXT, PUBLIC, RSA
from tests.support import OnThread

RESOURCE = f"{PUBLIC}/mcp"
HOST = {"host": "signoff.example"}


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with OnThread(lambda: world(tmp_path_factory.mktemp("oauth"))) as made:
        yield made


def token(signed: World, key: RSAKey = RSA, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """What the provider issues to a client for a user."""
    now = int(signed.clock.now())
    usual = {
        "iss": signed.provider.url,
        "aud": RESOURCE,
        "sub": "248289",
        "iat": now,
        "exp": now + 300,
        "email": "ana@example.com",
        "email_verified": True,
        "groups": ["finance"],
        "roles": ["operator"],
        **claims,
    }
    said = {name: value for name, value in usual.items() if value is not None}
    return jwt.encode(header or {"alg": "RS256", "kid": "rsa-1", "typ": "at+jwt"}, said, key)


def status(signed: World, bearer: str | None, path: str = "/mcp") -> httpx.Response:
    accept = {"accept": "application/json, text/event-stream"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with client_of(signed.server, bearer) as http:
        if path == "/mcp":
            return http.post(path, json=ping, headers={**accept, **HOST})
        return http.get(path, headers=HOST)


def test_a_client_finds_the_provider_by_the_refusal(signed: World) -> None:
    refusal = status(signed, None)
    assert refusal.status_code == 401
    url = refusal.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
    assert url == f"{PUBLIC}/.well-known/oauth-protected-resource"
    for path in ("", "/mcp"):
        about = status(signed, None, url.removeprefix(PUBLIC) + path).json()
        assert about["resource"] == RESOURCE
        assert about["authorization_servers"] == [signed.provider.url]


def test_the_person_of_a_token_answers_with_their_groups(signed: World, name: str) -> None:
    async def work(client: Client) -> None:
        run = {"workflow": "sign", "args": [["group:finance"]], "run_id": name}
        told(await client.call_tool("start_workflow", run))
        found: list[Any] = []
        while not found:
            found = told(await client.call_tool("list_questions", {"run_id": name}))["questions"]
        shown = told(await client.call_tool("show_question", {"question_id": found[0]["id"]}))
        answer = {"question_id": shown["id"], "value": True, "digest": shown["digest"]}
        assert told(await client.call_tool("answer_question", answer))["settled_by"] == "ana@example.com"

    with_client(work, signed.server.url, token(signed), headers=HOST)


def test_other_peoples_expired_and_forged_tokens_are_refused(signed: World) -> None:
    now = signed.clock.now()
    wrong = {
        "expired": token(signed, exp=int(now) - 120),
        "without an end": token(signed, exp=None),
        "for another resource": token(signed, aud=f"{PUBLIC}/other"),
        "for any resource": token(signed, aud=None),
        "an ID token": token(signed, aud=CLIENT),
        "of another provider": token(signed, iss="https://login.example"),
        "with another's signature": token(signed, NEXT),
        "without a verified address": token(signed, email_verified=False),
        "in a reserved name": token(signed, email="service:bot"),
        "no token": "nothing",
        "unsigned": token(signed).rpartition(".")[0] + ".",
    }
    for kind, each in wrong.items():
        signed.clock.advance(10)  # nobody is held up for trying
        refusal = status(signed, each if kind != "expired" else wrong["expired"])
        assert refusal.status_code == 401, kind


def test_a_token_for_mcp_opens_nothing_else(signed: World) -> None:
    assert status(signed, token(signed)).status_code == 200
    assert status(signed, token(signed), "/v1/runs").status_code == 401


def test_a_token_ends_while_its_call_waits(signed: World) -> None:
    short = token(signed, exp=int(signed.clock.now()) + 30)

    async def work(client: Client) -> None:
        told(await client.call_tool("list_runs", {}))
        signed.clock.advance(3600)
        with pytest.raises(Exception):  # noqa: B017, PT011
            await client.call_tool("list_runs", {})

    with_client(work, signed.server.url, short, headers=HOST)
