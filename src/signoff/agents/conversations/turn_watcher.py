"""Watches a turn until it has ended, or waits for answers to its questions or its sub-agents' questions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from signoff.client.async_client import AsyncClient, Backend
from signoff.people.questions.question_state import QuestionState
from signoff.records import Promise, PromiseKind, PromiseState, Run, RunState
from signoff.records.paging import PromiseFilter, RunFilter

SOONEST: Final = 0.01
LATEST: Final = 1.0
"""Seconds between polls of facts that no journal reports: a run is idle, a child run moves, or no rule fits."""

RECHECK_SECONDS: Final = 30.0
"""Seconds after which to look again without a notification."""

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class StoppedTurn:
    """A turn that has ended, or waits for people.

    Attributes:
        run: The turn's run: ended, or waiting.
        asking: The run whose questions it waits for: itself, or that of an earlier turn.
        questions: All that are open.
    """

    run: Run
    asking: Run
    questions: Sequence[Promise] = ()


@dataclass(frozen=True, slots=True)
class _Moving:
    watched: str
    is_notified: bool


async def wait_until_stopped(client: AsyncClient, run_id: str) -> StoppedTurn:
    """Wait until a turn has ended or waits for people.

    Raises:
        NotFound: There is no such run.
    """
    pause = SOONEST
    seen = await _look(client, run_id)
    while not isinstance(seen, StoppedTurn):
        watched = seen.watched
        async with _following(client.backend, watched) as wait_for_news:
            while isinstance(seen := await _look(client, run_id), _Moving) and seen.watched == watched:
                has_news = await wait_for_news(RECHECK_SECONDS if seen.is_notified else pause)
                pause = SOONEST if has_news else min(2 * pause, LATEST)
    return seen


async def _look(client: AsyncClient, run_id: str) -> StoppedTurn | _Moving:
    run = await client.backend.get_run(run_id)
    if run.state.is_final:
        return StoppedTurn(run, run)
    asking = run
    if run.awaits_turn and run.session_id is not None:
        active = (await client.sessions.get(run.session_id)).active_run_id
        if active is None or active == run_id:
            return _Moving(run_id, is_notified=False)
        asking = await client.backend.get_run(active)
    quiet, questions = await open_questions_of(client.backend, asking)
    if quiet and questions:
        return StoppedTurn(run, asking, questions)
    is_notified = asking is run and not questions and quiet is not None
    return _Moving(asking.id, is_notified)


async def open_questions_of(backend: Backend, run: Run) -> tuple[bool | None, Sequence[Promise]]:
    """Return whether a run and its children are idle, and their open questions to people.

    None instead of a bool: only changes that the run's own journal does not report are possible, of children or by
    rules that may answer a question.
    """
    found = await _all_questions(backend, run.id)
    questions = [each for each in found if not _may_be_answered_any_moment(each)]
    if run.state is not RunState.PAUSED:
        return False, questions
    quiet: bool | None = True if len(questions) == len(found) else None
    after: str | None = None
    while True:
        page = await backend.list_runs(RunFilter(parent_id=run.id), after=after, limit=_AT_ONCE)
        for child in page.items:
            if not child.state.is_final:
                below, asked = await open_questions_of(backend, child)
                questions = [*questions, *asked]
                quiet = quiet if below else None
        after = page.next
        if after is None:
            return quiet, questions


def _may_be_answered_any_moment(question: Promise) -> bool:
    state = QuestionState.readable(question, 0.0)
    return state is not None and state.may_be_answered_any_moment


async def _all_questions(backend: Backend, run_id: str) -> list[Promise]:
    which = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, run_id)
    found: list[Promise] = []
    after: str | None = None
    while True:
        page = await backend.list_promises(which, after=after, limit=_AT_ONCE)
        found += page.items
        after = page.next
        if after is None:
            return found


@asynccontextmanager
async def _following(backend: Backend, run_id: str) -> AsyncGenerator[Callable[[float], Awaitable[bool]]]:
    """Provide a function that waits until a run's journal has grown, or for some seconds."""
    news = asyncio.Event()

    async def follow() -> None:
        try:
            async for _ in backend.follow(run_id):
                news.set()
        finally:
            news.set()

    async def wait_for_news(seconds: float) -> bool:
        if following.done() and not news.is_set():
            following.result()
            await asyncio.sleep(min(seconds, SOONEST))
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()
        has_news = news.is_set()
        news.clear()
        return has_news

    following = asyncio.create_task(follow())
    try:
        yield wait_for_news
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
