"""Waits for the answers of questions, with one listener on the store for all waiters of an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from math import inf

from signoff.errors import ClientClosed
from signoff.people.questions.question_operations import bring_up_to_date
from signoff.records import PromiseState
from signoff.runtime.event_waits import wait_at_most
from signoff.service.change_watcher import LOOK_EVERY_SECONDS, REST
from signoff.service.waiters import Waiters
from signoff.stores.contract.store import Change, Store

SHORTEST_REST_SECONDS = 0.05


class QuestionWatch:
    """The waiters for answers on one event loop. While there are any, their questions are read every second.

    A look also applies what is due, such as a deadline: a program may wait where no worker and no server runs.

    Args:
        store: An open store.

    Attributes:
        loop: The event loop.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiters = Waiters(self.loop, self._begin_to_look, self._stop_looking)
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._end: Callable[[], None] = store.listen(self._noticed)

    def close(self) -> None:
        """Stop listening. Waiters get ClientClosed, unless their event loop is closed."""
        self._end()
        if not self.loop.is_closed():
            self._stop_looking()
            self._waiters.report(self._waiters.ids, ClientClosed("answer"))

    def awaiting_answer(self, question_id: str) -> AbstractContextManager[Awaitable[None]]:
        """Return a context with a future that is done when the question has been closed.

        Read the question before you await the future: an earlier answer is detected only after a delay.
        """
        return self._waiters.awaiting(question_id)

    def _begin_to_look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = self.loop.create_task(self._look_again_and_again(), name="signoff question watch")

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_again_and_again(self) -> None:
        pause = 0.0
        while True:
            await wait_at_most(pause, self._changed)
            self._changed.clear()
            began, pause = self.loop.time(), LOOK_EVERY_SECONDS
            for question_id in self._waiters.ids:
                try:
                    left = await self._seconds_left(question_id)
                    if left is None:
                        self._waiters.report([question_id])
                    else:
                        pause = min(pause, left)
                except Exception as error:  # waiters must receive any error
                    self._waiters.report([question_id], error)
            await asyncio.sleep(max(SHORTEST_REST_SECONDS, (self.loop.time() - began) * REST))

    async def _seconds_left(self, question_id: str) -> float | None:
        """Return the seconds until a question acts by itself; None if it is closed."""
        question = await bring_up_to_date(self._store, await self._store.get_promise(question_id))
        if question.state is not PromiseState.PENDING:
            return None
        now = self._store.clock.now()
        if question.due_at is not None and question.due_at <= now:
            await self._store.due()
            return 0.0
        return max(
            0.0, min(time for time in (question.due_at, question.act_at, inf) if time is not None) - now
        )

    def _noticed(self, change: Change) -> None:
        if change.runs is not None and not change.settled:
            return  # the answers to a run's questions are found within a second
        if threading.get_ident() == self._thread:
            self._changed.set()
        elif self._waiters and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._changed.set)
