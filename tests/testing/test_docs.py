"""The examples of docs/testing.md run as documented."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from signoff import Context, Signoff, current_step
from signoff.agents import Durable
from signoff.testing import MemoryStore
from tests.support import in_asyncio

DOCS = Path(__file__).parents[2] / "docs" / "testing.md"


class FakeBank:
    def __init__(self) -> None:
        self.charges: dict[str, int] = {}

    def charge(self, amount: int) -> None:
        self.charges[current_step().idempotency_key] = amount


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The shop that the examples import."""
    module: Any = types.ModuleType("shop")
    module.app = Signoff(MemoryStore())
    module.FakeBank = FakeBank
    module.bank = FakeBank()

    @module.app.workflow
    async def refund_flow(ctx: Context, order: str, amount: int) -> str:
        await ctx.step("charge", lambda: module.bank.charge(amount))
        answer = await ctx.wait_for_user(f"Refund {order}?", metadata={"amount": amount}, timeout_seconds=1e6)
        return "refunded" if answer.approved else "kept"

    module.refund_flow = refund_flow
    monkeypatch.setitem(sys.modules, "shop", module)
    return module


def _examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


def test_the_first_example_passes(shop: Any) -> None:
    scope: dict[str, Any] = {}
    exec(_examples()[0], scope)
    scope["test_a_refund_waits_for_a_person_and_survives_a_crash"]()
    assert len(shop.bank.charges) == 1


def test_the_example_of_a_crash_at_every_place_passes(shop: Any) -> None:
    [example] = [example for example in _examples() if "crash_everywhere" in example]
    exec(example, {"asyncio": __import__("asyncio"), "app": shop.app, "refund_flow": shop.refund_flow})


def test_the_examples_inside_a_test_pass(shop: Any) -> None:
    inside = [example for example in _examples() if "import" not in example]
    body = "\n".join(inside).replace("\n", "\n        ")
    code = (
        "import asyncio\nfrom datetime import timedelta\nfrom shop import app, refund_flow\n"
        "from signoff.testing import environment\n"
        "async def scenario():\n    async with environment(app) as env:\n"
        f"        if False:\n            pass\n        {body}\nasyncio.run(scenario())\n"
    )
    compile(code, str(DOCS), "exec")
    [by_hand] = [example for example in inside if "env.idle" in example]
    exec(code.replace(body, by_hand.replace("\n", "\n        ")), {})


@in_asyncio
async def test_the_example_with_an_agent_passes(shop: Any) -> None:
    shop.support = Agent("openai:gpt-5", name="support", capabilities=[Durable()], defer_model_check=True)

    @shop.support.tool_plain(requires_approval=True)
    async def refund(order: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return "refunded"

    @shop.app.workflow
    async def triage(ctx: Context, order: str) -> str:
        return (await shop.support.run(f"What about {order}?")).output

    shop.triage = triage
    [example] = [example for example in _examples() if "override" in example]
    scope: dict[str, Any] = {}
    exec(example, scope)
    await scope["scenario"]()
