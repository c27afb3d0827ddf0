"""Callbacks scheduled on Signoff's own event loops."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any


class Callback(asyncio.Handle):
    """A callback that is ready. Event loops create and run more of these than of any other object.

    Args:
        function: The function to call.
        arguments: Its positional arguments.
        context: Its context. None: a copy of the caller's.
    """

    __slots__ = ("arguments", "function", "is_cancelled", "within")

    def __init__(  # asyncio's constructor also asks the loop for its debug mode
        self,
        function: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.within = contextvars.copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def get_context(self) -> contextvars.Context:
        return self.within

    def __repr__(self) -> str:
        return _shown(self)


class TimerCallback(asyncio.TimerHandle):
    """A callback that becomes ready at a time of its loop.

    Args:
        when: The time.
        function, arguments, context: As for ``Callback``.
        closed: Called with this object when it is cancelled.
    """

    __slots__ = ("arguments", "closed", "function", "is_cancelled", "moment", "within")

    def __init__(
        self,
        when: float,
        function: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context | None,
        closed: Callable[[TimerCallback], None] | None = None,
    ) -> None:
        self.moment = when
        self.function = function
        self.arguments = arguments
        self.within = contextvars.copy_context() if context is None else context
        self.closed = closed
        self.is_cancelled = False

    def when(self) -> float:
        return self.moment

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            if self.closed is not None:
                self.closed(self)

    def cancelled(self) -> bool:
        return self.is_cancelled

    def get_context(self) -> contextvars.Context:
        return self.within

    def __hash__(self) -> int:
        return hash(self.moment)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        return self.moment < other.when()

    def __le__(self, other: asyncio.TimerHandle) -> bool:
        return self.moment <= other.when()

    def __gt__(self, other: asyncio.TimerHandle) -> bool:
        return self.moment > other.when()

    def __ge__(self, other: asyncio.TimerHandle) -> bool:
        return self.moment >= other.when()

    def __repr__(self) -> str:
        return _shown(self)


def run(callback: Callback | TimerCallback, loop: asyncio.AbstractEventLoop) -> None:
    """Run a callback unless it is cancelled. ``loop`` reports errors, as asyncio's loops do.

    Raises:
        SystemExit, KeyboardInterrupt: The function raised it.
    """
    if callback.is_cancelled:
        return
    try:
        callback.within.run(callback.function, *callback.arguments)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        report(callback, loop, error)


def report(callback: Callback | TimerCallback, loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
    """Report an exception of a callback to ``loop``."""
    loop.call_exception_handler(
        {"message": f"Exception in callback {callback!r}", "exception": error, "handle": callback}
    )


def _shown(callback: Callback | TimerCallback) -> str:
    state = " cancelled" if callback.is_cancelled else ""
    return f"<{type(callback).__name__}{state} {callback.function!r}>"
