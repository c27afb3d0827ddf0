"""Each private name still works as Signoff needs it. A failure here shows what breaks in this version."""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any

import pydantic_ai
import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic_ai import Agent, RunContext
from pydantic_ai._utils import run_in_executor
from pydantic_ai.durable_exec import BaseDurabilityCapability
from pydantic_ai.models.test import TestModel
from pydantic_core import core_schema

import signoff
from signoff.runtime import private_names
from tests.support import in_asyncio


class Loop(asyncio.AbstractEventLoop):
    """A loop that turns only when a test says so."""

    def is_running(self) -> bool:
        return True

    def get_debug(self) -> bool:
        return False


def _current(loop: asyncio.AbstractEventLoop) -> asyncio.Task[object] | None:
    return asyncio.current_task(loop)


@in_asyncio
async def test_a_loop_inside_another_has_its_own_tasks() -> None:
    outer, task = asyncio.get_running_loop(), asyncio.current_task()
    inner, innermost = Loop(), Loop()
    with private_names.running(inner):
        assert asyncio.get_running_loop() is inner
        aside = None if sys.version_info >= (3, 14) else task
        assert (asyncio.current_task(), _current(outer)) == (None, aside), (
            "a workflow's tasks cannot be entered while the worker's task is current"
        )
        with private_names.running(innermost):
            assert asyncio.get_running_loop() is innermost
        assert asyncio.get_running_loop() is inner
    assert asyncio.get_running_loop() is outer
    assert (asyncio.current_task(), task) == (task, task), (
        "the worker's task does not go on after a workflow's turn"
    )


@in_asyncio
async def test_the_outer_loop_goes_on_after_an_error_of_the_inner() -> None:
    outer, task = asyncio.get_running_loop(), asyncio.current_task()
    with pytest.raises(KeyError), private_names.running(Loop()):
        raise KeyError
    assert asyncio.get_running_loop() is outer
    assert asyncio.current_task() is task


def test_a_loop_runs_where_none_ran() -> None:
    loop = Loop()
    with private_names.running(loop):
        assert asyncio.get_running_loop() is loop
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_loop_goes_on_after_a_callback_that_would_end_it(error: BaseException) -> None:
    name: ContextVar[str] = ContextVar("name")
    contained: list[tuple[BaseException, str | None]] = []

    def contain(raised: BaseException, context: Context | None) -> bool:
        contained.append((raised, None if context is None else context[name]))
        return len(contained) == 1

    def fail() -> None:
        raise error

    async def run() -> str:
        loop = asyncio.get_running_loop()
        end = private_names.contain_callbacks(loop, contain)
        name.set("a step")
        loop.call_soon(fail)
        for _ in range(3):
            await asyncio.sleep(0)
        end()
        assert "_run_once" not in vars(loop)
        return "went on"

    assert asyncio.run(run()) == "went on", "a step's callback that calls sys.exit() ends the worker"
    assert contained == [(error, "a step")], "the step that set such a callback is not found"


@in_asyncio
async def test_code_inside_an_agent_s_run_knows_which_run_that_is() -> None:
    seen: list[object] = []

    async def tool(ctx: RunContext[None]) -> None:
        seen.extend((private_names.agent_run_here(), ctx.run_id))

    await Agent(TestModel(), tools=[tool]).run("go")
    assert len(seen) == 2
    assert seen[0] is not None
    assert seen[0] == seen[1], "a tool that pauses inside of an inner agent is taken for its outer one"
    assert private_names.agent_run_here() is None


def test_the_frame_of_another_thread_is_found() -> None:
    begun, end = threading.Event(), threading.Event()

    def busy_here() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=busy_here)
    thread.start()
    begun.wait()
    found, names = private_names.frame_of(thread.ident or 0), list[str]()
    while found is not None:
        names.append(found.f_code.co_name)
        found = found.f_back
    end.set()
    thread.join()
    assert "busy_here" in names, "code that holds a worker up is not named"
    assert private_names.frame_of(thread.ident or 0) is None


# CPython until 3.11.8 hangs when a collection begins within sys._current_frames() and frees a threading.local.
FINDS_FRAMES = """
import gc, threading
from signoff.runtime import private_names

class Cycle: pass

over = threading.Event()
for _ in range(20):
    threading.Thread(target=over.wait, daemon=True).start()
gc.freeze()  # for quick collections
for allocations in range(1, 200):
    gc.collect()
    cycle = Cycle()
    cycle.itself, cycle.local = cycle, threading.local()
    cycle.local.value = 1
    del cycle
    gc.set_threshold(allocations)
    private_names.frame_of(0)
    gc.set_threshold(700)
gc.disable()
private_names.frame_of(0)
assert not gc.isenabled()
over.set()
"""


