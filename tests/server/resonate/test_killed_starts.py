"""Rule: another server soon starts the run of a call whose server died while it started it."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from signoff.records.tasks import TaskState
from signoff.server.resonate.durable_promises import Details
from signoff.server.resonate.promises import to_invocation
from signoff.server.resonate.signoff_groups import SignoffGroups
from signoff.stores.contract.operations import Operation
from signoff.stores.shared.outages import Outages
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import StoreWrapper
from signoff.testing import VirtualClock
from tests.server.resonate.sdk_programs import new_app, settled
from tests.server.resonate.speaker import NEVER
from tests.support import in_asyncio

CALL = {"func": "double", "args": [21], "kwargs": {}, "version": 1}


class Dead(StoreWrapper):
    """Ends its server before it creates a run."""

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        if operation.name == "create_run":
            raise asyncio.CancelledError
        return await super().perform(operation, arguments)


@in_asyncio
async def test_another_server_starts_the_run_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outages, "held_for", lambda *_: 0.0)  # as if both servers ran for long
    leases = VirtualClock()
    store = SqliteStore(tmp_path / "signoff.db", lease_clock=leases)
    async with new_app(store).worker():
        param = {"data": b64encode(json.dumps(CALL).encode()).decode()}
        details = Details(param, {"resonate:target": "poll://any@signoff-workers"}, NEVER)
        await store.open_invocation(to_invocation("call", details, int(store.clock.now() * 1000)))
        await asyncio.gather(SignoffGroups(Dead(store)).serve(), return_exceptions=True)
        assert (await store.get_task("call")).state is TaskState.ACQUIRED
        leases.advance(6)
        await store.due()
        serving = asyncio.create_task(SignoffGroups(store).serve())
        assert (await settled(store, "call")).value == "42"
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    await store.close()
