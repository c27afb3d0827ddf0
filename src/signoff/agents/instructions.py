"""Calls back before each instruction of given frames, and of no others."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, Protocol

Look = Callable[[FrameType, int], None]
"""Is given a frame and the offset of the instruction that it is about to run; what it raises is raised there."""


class Watching(Protocol):
    """How a version of Python does it. As a context manager: while a task goes on."""

    def watch(self, frame: FrameType, look: Look, is_outermost: bool) -> None:
        """Call back for a frame of this thread; the outermost of those that run here comes last."""
        ...

    def unwatch(self, frame: FrameType) -> None:
        """Call back for it no more."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> None: ...


class Tracing:
    """By a trace function, in Python 3.11.

    It is the thread's only while frames that are watched run, and is the one that was there before ever after.
    """

    def __init__(self) -> None:
        self._thread = threading.local()

    def watch(self, frame: FrameType, look: Look, is_outermost: bool) -> None:
        frame.f_trace_opcodes = True
        frame.f_trace = _Trace(self._trace, _Traced(look, is_outermost))
        if is_outermost:
            self._install()

    def unwatch(self, frame: FrameType) -> None:
        """Do nothing: a frame that still runs, in a thread nobody waits for, is to give its thread back."""

    def __enter__(self) -> None:
        self._install()

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _install(self) -> None:
        if sys.gettrace() is not _nothing:
            self._thread.previous = sys.gettrace()
            sys.settrace(_nothing)

    def _restore(self) -> None:
        if sys.gettrace() is _nothing:
            sys.settrace(self._thread.previous)

    def _trace(self, traced: _Traced, frame: FrameType, event: str, argument: object) -> None:
        if event == "return" and traced.is_outermost:
            self._restore()
        if event == "opcode":
            traced.raised_in = frame
            traced.look(frame, frame.f_lasti)
            traced.raised_in = None


class _Traced:
    def __init__(self, look: Look, is_outermost: bool) -> None:
        self.look = look
        self.is_outermost = is_outermost
        self.raised_in: FrameType | None = None


class _Trace(functools.partial[Any]):
    """The trace function of a frame, which Python drops, and tracing with it, once it raises: it then comes back."""

    def __del__(self) -> None:
        traced: _Traced = self.args[0]
        frame, traced.raised_in = traced.raised_in, None
        if frame is not None:
            frame.f_trace = _Trace(self.func, traced)
            sys.settrace(_nothing)


def _nothing(frame: FrameType, event: str, argument: object) -> None:
    """The trace function of a thread in which only some frames are traced."""


class Monitoring:
    """By ``sys.monitoring``, from Python 3.12 on: events of the frames' code alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[FrameType, Look] = {}
        self._frames_of: Counter[CodeType] = Counter()
        self._tool: int | None = None

    def watch(self, frame: FrameType, look: Look, is_outermost: bool) -> None:
        with self._lock:
            if frame not in self._looks:
                self._frames_of[frame.f_code] += 1
            self._looks[frame] = look
            self._set_events(frame.f_code)

    def unwatch(self, frame: FrameType) -> None:
        with self._lock:
            del self._looks[frame]
            self._frames_of[frame.f_code] -= 1
            self._set_events(frame.f_code)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def _set_events(self, code: CodeType) -> None:
        monitoring: Any = getattr(sys, "monitoring")  # noqa: B009  # the stubs are those of 3.11
        if self._tool is None:
            self._tool = next(
                (each for each in (4, 3, 5, 2, 1, 0) if monitoring.get_tool(each) is None), None
            )
            if self._tool is None:
                return
            monitoring.use_tool_id(self._tool, "signoff")
            monitoring.register_callback(self._tool, monitoring.events.INSTRUCTION, self._on_instruction)
        is_watched = self._frames_of[code] > 0
        if not is_watched:
            del self._frames_of[code]
        monitoring.set_local_events(self._tool, code, monitoring.events.INSTRUCTION if is_watched else 0)

    def _on_instruction(self, code: CodeType, offset: int) -> None:
        here = inspect.currentframe()
        frame = here and here.f_back
        look = frame and self._looks.get(frame)
        if frame and look:
            look(frame, offset)


WATCHING: Final[Watching] = Monitoring() if sys.version_info >= (3, 12) else Tracing()
