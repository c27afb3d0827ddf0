"""Tools that clean up when a pause stops them, and log it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any, Self

import anyio

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


async def with_an_error_in_clean_up(log: Log) -> None:
    with Connection(log):
        try:
            await ask()
        finally:
            log.append("finally")
            raise RuntimeError("no")


def with_plain_finally(log: Log) -> None:
    try:
        ask_plainly()
        log.append("went on")
    finally:
        for each in range(2):
            log.append(f"finally {each}")


def with_a_plain_stack(log: Log) -> None:
    with ExitStack() as stack:
        stack.callback(log.append, "first in")
        stack.enter_context(Connection(log))
        ask_plainly()
        log.append("went on")


async def with_a_handler_that_raises_it_again(log: Log) -> None:
    try:
        await ask()
    except BaseException:
        await note(log, "rolled back")
        raise


async def with_a_handler_that_fails(log: Log) -> None:
    try:
        await ask()
    except BaseException as error:
        raise RuntimeError("no") from error


async def with_results_that_are_looked_at(log: Log) -> None:
    for each in await asyncio.gather(ask(), note(log, "beside"), return_exceptions=True):
        if isinstance(each, BaseException):
            raise each
    log.append("went on")


async def with_two_at_once(log: Log) -> None:
    await asyncio.gather(ask(), ask())
    log.append("went on")


async def with_two_in_a_group(log: Log) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ask())
        group.create_task(ask())
    log.append("went on")


async def with_two_of_which_the_first_takes_longer(log: Log) -> None:
    async def first() -> None:
        try:
            await ask()
        finally:
            await asyncio.sleep(0.02)

    await asyncio.gather(first(), ask())
    log.append("went on")


async def with_a_group_of_anyio(log: Log) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        with Connection(log):
            await asyncio.sleep(60)
    log.append("went on")


async def with_a_thread(log: Log) -> None:
    with Connection(log):
        await asyncio.to_thread(ask_plainly)
    log.append("went on")


async def with_shields_and_times(log: Log) -> None:
    async with asyncio.timeout(60):
        await asyncio.wait_for(asyncio.shield(ask()), 60)
    log.append("went on")


LEFT = ("closed", "Left")

CLEANING_UP: list[tuple[Callable[[Log], Any], Log]] = [
    (with_finally, ["finally 0", "finally 1"]),
    (with_an_async_exit, ["waited", LEFT]),
    (with_a_stack, ["last in", "waited", LEFT, "first in"]),
    (with_a_task_beside_it, [("closed", "CancelledError"), "beside"]),
    (with_tasks_that_clean_up, ["a", "b", "closed"]),
    (with_an_error_in_clean_up, ["finally", ("closed", "RuntimeError")]),
    (with_a_handler_that_raises_it_again, ["rolled back"]),
    (with_a_handler_that_fails, []),
    (with_results_that_are_looked_at, ["beside"]),
    (with_two_at_once, []),
    (with_two_in_a_group, []),
    (with_two_of_which_the_first_takes_longer, []),
    (with_a_group_of_anyio, [("closed", "CancelledError")]),
    (with_a_thread, [LEFT]),
    (with_shields_and_times, []),
    (with_plain_finally, ["finally 0", "finally 1"]),
    (with_a_plain_stack, [LEFT, "first in"]),
]
