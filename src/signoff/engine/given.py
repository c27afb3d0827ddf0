"""What a step's function is given: copies of what the workflow called it with, the same at every attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signoff.engine.captured import changed_variables, detached
from signoff.engine.copies import UNCHANGING, Memo, copied

log = logging.getLogger("signoff.workflow")

_MOST_WARNINGS: Final = 1_000

_warned: set[tuple[str, str]] = set()


@dataclass(slots=True)
class Given:
    """A function and its arguments as they were when the step was called.

    Attributes:
        function: The function; what it closes over is its own.
        args: Its arguments by position.
        kwargs: Its arguments by name.
        is_shared: Whether attempts get these very objects.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    is_shared: bool

    @classmethod
    def now(
        cls,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        is_shared: bool,
    ) -> Given:
        """Keep a function and its arguments as they are now.

        Args:
            function: The function.
            args: Its arguments by position.
            kwargs: Its arguments by name.
            is_shared: Whether attempts get these very objects, and no copies.
        """
        return cls(function, args, kwargs, True) if is_shared else _copy_of(function, args, kwargs)

    def fresh(self) -> Given:
        """Return copies for one attempt."""
        return self if self.is_shared else _copy_of(self.function, self.args, self.kwargs)

    def warn_of_changes(self, step: str, called: Given) -> None:
        """Warn, once for each, of variables of the workflow that the code of a step has changed.

        Args:
            step: The step's name.
            called: What an attempt has called.
        """
        for name in changed_variables(called.function, self.function):
            about = (getattr(self.function, "__qualname__", step), name)
            if about in _warned or len(_warned) >= _MOST_WARNINGS:
                continue
            _warned.add(about)
            log.warning(
                "step %r changed %r, a variable of the workflow. The change is lost: a step works on a copy, since a "
                "replay does not run it again. Return the value, and change the variable in the workflow",
                step,
                name,
            )


def _copy_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Given:
    memo: Memo = {}
    made = detached(function, memo)
    is_fixed = made is function
    if args:
        given = tuple(each if type(each) in UNCHANGING else copied(each, memo) for each in args)
        is_fixed = is_fixed and all(one is other for one, other in zip(given, args, strict=True))
        args = given
    if kwargs:
        named = {name: copied(each, memo) for name, each in kwargs.items()}
        is_fixed = is_fixed and all(named[name] is each for name, each in kwargs.items())
        kwargs = named
    return Given(made, args, kwargs, is_fixed)
