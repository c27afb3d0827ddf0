"""Calls of a context must be awaited. One dropped or kept without an await fails the run, with its line."""

from __future__ import annotations

import asyncio
import gc
import inspect
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from signoff.engine.run.user_code_lines import calling_line, line_in
from signoff.errors import NotAwaited
from signoff.runtime.private_names import instruction_of

if TYPE_CHECKING:
    from signoff.engine.run.execution import Execution


class MissingAwait(NotAwaited, AttributeError):
    """Raised when code reads an attribute of a call instead of awaiting it. ``hasattr`` sees a missing attribute."""


class _NoValue:
    """An object that cannot be tested for truth, compared or used as a value."""

    __slots__ = ()

    @property
    def label(self) -> str:
        """Its description in errors."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        frame = inspect.currentframe()
        raise NotAwaited("this run", self.label, calling_line(frame and frame.f_back), "was tested for truth")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None or isinstance(other, (_NoValue, asyncio.Future)):
            return False
        frame = inspect.currentframe()
        raise NotAwaited(
            "this run", self.label, calling_line(frame and frame.f_back), f"was compared with {other!r}"
        )

    __hash__ = object.__hash__

    if not TYPE_CHECKING:  # type checkers already reject these uses

        def _use(self, *operands: object) -> NoReturn:
            frame = inspect.currentframe()
            raise NotAwaited(
                "this run", self.label, calling_line(frame and frame.f_back), "was used as a value"
            )

        __getitem__ = __len__ = __int__ = __float__ = __neg__ = __round__ = _use
        __lt__ = __le__ = __gt__ = __ge__ = _use
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _use
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __or__ = __ror__ = __and__ = __rand__ = _use


def _missing_attribute(self: _NoValue, name: str) -> NoReturn:
    kind = type(self)
    if name.startswith("_") or inspect.getattr_static(kind, name, None) is not None:
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    frame = inspect.currentframe()
    raise MissingAwait(
        "this run", self.label, calling_line(frame and frame.f_back), f"had its attribute {name!r} read"
    )


class Awaited(_NoValue):
    """An object that must be awaited. Reading its attributes is an error, even after the await."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers already know that it has no such attributes
        __getattr__ = _missing_attribute


class AroundCall(Awaited):
    """An awaitable around a call. Sets of them have one order at every replay."""

    _call: Any

    def __hash__(self) -> int:
        return hash(self._call)


class Built(_NoValue):
    """A call that the run's code has built and must await. Until then, reading its attributes is an error.

    Its hash is its number among the calls that the code has built: a set of calls has one order at every replay.

    A subclass calls ``_build`` at construction and ``_take`` when it is awaited. The line that built it is kept as code
    and instruction, since a frame would keep all its variables alive.
    """

    __slots__ = ("__weakref__", "_at", "_code", "_execution", "_is_begun", "_number", "_setbacks")

    _code: CodeType | None

    _awaited: ClassVar[Any]  # pairs of classes for the same calls: awaited and not awaited yet
    _unawaited: ClassVar[Any]

    own_depth: ClassVar[Literal[2, 4]] = 2
    """The number of frames that are surely Signoff's: `_build`, the `__init__` that calls it, and so on."""

    depth: ClassVar[int] = 8
    """How many further frames are searched for the line that built it."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_awaited" in vars(cls):
            return
        # A separate class, since CPython reads attributes much more slowly where there is a __getattr__.
        names = {"__slots__": (), "__doc__": cls.__doc__, "__module__": cls.__module__, "_awaited": cls}
        cls._awaited = cls
        cls._unawaited = type(cls)(cls.__name__, (cls,), {**names, "__getattr__": _missing_attribute})

    def _build(self, execution: Execution) -> None:
        self.__class__ = self._unawaited
        self._execution = execution
        self._is_begun = False
        self._setbacks = execution.setbacks
        execution.unbegun += 1
        execution.built += 1
        self._number = execution.built
        # No loop, for speed, and no variable for a frame: it would keep the call alive.
        frame: Any = inspect.currentframe()
        frame = frame.f_back.f_back
        if self.own_depth == 4:
            frame = frame.f_back.f_back
        # not by its code object, whose access raises an audit event
        module = None if frame is None else frame.f_globals.get("__name__")
        if type(module) is not str or module[:8] == "signoff.":
            frame = None if self.depth == 1 else _users_frame(frame, self.depth)
        if frame is None:
            self._code, self._at = None, 0
        else:
            self._code, self._at = frame.f_code, instruction_of(frame)

    def __hash__(self) -> int:
        return self._number

    def _take(self) -> None:
        """Note that it is awaited, or that there is nothing to await."""
        if not self._is_begun:
            self.__class__ = self._awaited
            self._is_begun = True
            self._execution.unbegun -= 1

    def excuse(self) -> None:
        """Note that it need not be awaited: the task that would have awaited it was cancelled."""
        self._take()

    @property
    def built_at(self) -> str:
        """The line that built it."""
        return "an unknown line" if self._code is None else line_in(self._code, self._at)

    @property
    def is_sure(self) -> bool:
        """Whether no error or cancellation occurred since it was built, which would excuse the missing await."""
        return self._setbacks == self._execution.setbacks

    def __del__(self) -> None:
        if getattr(self, "_is_begun", True):  # a refused call does not exist
            return
        frame = inspect.currentframe()
        dropping = frame and frame.f_back
        is_sure = self.is_sure or (dropping is not None and dropping.f_code is self._code)
        self._take()
        self._execution.drop(self.label, self.built_at, is_sure=is_sure)


def _users_frame(frame: FrameType | None, depth: int) -> FrameType | None:
    """Return the innermost frame that is not Signoff's, among so many; None if all are."""
    while frame is not None and depth:
        module = frame.f_globals.get("__name__")
        if type(module) is not str or module[:8] != "signoff.":
            return frame
        frame = frame.f_back
        depth -= 1
    return None


def report_left(execution: Execution) -> None:
    """Report the calls that a run's code has built and neither awaited nor dropped."""
    left = [each for each in gc.get_objects() if issubclass(type(each), Built) and _is_left(each, execution)]
    for each in left:
        execution.drop(each.label, each.built_at, is_sure=each.is_sure)


def _is_left(each: Built, execution: Execution) -> bool:
    return each._execution is execution and not each._is_begun  # pyright: ignore[reportPrivateUsage]
