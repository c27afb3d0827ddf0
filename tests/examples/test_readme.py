"""The workflow that the README shows runs as it stands there."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from examples.website_summary.processes import REPOSITORY
from signoff import Client
from signoff.agents import Approve, Finished
from tests.agents.scripts import Script, calls, says
from tests.examples.servers import until
from tests.support import in_asyncio, running


def blocks() -> list[str]:
    """The programs that the README shows."""
    shown = (REPOSITORY / "README.md").read_text().split("```python\n")[1:]
    return [each.partition("```")[0] for each in shown]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that a reader gets who copies the code."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "shop.py"
    file.write_text(blocks()[0])
    spec = importlib.util.spec_from_file_location("shop", file)
    assert spec is not None
    assert spec.loader is not None
    shop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shop)
    yield shop
    shop.app.close()


@pytest.mark.parametrize(
    ("approved", "result", "paid"),
    [(True, "approved by ana", [("o-1", 7000)]), (False, "rejected by ana: as discussed", [])],
)
def test_the_workflow_of_the_readme_pays_back_what_is_approved_and_nothing_else(
    shop: ModuleType, approved: bool, result: str, paid: list[tuple[str, int]]
) -> None:
    with Client(shop.app) as client, shop.app.worker():
        run = shop.app.start(shop.refund, "o-1", 7000, id="refund-o-1")
        question = until(lambda: client.questions(run_id="refund-o-1").items)[0]
        assert question.id == "refund-o-1.2"  # as in the README's commands
        asked = json.loads(question.data)
        assert (asked["text"], asked["metadata"]) == ("Refund 70.00 for order o-1?", {"customer": "bob"})
        shop.app.answer(question.id, approved, user_id="ana", note="as discussed")
        assert run.result(60) == result
    assert shop.paid == paid


@in_asyncio
async def test_the_agent_of_the_readme_waits_for_an_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = Script(calls(("refund", {"order_id": "o-1", "cents": 700})), says("done"))
    names: dict[str, Any] = {"__name__": "page", "model": script.model}
    exec(blocks()[1].replace('"openai:gpt-5"', "model"), names)
    async with running(names["app"]) as client:
        assert await names["answer"]("Pay it back") == "waits: support wants to call refund"
        (question,) = (await client.questions()).items
        chat = names["app"].conversation("support", session_id="bob")
        turn = await chat.respond(question.id, Approve(), user_id="ana")
        assert isinstance(turn, Finished)
        assert turn.output == "done"
    assert "700 cents of o-1 are paid back" in str(script.asked[1])


@in_asyncio
async def test_the_flow_of_the_readme_keeps_the_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    exec(blocks()[2], names)
    async with running(names["app"]):
        execution = await names["flow"].start("T-001", id="ticket-T-001")
        ((id, asked),) = (await execution.get_pending_interrupts()).items()
        assert asked.question == "Refund ticket T-001?"
        await execution.continue_with(id, False, note="no receipt")
        assert await execution.close() == {"decision": {"approved": False, "note": "no receipt"}}


def test_the_pictures_of_the_readme_are_there_and_small() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (REPOSITORY / "README.md").read_text())
    kept = [file.relative_to(REPOSITORY).as_posix() for file in (REPOSITORY / "docs/pictures").glob("*.webp")]
    assert sorted(shown) == sorted(kept)
    assert all((REPOSITORY / name).stat().st_size < 150_000 for name in shown)
