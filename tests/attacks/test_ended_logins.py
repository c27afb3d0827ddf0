"""A stream that was opened with a login ends with that login."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from signoff.records import Token, TokenKind
from signoff.records.paging import TokenFilter
from signoff.server.auth.authenticators import RECHECK_SECONDS
from tests.server.conftest import start
from tests.server.oidc_world import World, world
from tests.server.provider import PUBLIC, Browser
from tests.support import OnThread

HOST = PUBLIC.removeprefix("https://")
IDLE_SECONDS = 900.0
PATIENCE_SECONDS = 60.0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for module in ("routes.run_events", "services"):  # a stream looks at its login as it sends something
        monkeypatch.setattr(f"signoff.server.{module}.PING_SECONDS", 0.05)
    with OnThread(lambda: world(tmp_path, idle_seconds=IDLE_SECONDS)) as made:
        made.provider.claims["roles"] = ["operator"]
        yield made


@contextmanager
def signed_in(here: World) -> Iterator[tuple[Browser, httpx.Client]]:
    """A browser, and a client for streams that has the cookie which the browser has now."""
    with here.browser() as browser:
        assert browser.sign_in().status_code == 303
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        with httpx.Client(
            base_url=here.server.url,
            headers={"host": HOST, "cookie": cookie},
            trust_env=False,
            verify=False,
            timeout=PATIENCE_SECONDS,
        ) as http:
            yield browser, http


@pytest.mark.parametrize("how", ["signed out", "revoked", "expired"])
def test_the_streams_of_a_login_end_with_it(here: World, how: str) -> None:
    with signed_in(here) as (browser, http):
        start(http, "listen", "r")
        with (
            http.stream("GET", "/v1/runs/r/events") as run,
            http.stream("GET", "/v1/questions/events") as inbox,
        ):
            assert (run.status_code, inbox.status_code) == (200, 200)
            lines = run.iter_lines()
            assert next(line for line in lines if line.startswith("data"))
            if how == "signed out":
                assert browser.send("POST", "/logout").status_code == 200
            elif how == "revoked":
                asyncio.run(here.app.store.revoke_token(login(here).id))
            here.clock.advance(12 * 3600 if how == "expired" else 60)
            assert "event: end" not in list(lines)
            list(inbox.iter_lines())  # it ends, or this does not
        assert http.get("/v1/me").status_code == 401


def test_a_login_is_not_idle_while_a_stream_is_open(here: World) -> None:
    with signed_in(here) as (_, http):
        start(http, "listen", "r")
        with http.stream("GET", "/v1/runs/r/events") as run:
            lines = run.iter_lines()
            assert next(line for line in lines if line.startswith("data"))
            for _ in range(3):
                before = here.clock.now()
                here.clock.advance(IDLE_SECONDS - RECHECK_SECONDS)
                give_up_at = time.monotonic() + PATIENCE_SECONDS
                while (login(here).used_at or 0.0) <= before:
                    assert time.monotonic() < give_up_at, "the stream does not use the login"
        assert http.get("/v1/me").status_code == 200
        here.clock.advance(IDLE_SECONDS)
        assert http.get("/v1/me").status_code == 401


def login(here: World) -> Token:
    [token] = asyncio.run(here.app.store.list_tokens(TokenFilter(TokenKind.LOGIN))).items
    return token
