"""JSON with a duplicate key in an object: a proxy or a log on the way may have read the other value."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from joserfc import jws

from signoff.records import PromiseState
from tests import worker_keys
from tests.notifications.slack_stage import asked, stage
from tests.server.conftest import kind
from tests.server.keyed import keyed
from tests.server.oidc_world import World, world
from tests.server.provider import RSA, Browser
from tests.support import OnThread, in_asyncio


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with OnThread(lambda: world(tmp_path)) as made:
        yield made


@pytest.fixture
def browser(here: World) -> Iterator[Browser]:
    with here.browser() as opened:
        yield opened


FIRST = {
    "openid-configuration": b'{"token_endpoint": "https://evil.example/token", ',
    "keys": b'{"keys": [], ',
    "token": b'{"id_token": "x.y.z", ',
}
"""What stands before the real value, at each door of the provider."""


@pytest.mark.parametrize("door", FIRST)
def test_a_provider_reply_with_a_duplicate_key_is_refused(here: World, browser: Browser, door: str) -> None:
    assert browser.sign_in().status_code == 303
    here.clock.advance(4000)
    here.provider.change = lambda name, body: FIRST[name] + body[1:] if name == door else body
    with here.browser() as other:
        begun = other.get("/login")
        if door == "openid-configuration":  # the one that it has said before is good enough to begin with
            assert begun.status_code == 303
            assert here.provider.asked[door] == 2
        else:
            assert other.sign_in().status_code == 503
            assert other.send("GET", "/v1/me").status_code == 401


@pytest.mark.parametrize("part", ["header", "claims"])
def test_an_id_token_with_a_duplicate_key_is_refused(here: World, browser: Browser, part: str) -> None:
    """Signed by the provider all the same: something between it and its signer may have added the first."""

    def doubled(token: str) -> str:
        head, claims = (base64.urlsafe_b64decode(each + "==") for each in token.split(".")[:2])
        if part == "claims":
            return jws.serialize_compact(json.loads(head), b'{"email": "boss@example.com",' + claims[1:], RSA)
        twice = base64.urlsafe_b64encode(b'{"alg": "none",' + head[1:]).rstrip(b"=").decode()
        return ".".join([twice, *token.split(".")[1:]])

    here.provider.rewrite = doubled
    assert browser.sign_in().status_code == 403
    assert browser.send("GET", "/v1/me").status_code == 401


@in_asyncio
async def test_a_click_that_says_something_twice_answers_nothing() -> None:
    async with stage() as on:
        value = await asked(on)
        action = {"action_id": "signoff_approve", "value": value, "action_ts": "1.5"}
        payload = {
            "type": "block_actions",
            "user": {"id": "U1", "team_id": "T1"},
            "actions": [action],
            "response_url": f"{on.slack.url}/response",
        }
        written = json.dumps(payload)
        twice_inside = json.dumps({**payload, "actions": [{**action, "value": '{"id": "x", ' + value[1:]}]})
        bodies = [
            urlencode({"payload": '{"user": {"id": "U2", "team_id": "T1"}, ' + written[1:]}),
            urlencode({"payload": written.replace('"id": "U1"', '"id": "U2", "id": "U1"')}),
            urlencode({"payload": twice_inside}),
            urlencode([("payload", written), ("payload", written)]),
            urlencode({"payload": "[" * 5_000}),
        ]
        for body in bodies:
            refused = await on.post(body.encode())
            assert (refused.status_code, kind(refused)) == (422, "InvalidValue"), body[:100]
        assert await on.state() is PromiseState.PENDING
        assert (await on.post(urlencode({"payload": written}).encode())).status_code == 200
        assert await on.state() is PromiseState.RESOLVED


BATCH = {"client": "c", "floor": 0, "operations": []}


@pytest.mark.parametrize(
    "body",
    [
        '{"client": "other", ' + json.dumps(BATCH)[1:],
        json.dumps(BATCH)[:-1] + ', "operations": []}',
        json.dumps(BATCH).replace("[]", '[{"id": 1, "namespace": "a", "namespace": "default", "do": "due"}]'),
        "[" * 100_000,
        "{",
        "",
        "\ud800",
    ],
    ids=["client", "operations", "operation", "deep", "open", "empty", "surrogate"],
)
def test_a_batch_of_a_worker_that_says_something_twice_is_refused(tmp_path: Path, body: str) -> None:
    with (
        OnThread(lambda: keyed(tmp_path, worker_keys=worker_keys.KEYS)) as here,
        here.http(worker_keys.SECRET) as worker,
    ):
        content = body.encode(errors="surrogatepass")
        refused: httpx.Response = worker.post(
            "/v1/store", content=content, headers={"content-type": "application/json"}
        )
    assert (
        refused.status_code in (415, 422)
        if not body
        else (refused.status_code, kind(refused))
        == (
            422,
            "InvalidValue",
        )
    )
