"""Runs of a session: workers drive them in order, and poll for nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from signoff import Context, RunState, Signoff
from signoff.errors import IdConflict, InvalidValue, NotFound
from tests.support import in_asyncio, new_app, opened, pauses, running

NEVER_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers and timers act only when the test calls them."""
    monkeypatch.setattr("signoff.engine.worker.worker.LOOK_EVERY_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr("signoff.engine.timers.timers.LOOK_EVERY_SECONDS", NEVER_SECONDS)


def chatty_app(folder: Path, said: list[str]) -> Signoff:
    app = new_app(folder)

    @app.workflow
    async def turn(ctx: Context, text: str) -> str:
        async def say() -> None:
            said.append(f"{text} begins")
            await asyncio.sleep(0)
            said.append(f"{text} ends")

        await ctx.step("say", say)
        if text == "ask":
            await ctx.wait_for_user("And now?", input_type="approval")
        if text == "break":
            raise ValueError(text)
        return f"{text} in {ctx.session_id}"

    @app.workflow
    async def parent(ctx: Context) -> str:
        return await ctx.rfc("turn", "child")

    return app


@in_asyncio
async def test_runs_of_a_session_follow_one_another(tmp_path: Path) -> None:
    said: list[str] = []
    app = chatty_app(tmp_path, said)
    async with running(app) as client:
        texts = [f"t{number}" for number in range(20)]
        handles = [await client.start("turn", text, session_id="c") for text in texts]
        async with asyncio.timeout(60):
            results = [await handle.result() for handle in handles]
        assert results == [f"{text} in c" for text in texts]
        assert said == [line for text in texts for line in (f"{text} begins", f"{text} ends")]
        assert (await client.sessions.get("c")).active_run_id is None


@in_asyncio
async def test_a_question_holds_the_session_until_it_is_answered(tmp_path: Path) -> None:
    app = chatty_app(tmp_path, [])
    async with running(app) as client:
        await client.start("turn", "ask", id="one", session_id="c")
        await pauses(app, "one")
        two = await client.start("turn", "two", id="two", session_id="c")
        other = await client.start("turn", "other", session_id="d")
        async with asyncio.timeout(60):
            assert await other.result() == "other in d"
            assert (await client.backend.get_run("two")).awaits_turn
            [question] = (await client.questions(run_id="one")).items
            await client.answer(question.id, True, user_id="ana")
            assert await two.result() == "two in c"


@in_asyncio
async def test_a_turn_that_fails_passes_on(tmp_path: Path) -> None:
    async with running(chatty_app(tmp_path, [])) as client:
        await client.start("turn", "break", id="one", session_id="c")
        two = await client.start("turn", "two", session_id="c")
        async with asyncio.timeout(60):
            assert await two.result() == "two in c"
        assert (await client.backend.get_run("one")).state is RunState.FAILED


@in_asyncio
async def test_a_child_of_a_sessions_run_belongs_to_no_session(tmp_path: Path) -> None:
    async with running(chatty_app(tmp_path, [])) as client:
        run = await client.start("parent", session_id="c")
        async with asyncio.timeout(60):
            assert await run.result() == "child in None"


@in_asyncio
async def test_starting_again_in_another_session_is_a_conflict(tmp_path: Path) -> None:
    async with opened(chatty_app(tmp_path, [])) as client:
        await client.start("turn", "one", id="one", session_id="c")
        await client.start("turn", "one", id="one", session_id="c")
        with pytest.raises(IdConflict, match="another session"):
            await client.start("turn", "one", id="one", session_id="d")
        assert (await client.sessions.get("c")).last_position == 1
        with pytest.raises(NotFound):
            await client.sessions.get("d")


@pytest.mark.parametrize("session_id", ["", " c", "c\n", "c" * 257])
@in_asyncio
async def test_a_session_id_that_can_be_none_is_refused(tmp_path: Path, session_id: str) -> None:
    async with opened(chatty_app(tmp_path, [])) as client:
        with pytest.raises(InvalidValue, match="session_id"):
            await client.start("turn", "one", session_id=session_id)
