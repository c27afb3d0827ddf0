"""Code that catches every interruption and continues, in each layout that CPython's compilers arrange differently.

If Signoff cannot stop it, nothing in its process can: pytest-timeout's error is caught as well. So the tests run it in
processes of their own, which they kill.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import faulthandler
import functools
import itertools
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from signoff import Context
from signoff.engine.run import blocking_guard
from signoff.engine.run import thread_interruption as interruptions
from signoff.errors import BusyLoop
from signoff.records import EntryKind
from tests.support import fails, journaled, new_app, running

# ruff: noqa: E722, S110, SIM105, B012


def compute(number: int = 1000) -> int:
    return sum(each for each in range(number))


def catches_all() -> None:
    while True:
        try:
            compute()
        except:
            pass


def catches_around_calls_of_c() -> None:
    while True:
        try:
            sum(range(1000))
        except:
            pass


def catches_around_a_loop() -> None:
    while True:
        try:
            while True:
                pass
        except:
            pass


def catches_and_continues() -> None:
    while True:
        try:
            while True:
                sum(range(1000))
        except BaseException:  # noqa: S112
            continue


def catches_in_for() -> None:
    for _ in itertools.count():
        try:
            sum(range(1000))
        except BaseException:
            pass


def catches_in_nested_tries() -> None:
    while True:
        try:
            try:
                compute()
            except:
                compute()
        except:  # noqa: S112
            continue


def catches_in_while_with_else() -> None:
    while compute() or True:
        try:
            compute()
        except:
            pass
        else:
            continue


def catches_a_name() -> None:
    while True:
        try:
            compute()
        except BaseException as error:
            del error


def catches_groups() -> None:
    while True:
        try:
            compute()
        except* BaseException:
            pass


def catches_in_a_match() -> None:
    while True:
        match compute():
            case _:
                try:
                    compute()
                except BaseException:
                    pass


def goes_on_in_finally() -> None:
    while True:
        try:
            compute()
        finally:
            catches_all()


def continues_in_finally() -> None:
    while True:
        try:
            compute()
        finally:
            continue


def returns_in_finally() -> None:
    def again() -> bool:
        try:
            compute()
        finally:
            return True

    while again():
        pass


def counts_in_finally() -> None:
    running = 0
    while True:
        try:
            try:
                running += 1
            finally:
                running -= 1
                continue
        except BaseException:
            sum(range(100))


def suppresses_all() -> None:
    while True:
        with contextlib.suppress(BaseException):
            compute()


class _Suppressing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> bool:
        return True


def suppresses_by_its_own() -> None:
    while True:
        with _Suppressing():
            compute()


def suppresses_by_a_generator() -> None:
    @contextlib.contextmanager
    def suppressing() -> Generator[None]:
        try:
            yield
        except BaseException:
            pass

    while True:
        with suppressing():
            compute()


def catches_at_each_level(levels: int = 30) -> None:
    while True:
        try:
            catches_at_each_level(levels - 1) if levels else catches_all()
        except BaseException:
            compute()


def _catches(_: object) -> int:
    try:
        return compute()
    except BaseException:
        return 0


def catches_in_a_helper() -> None:
    while True:
        _catches(0)


def _catches_and_denies(number: int) -> bool:
    return _catches(number) < 0


def catches_in_a_comprehension() -> None:
    [each for each in itertools.count() if _catches(each) < 0]


def catches_for_sum() -> None:
    sum(_catches(each) for each in itertools.count())


def catches_for_map() -> None:
    any(map(_catches_and_denies, itertools.count()))


def catches_for_sorted() -> None:
    while True:
        try:
            sorted(range(1000), key=_catches)
        except BaseException:
            pass


def catches_in_a_lambda() -> None:
    while True:
        (lambda: _catches(0))()


def catches_in_an_iterator() -> None:
    def iterate() -> Iterator[int]:
        while True:
            try:
                yield compute()
            except BaseException:
                compute()

    for _ in iterate():
        try:
            compute()
        except:
            pass


def catches_in_an_async_generator() -> None:
    async def iterate() -> AsyncIterator[int]:
        while True:
            try:
                yield compute()
            except BaseException:
                compute()

    async def run() -> None:
        while True:
            try:
                async for _ in iterate():
                    try:
                        compute()
                    except:
                        pass
            except:
                pass

    run().send(None)


class _NeverFreed:
    def __del__(self) -> None:
        catches_all()


def never_frees() -> None:
    _NeverFreed()


def frees_again_and_again() -> None:
    while True:
        _NeverFreed()


class _Referred:
    pass


def catches_for_weak_references() -> None:
    while True:
        referred = _Referred()
        reference = weakref.ref(referred, lambda _: catches_all())
        del referred, reference


class _EqualToNone:
    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return _catches(other) < 0


def catches_for_dicts() -> None:
    while True:
        try:
            {_EqualToNone(): 1, _EqualToNone(): 2}
        except BaseException:
            pass


log = logging.getLogger(__name__)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        compute(100)


def logs_its_errors() -> None:
    while True:
        try:
            compute()
            log.warning("trying")
        except BaseException:
            log.exception("trying again")


def is_cut_off_within_handlers() -> None:
    for handler in logging.getLogger().handlers:
        handler.acquire()
    catches_all()


def locks() -> None:
    lock = threading.Lock()
    while True:
        try:
            with lock:
                compute()
        except BaseException:
            pass


def on_one_line(layout: Callable[[], None]) -> Callable[[], None]:
    """Compile a layout anew, with all its code on one line, as a template engine may do."""
    tree = ast.parse(Path(__file__).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.excepthandler):
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    tree.body = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == layout.__name__
    ]
    names = dict(globals())
    exec(compile(tree, "<one line>", "exec"), names)
    return names[layout.__name__]


_LAYOUTS = [
    *(catches_all, catches_around_calls_of_c, catches_around_a_loop, catches_and_continues, catches_in_for),
    *(
        catches_in_nested_tries,
        catches_in_while_with_else,
        catches_a_name,
        catches_groups,
        catches_in_a_match,
    ),
    *(goes_on_in_finally, continues_in_finally, returns_in_finally, counts_in_finally, suppresses_all),
    *(suppresses_by_its_own, suppresses_by_a_generator, catches_at_each_level, catches_in_a_helper),
    *(catches_in_a_comprehension, catches_for_sum, catches_for_map, catches_for_sorted, catches_in_a_lambda),
    *(catches_in_an_iterator, catches_in_an_async_generator, never_frees, frees_again_and_again),
    *(catches_for_weak_references, catches_for_dicts, logs_its_errors, is_cut_off_within_handlers, locks),
]
LAYOUTS = {layout.__name__: layout for layout in _LAYOUTS}


class Watched:
    made = 0

    def refuse_io(self, what: str) -> None:
        raise AssertionError(what)

    def declare_busy(self, seconds: float, where: str) -> None: ...


@contextlib.contextmanager
def looking(busy_seconds: float = 0.05) -> Generator[None]:
    """Interrupt busy drives, as a worker's thread does."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(busy_seconds / 3):
            blocking_guard.interrupt_busy(busy_seconds)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def drive(name: str, *, is_on_one_line: bool) -> None:
    """Drive a layout until it is stopped, and see that nothing of it is left."""
    busy = on_one_line(LAYOUTS[name]) if is_on_one_line else LAYOUTS[name]
    logging.getLogger().addHandler(_Handler())
    with looking():
        blocking_guard.drive(Watched(), lambda: (busy(), busy()))
    assert blocking_guard._drives == {}
    goes_on()


