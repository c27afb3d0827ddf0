"""Each method of the service that returns records checks its id, and shows its result."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.server.redacted_service import RedactedBackend
from signoff.service.service import LocalBackend
from signoff.testing.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

FOLLOWING = {"follow", "follow_live", "timeline"}
"""They read ``_events``, which ``RedactedBackend`` overrides."""

SHOWN_OTHERWISE = FOLLOWING | {"open", "close", "shown", "read_journal", "list_questions"}
"""``list_questions`` is made of ``list_promises``; ``RedactedBackend`` overrides the readers of journals."""


def public_methods(kind: type[Any]) -> set[str]:
    def returns_later(method: object) -> bool:
        return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)

    return {name for name, _ in inspect.getmembers(kind, returns_later) if not name.startswith("_")}


def test_what_is_no_operation_is_shown_otherwise() -> None:
    methods = public_methods(LocalBackend)
    plain = {name for name in methods if not hasattr(getattr(LocalBackend, name), "__wrapped__")}
    assert plain == SHOWN_OTHERWISE
    assert (plain - FOLLOWING - {"open", "close"}) | {"_events"} <= vars(RedactedBackend).keys()


async def test_an_operation_shows_its_result() -> None:
    class Loud(LocalBackend):
        async def shown(self, result: Any) -> Any:
            return "shown", result

    assert await Loud(MemoryStore()).list_groups() == ("shown", [])


@pytest.mark.parametrize("id", [1, None, b"r", ["r"]])
async def test_an_id_is_a_text(id: Any) -> None:
    service = LocalBackend(MemoryStore())
    for read in (service.get_run, service.read_journal, service.get_promise):
        with pytest.raises(InvalidValue, match="_id"):
            await read(id)
