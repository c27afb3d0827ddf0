"""Tools that clean up when a pause leaves them, and log it."""

# ruff: noqa: S112  # they go on where they may not

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self

from tests.agents.swallowing import ask, ask_plainly

Log = list[Any]


class Connection:
    """Says what it exits with, and suppresses it if it is to."""

    def __init__(self, log: Log, *, is_deaf: bool = False) -> None:
        self._log = log
        self._is_deaf = is_deaf

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._log.append(("closed", kind and kind.__name__))
        return self._is_deaf and error is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        await asyncio.sleep(0.001)
        await note(self._log, "waited")
        return self.__exit__(kind, error, trace)


async def note(log: Log, what: str) -> None:
    await asyncio.sleep(0)
    log.append(what)


async def with_finally(log: Log) -> None:
    try:
        await ask()
        log.append("went on")
    finally:
        for each in range(2):
            await asyncio.sleep(0.001)
            await note(log, f"finally {each}")


async def with_an_async_exit(log: Log) -> None:
    async with Connection(log):
        await ask()
        log.append("went on")


async def with_exits_of_which_one_is_deaf(log: Log) -> None:
    async with Connection(log):
        with Connection(log, is_deaf=True):
            await ask()
        log.append("went on")


async def with_finally_around_a_return(log: Log) -> str:
    with Connection(log):
        try:
            return await ask()
        except BaseException:
            return "caught"
        finally:
            await note(log, "finally")
            try:
                raise KeyError
            except KeyError:
                log.append("inner")
            log.append("finally ends")


async def with_exits_around_a_continue(log: Log) -> None:
    for _ in range(3):
        async with Connection(log):
            try:
                await ask()
            except BaseException:
                continue


async def with_a_stack(log: Log) -> None:
    async with AsyncExitStack() as stack:
        stack.push_async_callback(note, log, "first in")
        await stack.enter_async_context(Connection(log))
        stack.callback(log.append, "last in")
        await ask()
        log.append("went on")


async def with_a_task_beside_it(log: Log) -> None:
    async def beside() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await note(log, "beside")

    async with asyncio.TaskGroup() as group:
        group.create_task(beside())
        group.create_task(ask())
        with Connection(log):
            await asyncio.sleep(60)
            log.append("went on")


async def with_tasks_that_clean_up(log: Log) -> None:
    try:
        await ask()
    finally:
        await asyncio.wait_for(asyncio.gather(note(log, "a"), note(log, "b")), 5)
        log.append("closed")


async def with_a_pause_in_clean_up(log: Log) -> None:
    async with AsyncExitStack() as stack:
        stack.callback(log.append, "first in")
        stack.push_async_callback(ask)
        stack.callback(log.append, "last in")
        await ask()
        log.append("went on")


async def with_an_error_in_clean_up(log: Log) -> None:
    with Connection(log):
        try:
            await ask()
        finally:
            log.append("finally")
            raise RuntimeError("no")


async def with_except_of_groups(log: Log) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(with_an_error_in_clean_up(log))
            await asyncio.sleep(0.01)
            log.append("went on")
    except* RuntimeError:
        await note(log, "handled")
    log.append("went on")


async def with_generators(log: Log) -> None:
    @asynccontextmanager
    async def connected() -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await note(log, "caught")
        finally:
            await note(log, "finally")

    async with connected(), Connection(log):
        await ask()
    log.append("went on")


def with_plain_finally(log: Log) -> None:
    try:
        ask_plainly()
        log.append("went on")
    finally:
        for each in range(2):
            log.append(f"finally {each}")


def with_plain_exits(log: Log) -> str:
    for _ in range(3):
        with Connection(log), Connection(log, is_deaf=True):
            try:
                return ask_plainly()
            except BaseException:
                continue
            finally:
                log.append("finally")
    return "went on"


def with_a_plain_stack(log: Log) -> None:
    with ExitStack() as stack:
        stack.callback(log.append, "first in")
        stack.enter_context(Connection(log))
        ask_plainly()
        log.append("went on")


def with_plain_generators(log: Log) -> None:
    @contextmanager
    def connected() -> Iterator[None]:
        try:
            yield
        except BaseException:
            log.append("caught")
        finally:
            log.append("finally")

    with connected(), Connection(log):
        ask_plainly()
    log.append("went on")


LEFT = ("closed", "Left")

CLEANING_UP: list[tuple[Callable[[Log], Any], Log]] = [
    (with_finally, ["finally 0", "finally 1"]),
    (with_an_async_exit, ["waited", LEFT]),
    (with_exits_of_which_one_is_deaf, [LEFT, "waited", LEFT]),
    (with_finally_around_a_return, ["finally", "inner", "finally ends", ("closed", None)]),
    (with_exits_around_a_continue, ["waited", ("closed", None)]),
    (with_a_stack, ["last in", "waited", LEFT, "first in"]),
    (with_a_task_beside_it, [("closed", "CancelledError"), "beside"]),
    (with_tasks_that_clean_up, ["a", "b", "closed"]),
    (with_a_pause_in_clean_up, ["last in", "first in"]),
    (with_an_error_in_clean_up, ["finally", ("closed", "RuntimeError")]),
    (with_except_of_groups, ["finally", ("closed", "RuntimeError"), "handled"]),
    (with_generators, ["waited", LEFT, "caught", "finally"]),
    (with_plain_finally, ["finally 0", "finally 1"]),
    (with_plain_exits, ["finally", ("closed", None), ("closed", None)]),
    (with_a_plain_stack, [LEFT, "first in"]),
    (with_plain_generators, [LEFT, "caught", "finally"]),
]
