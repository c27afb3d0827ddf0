"""Cron expressions of a megabyte: each used to take a second to parse, at each of its times, and stayed in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from signoff.engine.timers.cron import LONGEST_CRON, check_cron
from signoff.errors import InvalidValue
from signoff.records import NewSchedule
from signoff.server import Role
from signoff.stores.remote.store import RemoteStore
from tests import worker_keys
from tests.server.conftest import app_in, kind, serving
from tests.server.keyed import keyed
from tests.support import OnThread

LONG = f"{','.join(str(n % 60) for n in range(200_000))} * * * *"


def test_a_long_expression_is_refused_unread_and_not_echoed() -> None:
    for cron, timezone, field in ((LONG, "UTC", "cron"), ("* * * * *", "Europe/" * 100_000, "timezone")):
        with pytest.raises(InvalidValue, match="characters, more than") as refused:
            check_cron(cron, timezone)
        assert refused.value.path == field
        assert len(str(refused.value)) < 200


def test_an_expression_that_names_every_minute_hour_and_day_is_taken() -> None:
    fields = [
        ",".join(str(n) for n in range(low, high)) for low, high in ((0, 60), (0, 24), (1, 32), (1, 13))
    ]
    cron = " ".join([*fields, ",".join(str(n) for n in range(7))])
    assert len(cron) < LONGEST_CRON
    check_cron(cron, "Europe/Berlin")


def test_every_door_refuses_it(tmp_path: Path) -> None:
    with OnThread(lambda: keyed(tmp_path)) as here, here.service("ci", [Role.OPERATOR]) as ci:
        refused = ci.post("/v1/schedules", json={"id": "long", "workflow": "echo", "cron": LONG})
        assert (refused.status_code, kind(refused)) == (422, "InvalidValue")
        assert len(refused.content) < 1_000

    async def put(url: str) -> None:
        store = RemoteStore(url, key=worker_keys.SECRET)
        await store.open()
        try:
            with pytest.raises(InvalidValue, match="characters, more than"):
                await store.put_schedule(
                    NewSchedule("long", "echo", "default", '{"args":[]}', LONG, "UTC", next_at=4e9)
                )
        finally:
            await store.close()

    folder = tmp_path / "other"
    folder.mkdir()
    with OnThread(lambda: serving(app_in(folder), worker_keys=worker_keys.KEYS)) as server:
        asyncio.run(put(server.url))
