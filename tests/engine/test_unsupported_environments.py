"""Clients and workers refuse processes in which they would hang."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from signoff import AsyncClient, Client, Signoff
from signoff.errors import UnsupportedEnvironment
from signoff.testing import MemoryStore
from tests.support import in_asyncio


@pytest.fixture(params=[("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A library that has patched what waits for sockets, in gevent's words and in eventlet's."""
    module, name = request.param
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{name: lambda part: part == "select"}))
    return module.partition(".")[0]


def test_a_process_whose_threads_are_patched_is_refused(library: str) -> None:
    app = Signoff(MemoryStore())
    with pytest.raises(UnsupportedEnvironment, match=f"^Client needs threads.*{library} has patched"):
        Client(app)
    with (
        pytest.raises(UnsupportedEnvironment, match=f"^a worker needs threads.*{library} has patched"),
        app.worker(),
    ):
        pass


@in_asyncio
async def test_async_code_in_such_a_process_is_refused(library: str) -> None:
    app = Signoff(MemoryStore())
    for opens in (AsyncClient(app), app.worker()):
        with pytest.raises(UnsupportedEnvironment, match=f"{library} has patched"):
            async with opens:
                pass


def test_an_event_loop_that_is_not_asyncios_is_refused() -> None:
    """As Trio's, whose tasks are driven in the same way."""
    app = Signoff(MemoryStore())

    async def enter(opens: Any) -> None:
        async with opens:
            pass

    for opens, what in ((AsyncClient(app), "AsyncClient"), (app.worker(), "a worker")):
        with pytest.raises(UnsupportedEnvironment, match=f"^{what} needs a running event loop of asyncio"):
            enter(opens).send(None)