def goes_on() -> None:
    """See that other code is interrupted no more, and other threads can log."""
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        catches_a_few()
    thread = threading.Thread(target=log.warning, args=("fine",), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "the lock of a logging handler is held"


def catches_a_few() -> None:
    for _ in range(10):
        compute()


def work(name: str, folder: str) -> None:
    """Have a worker stop workflows of both styles that run a layout, and complete another."""
    asyncio.run(_work(LAYOUTS[name], Path(folder)))


async def _work(busy: Callable[[], None], folder: Path) -> None:
    app = new_app(folder)
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # pyright: ignore[reportAttributeAccessIssue]
    logging.getLogger("signoff").addHandler(handler)

    @app.workflow
    async def awaits(ctx: Context) -> None:
        await ctx.step("first", lambda: None)
        try:
            busy()
        except BaseException:
            busy()
        await ctx.step("never", lambda: None)

    @app.workflow
    def yields(ctx: Context) -> Generator[Any, Any, None]:
        yield ctx.step("first", lambda: None)
        try:
            busy()
        finally:
            busy()
        yield ctx.step("never", lambda: None)

    @app.workflow
    async def splits(ctx: Context) -> None:
        branches: list[asyncio.Task[None]] = []

        async def branch() -> None:
            while True:
                try:
                    await asyncio.sleep(0)
                    busy()
                except BaseException:
                    branches.append(asyncio.create_task(branch()))

        await ctx.step("first", lambda: None)
        await asyncio.gather(branch(), branch(), return_exceptions=True)
        await ctx.step("never", lambda: None)

    @app.workflow
    async def fine(ctx: Context) -> str:
        return await ctx.step("fine", lambda: "fine")

    async with running(app, busy_seconds=0.2, beat_seconds=0.1) as client:
        for flow in (awaits, yields, splits):
            run = await client.start(flow, id=flow.__name__)
            assert (await fails(app, run.id)).retryable
            with contextlib.suppress(BusyLoop):
                raise AssertionError(await run.result(60))
            assert [entry.name for entry in await journaled(app, run.id, EntryKind.COMPLETED)] == ["first"]
        assert await (await client.start(fine)).result(60) == "fine"
    assert blocking_guard._drives == {}
    assert any("caught the interruption" in message for message in messages), messages
    goes_on()


def several() -> None:
    """Drive stubborn code on three threads at once, beside code that only computes."""
    ended: list[int] = []

    def drive_one(number: int) -> None:
        blocking_guard.drive(Watched(), catches_all)
        ended.append(number)

    with looking():
        threads = [threading.Thread(target=drive_one, args=(number,), daemon=True) for number in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            compute()
    assert sorted(ended) == [0, 1, 2]
    goes_on()


def nested() -> None:
    """Drive stubborn code inside of code that is driven itself, and stubborn."""
    seen: list[str] = []

    def outer() -> None:
        blocking_guard.drive(Watched(), catches_all)
        seen.append("inner ended")
        catches_all()

    with looking():
        blocking_guard.drive(Watched(), outer)
    assert seen == ["inner ended"]
    goes_on()


def without_tools() -> None:
    """Drive stubborn code while debuggers and profilers use all tools of ``sys.monitoring``."""
    _use_all_tools()
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # pyright: ignore[reportAttributeAccessIssue]
    logging.getLogger("signoff").addHandler(handler)
    expected = "tools of sys.monitoring" if sys.version_info >= (3, 12) else "caught the interruption"
    with looking():
        while not any(expected in message for message in messages):  # the first interruption may end it
            blocking_guard.drive(Watched(), suppresses_all)
    goes_on()


def beside_tools() -> None:
    """Drive stubborn code beside a tool that counts lines, as coverage does. It goes on counting."""
    lines: list[int] = []

    def count(code: CodeType, line: int) -> None:
        if code is catches_all.__code__ or code is catches_a_few.__code__:
            lines.append(line)

    if sys.version_info >= (3, 12):
        sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "coverage")
        sys.monitoring.register_callback(sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE, count)
        sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE)
    with looking():
        blocking_guard.drive(Watched(), catches_all)
    counted = len(lines)
    goes_on()
    if sys.version_info >= (3, 12):
        assert len(lines) > counted > 0
        others = [tool for tool in range(6) if tool != sys.monitoring.COVERAGE_ID]
        assert [sys.monitoring.get_tool(tool) for tool in others] == [None] * 5


