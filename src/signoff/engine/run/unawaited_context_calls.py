"""What code builds of a context and must await. Dropped or kept without an await, it fails the run, with its line."""

from __future__ import annotations

import asyncio
import gc
import inspect
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from signoff.engine.run.user_code_lines import calling_line, line_in
from signoff.errors import NotAwaited

if TYPE_CHECKING:
    from signoff.engine.run.execution import Execution


class MissingAwait(NotAwaited, AttributeError):
    """Code reads an attribute of a call instead of awaiting it. For ``hasattr`` it is a missing attribute."""


class _NoValue:
    """Something that is neither true, nor equal to a value, nor used as one."""

    __slots__ = ()

    @property
    def said(self) -> str:
        """What it is, in an error."""
        return type(self).__name__

    def __bool__(self) -> bool:
        frame = inspect.currentframe()
        raise NotAwaited(
            "this run", self.said, calling_line(frame and frame.f_back), "was asked whether it is true"
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None or isinstance(other, (_NoValue, asyncio.Future)):
            return False
        frame = inspect.currentframe()
        raise NotAwaited(
            "this run", self.said, calling_line(frame and frame.f_back), f"was compared with {other!r}"
        )

    __hash__ = object.__hash__

    if not TYPE_CHECKING:  # type checkers know better: nothing of it can be used so

        def _use(self, *operands: object) -> NoReturn:
            frame = inspect.currentframe()
            raise NotAwaited(
                "this run", self.said, calling_line(frame and frame.f_back), "was used as a value"
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
        "this run", self.said, calling_line(frame and frame.f_back), f"was asked for its {name!r}"
    )


class Awaited(_NoValue):
    """Something that only an await makes sense of: reading its attributes is an error, too."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers know better: it has no such attributes
        __getattr__ = _missing_attribute


class Built(_NoValue):
    """Something that a run's code has built and must await. Until then, reading its attributes is an error.

    A subclass calls ``_build`` when it is made and ``_take`` when it is awaited. Where it was built is kept as code and
    instruction, since a frame would keep all that the code holds.
    """

    __slots__ = ("__weakref__", "_at", "_code", "_execution", "_is_begun", "_setbacks")

    _code: CodeType | None

    _awaited: ClassVar[Any]  # classes of the same calls, once awaited and until then
    _unawaited: ClassVar[Any]

    own_depth: ClassVar[Literal[2, 4]] = 2
    """How many frames are surely not the user's: of ``_build``, of the ``__init__`` that calls it, and so on."""

    depth: ClassVar[int] = 8
    """How far up the stack, from there on, the line is looked for that builds it."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_awaited" in vars(cls):
            return
        # A class of its own, since CPython reads each attribute much more slowly where there is a __getattr__.
        names = {"__slots__": (), "__doc__": cls.__doc__, "__module__": cls.__module__, "_awaited": cls}
        cls._awaited = cls
        cls._unawaited = type(cls)(cls.__name__, (cls,), {**names, "__getattr__": _missing_attribute})

    def _build(self, execution: Execution) -> None:
        self.__class__ = self._unawaited
        self._execution = execution
        self._is_begun = False
        self._setbacks = execution.setbacks
        execution.unbegun += 1
        # No loop, for its time, and no name for a frame here: that would keep what was built.
        frame: Any = inspect.currentframe()
        frame = frame.f_back.f_back
        if self.own_depth == 4:
            frame = frame.f_back.f_back
        # not by its code, whose reading CPython announces to audit hooks
        module = None if frame is None else frame.f_globals.get("__name__")
        if type(module) is not str or module[:8] == "signoff.":
            frame = None if self.depth == 1 else _users_frame(frame, self.depth)
        if frame is None:
            self._code, self._at = None, 0
        else:
            self._code, self._at = frame.f_code, frame.f_lasti

    def _take(self) -> None:
        """Note that it is awaited, or that there is nothing to await."""
        if not self._is_begun:
            self.__class__ = self._awaited
            self._is_begun = True
            self._execution.unbegun -= 1

    def excuse(self) -> None:
        """Note that it need not be awaited: the task that would have done so was cancelled."""
        self._take()

    @property
    def built_at(self) -> str:
        """The line that built it."""
        return "an unknown line" if self._code is None else line_in(self._code, self._at)

    @property
    def is_sure(self) -> bool:
        """Whether no error or cancellation has come between, which would excuse code that has not come to await it."""
        return self._setbacks == self._execution.setbacks

    def __del__(self) -> None:
        if getattr(self, "_is_begun", True):  # what was refused is not there
            return
        frame = inspect.currentframe()
        dropping = frame and frame.f_back
        is_sure = self.is_sure or (dropping is not None and dropping.f_code is self._code)
        self._take()
        self._execution.drop(self.said, self.built_at, is_sure=is_sure)


def _users_frame(frame: FrameType | None, depth: int) -> FrameType | None:
    """Return the innermost of so many frames that is not of Signoff; None if all are."""
    while frame is not None and depth:
        module = frame.f_globals.get("__name__")
        if type(module) is not str or module[:8] != "signoff.":
            return frame
        frame = frame.f_back
        depth -= 1
    return None


def report_left(execution: Execution) -> None:
    """Find what a run's code has built, and neither awaited nor dropped, and have the run note it."""
    left = [each for each in gc.get_objects() if issubclass(type(each), Built) and _is_left(each, execution)]
    for each in left:
        execution.drop(each.said, each.built_at, is_sure=each.is_sure)


def _is_left(each: Built, execution: Execution) -> bool:
    return each._execution is execution and not each._is_begun  # pyright: ignore[reportPrivateUsage]
