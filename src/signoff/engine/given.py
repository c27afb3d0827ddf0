"""What a step's function is given: copies of what the workflow called it with, the same at every attempt."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from signoff.engine.captured import (
    changed_variables,
    detached,
    is_equal,
    is_of_process,
    is_process_wide,
    line_of,
    object_text,
    shared_texts,
)
from signoff.engine.copies import UNCHANGING, Memo, copied, is_data
from signoff.engine.inputs import names_of
from signoff.own_logs import own_logger

log = own_logger("signoff.workflow")

_MOST_WARNINGS: Final = 1_000

_LOST: Final = (
    "The change is lost: a step works on a copy, since a replay does not run it again. "
    "Return the value, and change the variable in the workflow"
)
_VARIABLE: Final = f"a variable of the workflow. {_LOST}"
_ARGUMENT: Final = f"its argument, in place. {_LOST}"
_SHARED: Final = (
    "which it shares with the workflow. A replay does not run the step again, so there the change is missing, and the "
    "run may go another way. Return the value, and change it in the workflow"
)

_warned: set[tuple[str, str]] = set()


@dataclass(slots=True)
class Given:
    """A function and its arguments as they were when the step was called.

    Attributes:
        function: The function; what it closes over is its own.
        args: Its arguments by position.
        kwargs: Its arguments by name.
        is_shared: Whether attempts get these very objects.
        brought: The texts of what else the function shares with the code of the run, by name; None: it shares nothing.
        shared: The texts of arguments that are not copied, as they are no data, by name; None: all are data.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    is_shared: bool
    brought: Mapping[str, str] | None = None
    shared: Mapping[str, str] | None = None

    @classmethod
    def now(
        cls,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Given:
        """Keep copies of a function and its arguments as they are now.

        Args:
            function: The function.
            args: Its arguments by position.
            kwargs: Its arguments by name.
        """
        given = _copy_of(function, args, kwargs)
        given.brought = shared_texts(function)
        given.shared = given._shared_arguments()
        return given

    def fresh(self) -> Given:
        """Return copies for one attempt."""
        return self if self.is_shared else _copy_of(self.function, self.args, self.kwargs)

    def warn_of_changes(self, step: str, called: Given, roots: Sequence[object]) -> None:
        """Warn, once for each, of data that the code of a step has changed in place.

        Args:
            step: The step's name.
            called: What an attempt has called.
            roots: What all runs of the code share, besides modules.
        """
        if called is not self:
            for name in changed_variables(called.function, self.function):
                self._warn(step, name, _VARIABLE)
            for name, before, after in self._arguments(called):
                if after is not before and not is_equal(before, after):
                    self._warn(step, name, _ARGUMENT)
        if self.brought:
            self._warn_of_shared(step, roots)
        if self.shared:
            now = self._shared_arguments()
            for name, text in self.shared.items():
                if now.get(name, text) == text or self._about(name) in _warned:
                    continue
                [value] = [each for known, each, _ in self._arguments(self) if known == name]
                if not is_of_process(value, roots):
                    self._warn(step, name, _SHARED)

    def _shared_arguments(self) -> dict[str, str]:
        if not self.kwargs and all(type(each) in UNCHANGING for each in self.args):  # nearly all
            return {}
        found: dict[str, str] = {}
        for name, value, _ in self._arguments(self):
            if not is_data(value) and (text := object_text(value)) is not None:
                found[name] = text
        return found

    def _arguments(self, called: Given) -> Iterator[tuple[str, Any, Any]]:
        """Yield the arguments, those of partial functions among them: their names, and what they were and are."""
        before, after = _whole(self), _whole(called)
        names = names_of(before.function, len(before.args))
        yield from zip(names, before.args, after.args, strict=True)
        for name, value in before.kwargs.items():
            yield name, value, after.kwargs[name]

    def _warn_of_shared(self, step: str, roots: Sequence[object]) -> None:
        now = shared_texts(self.function)
        for name, text in (self.brought or {}).items():
            if now.get(name, text) == text or self._about(name) in _warned:
                continue
            if not is_process_wide(self.function, [name], {}, roots):
                self._warn(step, name, _SHARED)

    def _about(self, name: str) -> tuple[str, str]:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__), name

    def _warn(self, step: str, name: str, what: str) -> None:
        about = self._about(name)
        if about not in _warned and len(_warned) < _MOST_WARNINGS:
            _warned.add(about)
            log.warning("step %r%s changed %r, %s", step, line_of(self.function), name, what)


def _whole(given: Given) -> Given:
    """Return what is called with the arguments of partial functions among its own."""
    function, args, kwargs = given.function, given.args, given.kwargs
    while isinstance(function, functools.partial):
        made = cast("functools.partial[Any]", function)
        function, args, kwargs = made.func, (*made.args, *args), {**made.keywords, **kwargs}
    return Given(function, args, kwargs, given.is_shared)


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
