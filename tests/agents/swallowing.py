"""Tools that catch the exception of a pause and continue."""

# ruff: noqa: S110, S112, SIM105  # this is what they are for

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
from pydantic_ai import ModelRetry

from signoff.agents import pause

Done = list[Any]


async def ask() -> Any:
    return (await pause("await_input", prompt="Q?")).value


def ask_plainly() -> Any:
    return pause("await_input", prompt="Q?").value.value


async def pay(done: Done) -> None:
    await asyncio.sleep(0)
    done.append("paid")


def pay_plainly(done: Done) -> None:
    done.append("paid")


async def catching(done: Done) -> None:
    try:
        await pause("await_input", prompt="Q?")
    except BaseException:
        pass
    done.append("paid")


async def suppressing(done: Done) -> None:
    with suppress(BaseException):
        await ask()
    done.append("paid")


async def waiting_while_it_catches(done: Done) -> None:
    try:
        await ask()
    except BaseException as error:
        await asyncio.sleep(0.01)
        del error
    await pay(done)


def retrying(tool: Callable[[Done], Awaitable[None]]) -> Callable[[Done], Awaitable[None]]:
    @functools.wraps(tool)
    async def tried(done: Done) -> None:
        for _ in range(3):
            try:
                return await tool(done)
            except BaseException:
                await asyncio.sleep(0)
        return await pay(done)

    return tried


@retrying
async def retried(done: Done) -> None:
    await ask()
    await pay(done)


async def looping(done: Done) -> None:
    while True:
        try:
            await ask()
            break
        except BaseException:
            continue
    await pay(done)


async def looping_on_one_line(done: Done) -> None:
    while True:
        try: await ask(); break  # fmt: skip  # noqa: E701, E702
        except BaseException: continue  # fmt: skip  # noqa: E701
    await pay(done)


async def looping_where_it_catches(done: Done) -> None:
    try:
        await ask()
    except BaseException:
        while True:
            try:
                await ask()
            except BaseException:
                continue
    await pay(done)


async def looping_with_finally(done: Done) -> None:
    while True:
        try: await ask(); break  # fmt: skip  # noqa: E701, E702
        except BaseException: continue  # fmt: skip  # noqa: E701
        finally: await asyncio.sleep(0)  # fmt: skip  # noqa: E701
    await pay(done)


async def gathering(done: Done) -> None:
    done.extend("paid" for _ in await asyncio.gather(ask(), return_exceptions=True))


async def waiting_for_a_task(done: Done) -> None:
    await asyncio.wait([asyncio.create_task(ask())])
    await pay(done)


async def in_a_group(done: Done) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            await asyncio.sleep(0.02)
    except* BaseException:
        pass
    await pay(done)


async def in_time(done: Done) -> None:
    with suppress(BaseException):
        await asyncio.wait_for(ask(), 5)
    await pay(done)


async def in_a_thread(done: Done) -> None:
    with suppress(BaseException):
        await asyncio.to_thread(ask_plainly)
    await pay(done)


async def directly_in_a_thread(done: Done) -> None:
    with suppress(BaseException):
        await asyncio.to_thread(pause, "await_input", prompt="Q?")
    await pay(done)


async def or_default() -> Any:
    try:
        return await ask()
    except BaseException:
        return "yes"


async def going_on_in_the_line(done: Done) -> None:
    await pay(done) if await or_default() else None


async def returning_in_finally(done: Done) -> None:
    try:
        await ask()
    finally:
        await pay(done)
        return  # noqa: B012


async def returning_what_was_caught(done: Done) -> Any:
    try:
        return await ask()
    except BaseException as error:
        return str(error)


async def shielded(done: Done) -> None:
    with suppress(BaseException):
        await asyncio.shield(ask())
    await pay(done)


async def in_a_group_of_anyio(done: Done) -> None:
    with suppress(BaseException):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
    await pay(done)


async def in_a_task_of_its_own(done: Done) -> None:
    task = asyncio.create_task(catching(done))
    await task


async def in_a_task_that_nobody_awaits(done: Done) -> None:
    asyncio.create_task(ask())  # noqa: RUF006
    await asyncio.sleep(0.01)
    await pay(done)


async def in_tasks_again_and_again(done: Done) -> None:
    for _ in range(3):
        with suppress(BaseException):
            await asyncio.create_task(ask())
    await ask()


