"""The action of a question is stored once, and complete for all readers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from signoff import Action, Context, Signoff
from signoff.people.questions.question import Question
from signoff.records.question_text import packed, unpacked
from tests.flows.worlds import WORLDS, store_of
from tests.support import in_asyncio, running, until

TEXT = "x" * 600_000


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_the_arguments_of_a_large_call_are_kept_once(tmp_path: Path, kind: str) -> None:
    async def work(ctx: Context) -> int:
        done = Action("pay", {"text": TEXT}, about="once")
        answer = await ctx.wait_for_user("Pay?", proposal={"text": TEXT}, action=done)
        return len(answer.proposal["text"])

    async with store_of(kind, tmp_path) as make:
        app = Signoff(make())
        app.workflow(work)
        async with running(app) as client:

            async def asked() -> Any:
                return (await client.questions()).items

            run = await client.start(work)
            (question,) = await until(app, asked)
            seen = json.loads(question.data)
            assert seen["action"]["arguments"] == seen["proposal"] == {"text": TEXT}
            assert list(seen["action"]) == ["tool", "arguments", "about"]
            if kind == "sqlite":
                with closing(sqlite3.connect(tmp_path / "signoff.db")) as database:
                    kept = database.execute("SELECT max(length(data)) FROM promises").fetchone()
                assert 600_000 < kept[0] < 602_000
            await client.answer(question.id, True, user_id="ana", digest=seen["digest"])
            assert await run.result(60) == 600_000


def test_a_question_that_is_read_is_the_one_that_was_written() -> None:
    arguments = {"text": "é" * 5_000, "n": 1.0}
    made = Question.make("Pay?", proposal=arguments, action=Action("pay", arguments, about={"a": 1}))
    written = made.to_json()
    assert len(written) < 7_000
    assert Question.from_json(written) == made
    assert Question.from_json(written).digest == made.digest == json.loads(unpacked(written))["digest"]


@pytest.mark.parametrize(
    "parts",
    [
        {"text": "x" * 5_000, "action": None},
        {"text": "x" * 5_000, "proposal": {"a": 1}},
        {"text": "x" * 5_000, "action": {"tool": "t", "arguments": {}}},
        {"text": "short", "proposal": {"a": 1}, "action": {"tool": "t", "arguments": {"a": 1}}},
    ],
)
def test_other_questions_are_written_as_they_are(parts: dict[str, Any]) -> None:
    text = json.dumps(parts)
    assert packed(text) is text
    assert unpacked(text) is text