def test_a_look_at_the_frame_of_another_thread_never_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", FINDS_FRAMES], check=False, timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_is_suspended_is_freed_without_running_its_finally() -> None:
    ran: list[str] = []

    def code() -> Generator[None]:
        try:
            yield
        finally:
            ran.append("finally")

    suspended = code()
    next(suspended)
    private_names.set_finalized(suspended)
    assert gc.is_finalized(suspended), "a paused run that leaves memory would run its clean-up"
    del suspended
    gc.collect()
    assert ran == []


def test_an_exception_is_raised_in_another_thread() -> None:
    ended, began = list[type[BaseException]](), threading.Event()

    def busy() -> None:
        began.set()
        try:
            while True:
                pass
        except KeyError as error:
            ended.append(type(error))

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    assert began.wait(60)
    assert private_names.raise_in(thread.ident, KeyError) is None
    thread.join(60)
    assert ended == [KeyError], "workflow code that is busy for ever is not interrupted"


def test_an_instruction_tells_the_line_of_a_frame() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    at, line = private_names.instruction_of(frame), frame.f_lineno
    found = private_names.line_of(frame.f_code, at)
    assert found == line, "errors about a missing await name another line"


def test_the_bytecode_tells_lambdas_of_the_same_names_apart() -> None:
    def add() -> Any:
        return lambda a, b: a + b

    def made(source: str) -> bytes:
        return private_names.bytecode_of(eval(source).__code__)

    assert made("lambda a, b: a + b") == private_names.bytecode_of(add().__code__)
    assert made("lambda a, b: a + b") != made("lambda a, b: a - b"), (
        "a changed lambda is not noticed at replay"
    )


@in_asyncio
async def test_pydantic_ai_calls_functions_in_place_or_in_threads() -> None:
    here = threading.get_ident()
    with private_names.threads_disabled():
        assert await run_in_executor(threading.get_ident) == here, "workflow code starts threads"
        private_names.enable_threads()
        assert await run_in_executor(threading.get_ident) != here, "a plain tool blocks the worker"


def test_what_is_registered_is_called_while_executors_take_work(tmp_path: Path) -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
from signoff.runtime import private_names
pool = ThreadPoolExecutor()
pool.submit(str).result()  # Python 3.12 starts no thread any more
private_names.before_threads_end(lambda: print(pool.submit(str, 1).result()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "1\n", f"a process hangs if it does not leave its worker: {done.stderr}"


def test_streams_have_the_profile_of_their_model() -> None:
    class Stream:
        _model_profile = {"supports_tools": True}

    assert private_names.profile_of(Stream()) == {"supports_tools": True}
    assert private_names.profile_of(object()) == {}
    models = Path(pydantic_ai.__file__).parent / "models"
    streaming = models / "openai/_chat_streaming.py"
    source = (streaming if streaming.exists() else models / "openai.py").read_text()
    assert "_model_profile" in source, "an answer that an OpenAI-compatible provider cut off is not noticed"


def test_a_class_reads_by_another_schema_than_its_own() -> None:
    class Inner(BaseModel):
        text: str

    class Outer(BaseModel):
        inner: Inner

    schema: Any = TypeAdapter(Outer).core_schema
    inner = schema["schema"]["fields"]["inner"]["schema"]
    inner["schema"]["fields"]["text"]["schema"] = core_schema.int_schema()
    made = private_names.own_validator(schema, core_schema.CoreConfig())
    assert made is not None, "Literal[PlainEnum.MEMBER] cannot be read in models"
    assert made.validate_json('{"inner":{"text":1}}').inner.text == 1


def test_the_method_that_durable_overrides_is_there() -> None:
    assert callable(getattr(BaseDurabilityCapability, "_model_stream_event_handler", None)), (
        "what a model says is not published while it says it"
    )


def test_no_other_module_uses_private_names_of_python_or_libraries() -> None:
    package = Path(signoff.__file__).parent
    private = re.compile(
        r"\b(asyncio|sys|threading|gc|inspect|pydantic|pydantic_ai|anyio|httpx|starlette)(\.\w+)*\._(?!_)\w+"
        r"|^\s*(from|import) (asyncio|pydantic|pydantic_ai|anyio|httpx|starlette)(\.\w+)*\._(?!_)"
        r"|^\s*from (asyncio|pydantic|pydantic_ai|anyio|httpx|starlette)[\w.]* import .*\b_(?!_)\w+",
        re.MULTILINE,
    )
    bytecode = re.compile(r"\b(co_code|f_lasti|tb_lasti|pythonapi)\b|^\s*import (dis|opcode)\b", re.MULTILINE)
    found = [
        f"{file.relative_to(package)}: {match[0].strip()}"
        for file in package.rglob("*.py")
        if file.name != "private_names.py"
        for match in [*private.finditer(file.read_text()), *bytecode.finditer(file.read_text())]
    ]
    assert found == []