async def asking_something_else(done: Done) -> None:
    with suppress(BaseException):
        await ask()
    await pause("await_input", prompt="Something else?")


async def asking_in_finally(done: Done) -> None:
    try:
        await ask()
    finally:
        await ask()


async def raising_something_else(done: Done) -> None:
    with suppress(BaseException):
        await ask()
    raise ValueError("no answer")


async def having_the_model_retry(done: Done) -> None:
    try:
        await ask()
    except BaseException:
        raise ModelRetry("no answer") from None


async def handling_a_group(done: Done) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
    except* BaseException:
        await pay(done)


async def handling_something_else(done: Done) -> None:
    try:
        raise KeyError
    except KeyError:
        with suppress(BaseException):
            try:
                raise ValueError
            except ValueError:
                await asyncio.gather(ask(), return_exceptions=True)
                await pay(done)
        done += ["paid"] if not done else []


@asynccontextmanager
async def swallowing() -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await asyncio.sleep(0)


@contextmanager
def swallowing_plainly() -> Iterator[None]:
    try:
        yield
    except BaseException:
        pass


async def in_a_context(done: Done) -> None:
    async with swallowing():
        await ask()
    await pay(done)


async def setting_a_flag(done: Done) -> None:
    is_paid = False
    try:
        await ask()
    except BaseException:
        pass
    is_paid = True
    done += ["paid"] if is_paid else []


def plainly_catching(done: Done) -> None:
    try:
        pause("await_input", prompt="Q?")
    except BaseException:
        pass
    done.append("paid")


def plainly_suppressing(done: Done) -> None:
    with suppress(BaseException):
        ask_plainly()
    done.append("paid")


def plainly_retrying(tool: Callable[[Done], None]) -> Callable[[Done], None]:
    @functools.wraps(tool)
    def tried(done: Done) -> None:
        for _ in range(3):
            try:
                return tool(done)
            except BaseException:
                continue
        return pay_plainly(done)

    return tried


@plainly_retrying
def plainly_retried(done: Done) -> None:
    ask_plainly()
    pay_plainly(done)


def plainly_looping(done: Done) -> None:
    for _ in range(20):
        try:
            ask_plainly()
            break
        except BaseException:
            continue
    pay_plainly(done)


def plainly_looping_on_one_line(done: Done) -> None:
    for _ in range(3):
        try: ask_plainly(); break  # fmt: skip  # noqa: E701, E702
        except BaseException: continue  # fmt: skip  # noqa: E701
        finally: len(done)  # fmt: skip  # noqa: E701
    pay_plainly(done)


def plainly_or_default() -> Any:
    try:
        return ask_plainly()
    except BaseException:
        return "yes"


def plainly_going_on_in_the_line(done: Done) -> None:
    pay_plainly(done) if plainly_or_default() else None


def plainly_in_a_context(done: Done) -> None:
    with swallowing_plainly():
        ask_plainly()
    pay_plainly(done)


def plainly_asking_twice(done: Done) -> None:
    for _ in range(2):
        try:
            ask_plainly()
        except BaseException as error:
            kept = error
        else:
            break
    else:
        done.append(str(kept))
    pay_plainly(done)


TOOLS = [
    catching,
    suppressing,
    waiting_while_it_catches,
    retried,
    looping,
    looping_on_one_line,
    looping_where_it_catches,
    looping_with_finally,
    gathering,
    waiting_for_a_task,
    in_a_group,
    in_time,
    in_a_thread,
    directly_in_a_thread,
    going_on_in_the_line,
    returning_in_finally,
    returning_what_was_caught,
    shielded,
    in_a_group_of_anyio,
    in_a_task_of_its_own,
    in_a_task_that_nobody_awaits,
    in_tasks_again_and_again,
    asking_something_else,
    asking_in_finally,
    raising_something_else,
    having_the_model_retry,
    handling_a_group,
    handling_something_else,
    in_a_context,
    setting_a_flag,
]

PLAIN_TOOLS = [
    plainly_catching,
    plainly_suppressing,
    plainly_retried,
    plainly_looping,
    plainly_looping_on_one_line,
    plainly_going_on_in_the_line,
    plainly_in_a_context,
    plainly_asking_twice,
]
