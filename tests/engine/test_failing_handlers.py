"""Failing log handlers lose their own lines, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from signoff import Context, RetryPolicy, Signoff
from signoff.runtime.loggers import own_logger
from signoff.testing import MemoryStore
from tests.support import in_asyncio, running

ERRORS = [OSError("disk full"), SystemExit(1), GeneratorExit(), asyncio.CancelledError()]


class Failing(logging.Handler):
    """A handler, or a filter of one, that always fails."""

    def __init__(self, error: BaseException, *, as_filter: bool) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._error = error
        if as_filter:
            self.addFilter(self._fail)

    def _fail(self, record: logging.LogRecord) -> bool:
        self.seen.append(record.getMessage())
        raise self._error

    def emit(self, record: logging.LogRecord) -> None:
        self._fail(record)


@contextmanager
def failing(error: BaseException, *, as_filter: bool) -> Iterator[Failing]:
    handler = Failing(error, as_filter=as_filter)
    logging.getLogger("signoff").addHandler(handler)
    try:
        yield handler
    finally:
        logging.getLogger("signoff").removeHandler(handler)


@pytest.mark.parametrize("as_filter", [False, True], ids=["handler", "filter"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@in_asyncio
async def test_a_handler_that_fails_ends_no_run_and_no_worker(
    error: BaseException, as_filter: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    app = Signoff(MemoryStore())
    attempts: list[int] = []

    def fails_once() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("try again")
        return len(attempts)

    @app.workflow
    async def flow(ctx: Context) -> int:
        ctx.logger.warning("said by the workflow")
        return await ctx.step(fails_once, retry=RetryPolicy(initial_seconds=0.001))

    async with running(app) as client:
        with failing(error, as_filter=as_filter) as handler:
            assert await (await client.start(flow)).result(60) == 2
        assert await (await client.start(flow)).result(60) == 3
    assert any("said by the workflow" in line for line in handler.seen)
    assert any("failed in attempt 1" in line for line in handler.seen)
    assert type(error).__name__ in capsys.readouterr().err


def test_a_logger_of_the_programs_own_class_stays_one() -> None:
    class Theirs(logging.Logger):
        pass

    logging.setLoggerClass(Theirs)
    try:
        logger = own_logger("signoff.tests.theirs")
    finally:
        logging.setLoggerClass(logging.Logger)
    assert isinstance(logger, Theirs)
    assert own_logger("signoff.tests.theirs") is logger
