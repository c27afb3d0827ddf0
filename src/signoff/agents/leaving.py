"""What a tool's code may still do once a pause has left it: clean up.

Its frames are looked at before each instruction. Cleaning up is what runs while an exception is handled that came with
the leaving or later, and what brings it there. At anything else the code is left again: it has swallowed the leaving.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from types import CoroutineType, FrameType, GeneratorType
from typing import Any, Final

from signoff.agents.cleaning_up import instructions_of_clean_up
from signoff.agents.instructions import WATCHING, Watching

_NOT_THE_TOOL_S: Final = sys.stdlib_module_names | {"anyio", "pydantic_ai", "pydantic_graph", "uvloop"}
"""Packages whose code is never looked at: they run tools, or go on after an exception to raise it later."""

_RUNNING_TASKS: Final = (
    "asyncio.base_events",
    "asyncio.events",
    "asyncio.runners",
    "concurrent.futures.thread",
    "signoff",
    "threading",
    "uvloop",
)
"""Where the stack of a task or thread begins: what called these is no tool."""

_SUSPENDED: Final[dict[object, tuple[str, str]]] = {
    CoroutineType: ("cr_frame", "cr_await"),
    GeneratorType: ("gi_frame", "gi_yieldfrom"),
}
"""Under which names what can be awaited has its frame, and what it awaits."""


class Left(BaseException):
    """Takes a tool's code to its end; no ``except Exception`` stops it."""


class Leaving:
    """How one call of a tool leaves; ``end`` must be called when it has.

    Attributes:
        has_begun: Whether a pause has left.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._has_ended = False
        self._frames: dict[FrameType, _Watched] = {}
        self._is_main_watched = False

    def begin(self, frame: FrameType | None) -> None:
        """Look from now on at a frame and those that called it, as far as they are the tool's."""
        if self._has_ended:  # a task or thread has outlived its tool
            return
        self.has_begun = True
        frames = list(filter(_is_tool_s, _frames_of_task(frame)))
        for each in frames:
            self._watch(each, is_outermost=each is frames[-1])
        if any(each.f_code is _Steps.step.__code__ for each in _stack(frame)):
            self._is_main_watched = True

    async def run(self, body: Callable[[], Awaitable[object]]) -> object:
        """Run a tool, and look at it wherever it goes on after it was left."""

        async def tool() -> object:
            return await body()

        return await _Steps(tool(), self)

    def resume(self, coroutine: Coroutine[Any, Any, object]) -> Watching:
        """Return what looks at all that a coroutine waits in, while it goes on."""
        if not self._is_main_watched:
            # another of its tasks has left, or a thread: what is called from now on is not looked at
            self._is_main_watched = True
            for frame in filter(_is_tool_s, _suspended_frames(coroutine)):
                self._watch(frame, is_outermost=False)
        return WATCHING

    def end(self) -> None:
        """Look at nothing any more."""
        self._has_ended = True
        while self._frames:
            WATCHING.unwatch(self._frames.popitem()[0])

    def _watch(self, frame: FrameType, *, is_outermost: bool) -> None:
        self._frames[frame] = watched = _Watched()
        WATCHING.watch(frame, watched.leave_unless_cleaning_up, is_outermost)


class _Watched:
    """A frame that a pause has left."""

    def __init__(self) -> None:
        self._before: list[BaseException] | None = None

    def leave_unless_cleaning_up(self, frame: FrameType, offset: int) -> None:
        """Raise ``Left``, unless an instruction belongs to cleaning up."""
        handled = sys.exception()
        if self._before is None:
            self._before = list(_with_contexts(handled))
        is_new = handled is not None and not any(handled is each for each in self._before)
        if not is_new and offset not in instructions_of_clean_up(frame.f_code):
            raise Left


class _Steps(Awaitable[object], Generator[Any, Any, object]):
    """Goes through a coroutine step by step, and looks at it once it has left."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], leaving: Leaving) -> None:
        self._coroutine = coroutine
        self._leaving = leaving

    def __await__(self) -> Generator[Any, Any, object]:
        return self

    def send(self, value: Any) -> Any:
        return self.step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self.step(self._coroutine.throw, *error)

    def close(self) -> None:
        self.step(self._coroutine.close)

    def step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Take one step; its frame tells that the coroutine runs, and not another task of the tool."""
        if not self._leaving.has_begun:
            return step(*arguments)
        with self._leaving.resume(self._coroutine):
            return step(*arguments)


def _is_tool_s(frame: FrameType) -> bool:
    package = _module_of(frame).partition(".")[0]
    return package not in _NOT_THE_TOOL_S and package != "signoff"


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _frames_of_task(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it, up to what runs its task, thread or tool."""
    for each in _stack(frame):
        module = _module_of(each)
        if module in _RUNNING_TASKS or module.startswith("signoff."):
            return
        yield each


def _suspended_frames(awaited: object) -> Iterator[FrameType]:
    while names := _SUSPENDED.get(type(awaited)):
        frame, awaited = (getattr(awaited, name) for name in names)
        if frame is not None:
            yield frame


def _with_contexts(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__context__