def leaves_at_once() -> None:
    """Leave stubborn code of its own accord, again and again, while it is interrupted. Nothing is afterwards."""
    logging.disable()
    blocking_guard.log_aside = lambda *_: None
    interruptions._BEGINNING_SECONDS = interruptions._MOMENT_SECONDS = 0.0
    sys.setswitchinterval(0.00001)
    _use_all_tools()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            blocking_guard.interrupt_busy(0.0002)
            time.sleep(0)

    def catches_some(interruptions: int) -> None:
        while interruptions:
            try:
                compute(50)
            except BaseException:
                interruptions -= 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(400):
            blocking_guard.drive(Watched(), functools.partial(catches_some, 2 + number % 3))
            compute(50)
    except blocking_guard.Interrupted:
        os._exit(66)  # by its very first call: a renewed one leaves every function
    over.set()
    thread.join()


def _use_all_tools() -> None:
    """Have Signoff interrupt by asynchronous exceptions alone, as on Python 3.11."""
    if sys.version_info >= (3, 12):
        for tool in range(6):
            sys.monitoring.use_tool_id(tool, "another")


def forks_meanwhile() -> None:
    """Fork while stubborn code is interrupted. In the child nothing is."""
    # Not stderr: the child of a process that is writing to it can never write to it.
    logging.getLogger().addHandler(_Handler())
    over, ended = threading.Event(), threading.Event()

    def goes_on_until_over() -> None:
        while not over.is_set():
            with contextlib.suppress(BaseException):
                over.wait()  # in the standard library, which is spared for a while

    def drive() -> None:
        blocking_guard.drive(Watched(), goes_on_until_over)
        ended.set()

    threading.Thread(target=drive, daemon=True).start()
    with looking(0.01):
        while not any(each.insisted for each in list(blocking_guard._drives.values())):
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            with looking(0.01):
                blocking_guard.drive(Watched(), lambda: (catches_all(), catches_all()))
            goes_on()
            if sys.version_info >= (3, 12):
                assert [sys.monitoring.get_tool(tool) for tool in range(6)] == [None] * 6
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    over.set()
    assert ended.wait(10)
    goes_on()


