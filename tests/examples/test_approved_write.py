"""The planner: nothing is written without approval, and a question survives its process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from examples.website_summary.processes import REPOSITORY
from tests.agents.openai_server import Provider, Reply, provider
from tests.forks import run
from tests.support import in_asyncio

PLAN = "# Plan\n\n1. Move\n2. Inform the team\n"


def planner(folder: Path, said: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the example in a folder; ``said`` is what a person types, ``more`` its environment."""
    kept = {name: value for name, value in os.environ.items() if name != "SIGNOFF_DEMO_MODEL"}
    environ = kept | {
        "PYTHONPATH": str(REPOSITORY),
        "SIGNOFF_STORE": f"sqlite:///{folder.parent / 'signoff.db'}",
        **more,
    }
    command = ["examples.approved_write", *arguments]
    return run(command, cwd=folder, env=environ, said=said)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "office"
    made.mkdir()
    (made / "rooms.txt").write_text("many")
    return made


@pytest.mark.parametrize(
    ("said", "text", "reply"),
    [
        ("a\n", PLAN, "plan.md was written"),
        ("e\nStay here.\n", "Stay here.\n", "plan.md was written"),
        ("we stay\n", None, "I wrote nothing: we stay"),
        ("banana\n", None, "I wrote nothing: banana"),
    ],
)
def test_what_is_written_is_what_was_approved(folder: Path, said: str, text: str | None, reply: str) -> None:
    done = planner(folder, said, "Move")
    assert done.returncode == 0, done.stderr
    assert "follows a script" in done.stdout
    assert '"name": "plan.md"' in done.stdout
    assert done.stdout.endswith(f"{reply}\n")
    plan = folder / "plan.md"
    assert (plan.read_text() if plan.exists() else None) == text


def test_an_unanswered_turn_is_kept_for_the_next_process(folder: Path) -> None:
    left = planner(folder, "", "Move")
    assert left.returncode == 1
    assert "The turn is kept" in left.stderr
    assert not (folder / "plan.md").exists()
    done = planner(folder, "a\nno more plans\n", "Move again")
    assert done.returncode == 0, done.stderr
    assert (folder / "plan.md").read_text() == PLAN
    assert done.stdout.endswith("I wrote nothing: no more plans\n")


def test_it_takes_one_wish(folder: Path) -> None:
    assert planner(folder, "", "Move", "the", "office").returncode == 2


# With a model behind HTTP

PROPOSED: list[Reply] = [[("list_files", {})], [("write_file", {"name": "plan.md", "text": PLAN})]]


async def planner_of(llm: Provider, folder: Path, said: str, wish: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(planner, folder, said, wish, **llm.environment)


def read_by(llm: Provider) -> str:
    """What the model has read last."""
    last = llm.requests[-1]["messages"][-1]
    assert last["role"] in ("tool", "user")
    return json.dumps(llm.requests[-1]["messages"])


@in_asyncio
@pytest.mark.parametrize(
    ("said", "text", "read"),
    [
        ("a\n", PLAN, "plan.md was written"),
        ("e\nStay here.\n", "Stay here.\n", "Stay here."),
        ("we stay\n", None, "we stay"),
    ],
)
async def test_a_model_behind_http_reads_what_was_decided(
    folder: Path, said: str, text: str | None, read: str
) -> None:
    async with provider(*PROPOSED, "That was it.") as llm:
        done = await planner_of(llm, folder, said, "Move")
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("That was it.\n")
        assert "script" not in done.stdout
        plan = folder / "plan.md"
        assert (plan.read_text() if plan.exists() else None) == text
        assert len(llm.requests) == 3
        assert read in read_by(llm)
        assert "rooms.txt" in read_by(llm)


@in_asyncio
async def test_a_model_behind_http_is_not_asked_again_by_the_next_process(folder: Path) -> None:
    async with provider(*PROPOSED, "Written.", "Nothing more.") as llm:
        left = await planner_of(llm, folder, "", "Move")
        assert (left.returncode, len(llm.requests)) == (1, 2), left.stderr
        assert not (folder / "plan.md").exists()
        done = await planner_of(llm, folder, "a\n", "Thanks")
        assert done.returncode == 0, done.stderr
        assert (folder / "plan.md").read_text() == PLAN
        assert done.stdout.endswith("Nothing more.\n")
        assert len(llm.requests) == 4
        roles = [each["role"] for each in llm.requests[-1]["messages"] if each["role"] != "system"]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
