"""Announces answers to subscribers of telemetry events: accepted, or refused with an error."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Self

from signoff.errors import SignoffError
from signoff.observability import events
from signoff.observability.events import AnswerGiven
from signoff.observability.trace_context import traceparent_of
from signoff.records import Promise, Run
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.people")

READ_SECONDS: Final = 1.0
"""How long an answer waits to read its run for subscribers of events."""


class Announcement:
    """Notify event subscribers of the answer given in the block: accepted, or refused with which error.

    Args:
        store: The question's store.
        question_id: The question.
        user_id: The user who answers.
        question: The question, if it was read already.

    Attributes:
        question: The question, once it was read.
    """

    def __init__(
        self, store: Store, question_id: str, user_id: str | None, question: Promise | None = None
    ) -> None:
        self.question = question
        self._store = store
        self._question_id = question_id
        self._user_id = user_id
        self._began = time.perf_counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if error is None or isinstance(error, SignoffError):
            await _announce(
                self._store,
                self._question_id,
                self.question,
                self._user_id,
                "accepted" if error is None else type(error).__name__,
                time.perf_counter() - self._began,
            )


async def _announce(
    store: Store,
    question_id: str,
    promise: Promise | None,
    user_id: str | None,
    outcome: str,
    seconds: float,
) -> None:
    """Notify event subscribers of an answer, with its run if that can be read."""
    if not events.subscribers:
        return
    run: Run | None = None
    if promise is not None and promise.run_id is not None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                run = await store.get_run(promise.run_id)
        except Exception:  # the answer is settled already, so a failed read must not fail it
            log.debug(
                "the event for answer %s (%s) does not have its run", question_id, outcome, exc_info=True
            )
    given = AnswerGiven(
        store.namespace,
        question_id,
        None if run is None else run.id,
        None if run is None else run.workflow,
        None if run is None else traceparent_of(run.namespace, run.id, run.traceparent),
        user_id,
        outcome,
        seconds,
    )
    events.announce(given)
