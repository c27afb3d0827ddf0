"""An operator's key for one group cannot change the schedules of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from signoff.server import Role
from tests.server.conftest import kind
from tests.server.keyed import Keyed, keyed
from tests.support import OnThread

PAYROLL = {"id": "nightly", "workflow": "echo", "args": [1], "cron": "0 3 * * *", "group": "finance"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path)) as here:
        yield here


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
def test_it_neither_overwrites_nor_pauses_nor_deletes_them(here: Keyed, role: Role) -> None:
    with (
        here.service("boss", [Role.OPERATOR]) as boss,
        here.service("ci", [role], start_groups=["test"]) as ci,
    ):
        assert boss.post("/v1/schedules", json=PAYROLL).status_code == 200
        before = boss.get("/v1/schedules/nightly").json()
        refused = [ci.post("/v1/schedules", json={**PAYROLL, "group": "test", "args": [2]})]
        refused += [ci.post(f"/v1/schedules/nightly/{what}") for what in ("pause", "resume", "delete")]
        assert [(each.status_code, kind(each)) for each in refused] == [(403, "AccessDenied")] * 4
        assert "'nightly' of group 'finance'" in refused[0].json()["detail"]
        assert boss.get("/v1/schedules/nightly").json() == before
        own = {**PAYROLL, "id": "own", "group": "test"}
        assert [ci.post("/v1/schedules", json=own).status_code for _ in range(2)] == [200, 200]
        answers = [ci.post(f"/v1/schedules/own/{what}") for what in ("pause", "resume", "delete", "delete")]
        assert [each.status_code for each in answers] == [200, 200, 200, 404]
