"""The README's workflow runs unchanged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.website_summary.processes import REPOSITORY
from signoff import Client, Signoff
from signoff.agents import Approve, Finished
from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio, running


def blocks() -> list[str]:
    """The programs that the README shows."""
    shown = (REPOSITORY / "README.md").read_text().split("```python\n")[1:]
    return [each.partition("```")[0] for each in shown]


PROMPT = "Refund 70.00? [y/n] "


@pytest.mark.parametrize(
    ("typed", "printed"),
    [("y", "paid 70.00 back for order o-1\napproved by ana\n"), ("n", "rejected by ana\n")],
)
def test_the_program_of_the_readme_survives_kill_9_and_pays_once(
    tmp_path: Path, typed: str, printed: str
) -> None:
    (tmp_path / "refund.py").write_text(blocks()[0])
    program = [sys.executable, "refund.py"]
    with subprocess.Popen(program, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.read(len(PROMPT)).decode() == PROMPT
        first.kill()
    app = Signoff(f"sqlite:///{tmp_path}/signoff.db")
    with closing(app), Client(app) as client:
        (question,) = client.questions().items
        assert question.id == "refund-o-1.1"  # as in the README's commands
        assert json.loads(question.data)["text"] == "Refund 70.00 for order o-1?"

    def again(said: str) -> str:
        done = subprocess.run(
            program, cwd=tmp_path, input=said, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    assert again(f"{typed}\n") == PROMPT + printed
    assert again("") == printed.splitlines(keepends=True)[-1]


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
    assert "700 cents of o-1 were refunded" in str(script.asked[1])


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
