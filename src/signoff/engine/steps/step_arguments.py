"""Arguments of step functions: copies of the workflow's objects, identical for every attempt."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, cast

from signoff.engine.run.call_inputs import names_of
from signoff.engine.run.value_copies import (
    UNCHANGING,
    Memo,
    are_unchanging,
    copied,
    is_data,
    may_hold_objects,
    objects_in,
)
from signoff.engine.steps.captured_values import (
    brings_nothing,
    is_of_process,
    is_process_wide,
    line_of,
    object_text,
    own_values,
    shared_texts,
)
from signoff.engine.steps.detached_functions import (
    changed_values,
    changed_variables,
    detached,
    is_equal,
    with_values,
)
from signoff.runtime.loggers import own_logger

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
class StepArguments:
    """A function and its arguments as of the step's call.

    Attributes:
        function: The function, with its own copies of closed-over variables.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        is_shared: Whether attempts get these very objects.
        brought: The texts of other values that the function shares with the run's code, by name; None without any.
        shared: The texts of arguments that are not data and so are not copied, by name; None if all are data.
        values: The variables of a function whose variables are all immutable, from which its copies are made; None
            otherwise.
        is_taken: Whether an attempt has received the function itself, with its own variables.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    is_shared: bool
    brought: Mapping[str, str] | None = None
    shared: Mapping[str, str] | None = None
    values: tuple[Any, ...] | None = None
    is_taken: bool = False

    @property
    def shares_all(self) -> bool:
        """Whether attempts get the original objects and their changes are not checked."""
        return self.is_shared and not self.brought and not self.shared

    @classmethod
    def now(
        cls,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        is_known: bool = False,
    ) -> StepArguments:
        """Copy a function and its arguments as they are now.

        Args:
            function: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            is_known: Whether it is a module-level function or a method of a module-level class, without a closure.
        """
        if is_known:
            given = _copies_for(function, args, kwargs, {}, is_fixed=True)
            if type(function) is not FunctionType and not brings_nothing(function):
                given.brought = shared_texts(function)
            given.shared = given._shared_arguments()
            return given
        values = own_values(function)
        if values is not None and not kwargs and are_unchanging(args):
            made = with_values(cast("FunctionType", function), values)
            return cls(made, args, kwargs, False, values=values)
        given = _copy_of(function, args, kwargs)
        if not brings_nothing(function):
            given.brought = shared_texts(function)
        given.shared = given._shared_arguments()
        return given

    def fresh(self) -> StepArguments:
        """Return copies for one attempt."""
        if self.values is not None:
            if self.is_taken:
                again = with_values(cast("FunctionType", self.function), self.values)
                return StepArguments(again, self.args, self.kwargs, False, values=self.values)
            self.is_taken = True
            return self
        return self if self.is_shared else _copy_of(self.function, self.args, self.kwargs)

    def warn_of_changes(self, step: str, called: StepArguments, roots: Sequence[object]) -> None:
        """Warn, once for each, about data that the step's code has modified in place.

        Args:
            step: The step's name.
            called: The function and arguments that an attempt has used.
            roots: Objects shared by all runs of the code, besides modules.
        """
        if self.values is not None:
            made = cast("FunctionType", called.function)
            if not changed_values(made, self.values):
                return
            for name in changed_variables(made, with_values(made, self.values)):
                self._warn(step, name, _VARIABLE)
            return
        if called is not self and not self._is_unchanged(called):
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
                value = dict(self._objects())[name]
                if not is_of_process(value, roots):
                    self._warn(step, name, _SHARED)

    def _is_unchanged(self, called: StepArguments) -> bool:
        """Whether a function without variables of its own surely left its arguments unchanged."""
        if (
            called.function is not self.function
            or self.kwargs
            or isinstance(self.function, functools.partial)
        ):
            return False
        for before, after in zip(self.args, called.args, strict=True):
            if after is not before and not is_equal(before, after):
                return False
        return True

    def _shared_arguments(self) -> dict[str, str]:
        for each in (*self.args, *self.kwargs.values()) if self.kwargs else self.args:
            if not is_data(each) or may_hold_objects(each):
                break
        else:  # the common case
            if not isinstance(self.function, functools.partial):
                return {}
        texts = ((name, object_text(value)) for name, value in self._objects())
        return {name: text for name, text in texts if text is not None}

    def _objects(self) -> Iterator[tuple[str, Any]]:
        """Yield arguments that are not data, and such objects inside lists, tuples and dicts among the arguments."""
        for name, value, _ in self._arguments(self):
            if is_data(value):
                yield from objects_in(value, name)
            else:
                yield name, value

    def _arguments(self, called: StepArguments) -> Iterator[tuple[str, Any, Any]]:
        """Yield the arguments, including those of partial functions: name, original and current value."""
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


def _whole(given: StepArguments) -> StepArguments:
    """Return the call with the arguments of partial functions among its own."""
    function, args, kwargs = given.function, given.args, given.kwargs
    while isinstance(function, functools.partial):
        made = cast("functools.partial[Any]", function)
        function, args, kwargs = made.func, (*made.args, *args), {**made.keywords, **kwargs}
    return StepArguments(function, args, kwargs, given.is_shared)


def _copy_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepArguments:
    memo: Memo = {}
    made = detached(function, memo)
    return _copies_for(made, args, kwargs, memo, is_fixed=made is function)


def _copies_for(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    memo: Memo,
    *,
    is_fixed: bool,
) -> StepArguments:
    if args:
        given = [each if type(each) in UNCHANGING else copied(each, memo) for each in args]
        is_fixed = is_fixed and all(map(operator.is_, given, args))
        args = given
    if kwargs:
        named = {name: copied(each, memo) for name, each in kwargs.items()}
        is_fixed = is_fixed and all(named[name] is each for name, each in kwargs.items())
        kwargs = named
    return StepArguments(function, args, kwargs, is_fixed)
