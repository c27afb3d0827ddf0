"""The reviewer: the model decides when to ask a person, and a question survives its process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from examples.website_summary.processes import REPOSITORY
from tests.agents.openai_server import provider
from tests.forks import run
from tests.support import in_asyncio


def reviewed(folder: Path, text: str, said: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Review a text; ``said`` is what a person types, ``more`` its environment."""
    (folder / "note.txt").write_text(text)
    kept = {name: value for name, value in os.environ.items() if name != "SIGNOFF_DEMO_MODEL"}
    environ = kept | {
        "PYTHONPATH": str(REPOSITORY),
        "SIGNOFF_STORE": f"sqlite:///{folder / 'signoff.db'}",
        **more,
    }
    command = ["examples.document_review", "note.txt"]
    return run(command, cwd=folder, env=environ, said=said)


@pytest.mark.parametrize(
    ("text", "said", "end"),
    [
        ("All is said.", "", "publish: it is complete\n\nAll is said.\n"),
        (
            "It is on TBD.",
            "Monday\npublish\n",
            "publish: the open points are filled in\n\nIt is on Monday.\n",
        ),
        ("It is on TBD.", "\nhold\n", "hold: it has an open point\n\nIt is on TBD.\n"),
        (
            "It is on TBD.",
            "Monday\nbanana\nFriday\npublish\n",
            "the open points are filled in\n\nIt is on Friday.\n",
        ),
    ],
    ids=["nothing to ask", "answered", "held", "no such verdict"],
)
def test_a_person_is_asked_only_where_the_model_cannot_know(
    tmp_path: Path, text: str, said: str, end: str
) -> None:
    done = reviewed(tmp_path, text, said)
    assert done.returncode == 0, done.stderr
    assert "follows a script" in done.stdout
    assert done.stdout.endswith(end)


def test_an_unanswered_review_is_kept_for_the_next_process(tmp_path: Path) -> None:
    left = reviewed(tmp_path, "It is on TBD.", "")
    assert (left.returncode, "The review waits" in left.stderr) == (1, True)
    assert reviewed(tmp_path, "It is on TBD.", "Monday\npublish\n").stdout.endswith("It is on Monday.\n")


@in_asyncio
async def test_a_model_behind_http_asks_and_reads_what_was_answered(tmp_path: Path) -> None:
    asks = {"message": "When?", "fields": [{"name": "day", "question": "Which day?"}]}
    review = {"verdict": "hold", "reason": "I am not sure", "text": "It is on Monday, they say."}
    async with provider([("ask_user", asks)], [("final_result", review)]) as llm:
        done = await asyncio.to_thread(reviewed, tmp_path, "It is on TBD.", "Monday\n", **llm.environment)
        assert done.returncode == 0, done.stderr
        assert "script" not in done.stdout
        assert done.stdout.endswith("hold: I am not sure\n\nIt is on Monday, they say.\n")
        assert len(llm.requests) == 2
        assert "It is on TBD." in json.dumps(llm.requests[0]["messages"])
        read = llm.requests[1]["messages"][-1]
        assert (read["role"], json.loads(read["content"])) == ("tool", {"day": "Monday"})
