"""Checks whether a store takes writes: one at a time, and its cause soon."""

from __future__ import annotations

import asyncio

import pytest

from signoff.errors import StoreUnavailable
from signoff.stores.shared import write_checks
from signoff.stores.shared.write_checks import WriteCheck
from tests.support import in_asyncio


@in_asyncio
async def test_concurrent_callers_share_a_check_and_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_checks, "SOON_SECONDS", 0.01)
    trouble: list[str] = []
    may_end = asyncio.Event()
    begun = 0

    async def check() -> None:
        nonlocal begun
        begun += 1
        await may_end.wait()

    checks = WriteCheck("here", lambda: trouble[0] if trouble else None)
    patient = asyncio.create_task(checks.look(check))
    await asyncio.sleep(0.05)
    assert not patient.done(), "no cause is known"
    trouble.append("too many clients already")
    for _ in range(5):
        with pytest.raises(StoreUnavailable, match="too many clients already"):
            await checks.look(check)
    impatient = asyncio.create_task(checks.look(check))
    await asyncio.sleep(0)
    impatient.cancel()
    trouble.clear()
    assert begun == 1
    may_end.set()
    await patient
    await checks.look(check)
    assert begun == 2
