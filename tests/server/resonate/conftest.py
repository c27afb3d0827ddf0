"""A server that speaks the durable promise protocol, for all tests of a module, and databases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from signoff.server.resonate.delivery import Delivery
from tests.postgres.databases import migrated_database
from tests.server.resonate.speaker import Speaker, speaking
from tests.support import OnThread


@pytest.fixture
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speaker]:
    serving = OnThread(lambda: speaking(tmp_path_factory.mktemp("resonate")))
    with serving as speaker, speaker:
        yield speaker


@pytest.fixture
def elapse(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that lets the loop's clock go on for deliveries."""
    ahead = 0.0

    def now(_: Delivery) -> float:
        return time.monotonic() + ahead

    def go_on(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(Delivery, "now", property(now))
    return go_on


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], AbstractContextManager[str]]:
    """Make a database. The context is its URL."""
    if request.param == "postgres":
        return migrated_database
    return lambda: nullcontext(f"sqlite:///{tmp_path}/signoff.db")


@pytest.fixture
def store(database: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """The URL of a database without rows."""
    with database() as url:
        yield url