def forks_within_an_interruption() -> None:
    """Fork in the midst of an interruption. The child has the switch interval that the process had before."""
    usual, children = sys.getswitchinterval(), list[int]()

    class Forking:
        looks = 0

        @property
        def thread(self) -> int | None:
            self.looks += 1
            if self.looks == 2:
                assert sys.getswitchinterval() < usual
                children.append(os.fork())
                if children[0] == 0:
                    os._exit(0 if sys.getswitchinterval() == usual else 1)
            return None if self.looks > 1 else threading.get_ident()

    assert not interruptions.interrupt(Forking())  # pyright: ignore[reportArgumentType]
    assert os.waitpid(children[0], 0)[1] == 0
    assert sys.getswitchinterval() == usual


PROGRAMS: dict[str, Callable[..., None]] = {
    "drive": functools.partial(drive, is_on_one_line=False),
    "drive_on_one_line": functools.partial(drive, is_on_one_line=True),
    "work": work,
    "forks_within_an_interruption": forks_within_an_interruption,
    "several": several,
    "nested": nested,
    "without_tools": without_tools,
    "beside_tools": beside_tools,
    "leaves_at_once": leaves_at_once,
    "forks_meanwhile": forks_meanwhile,
}

if __name__ == "__main__":
    faulthandler.dump_traceback_later(50, exit=True)
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
