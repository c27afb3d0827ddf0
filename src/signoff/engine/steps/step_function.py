"""Cached facts about step functions, collected once and looked up for each step.

Only module-level functions and methods are cached. Partial functions, local functions and callable objects may differ,
or hold other data, at each call.
"""

from __future__ import annotations

import inspect
import json
import sys
import weakref
from collections.abc import Sequence
from math import isfinite
from types import FunctionType, MethodType
from typing import Any, Final, cast

from pydantic_core import to_json

from signoff import codec
from signoff.engine.run.call_inputs import BRINGING, READABLE, argument_text, folded_object, own
from signoff.engine.steps.function_identity import PART, identity_of, shortened
from signoff.engine.steps.step_options import StepOptions

_LARGEST: Final = 2**63
"""Larger integers are left to the codec, which limits them."""


class StepFunction:
    """Facts about a module-level function.

    Attributes:
        is_bound: Whether it is called as a method. Its object may hold other data at each call.
        is_async: Whether it is a coroutine function.
        is_own: Whether it is Signoff's own; see ``call_inputs.own``.
        least: The minimum number of positional arguments.
        most: The maximum number; -1 if it cannot be called with positional arguments only.
        options: The default options of a step that calls it, with its declared return type.
    """

    __slots__ = (
        "_heads",
        "_home",
        "_kind",
        "_name",
        "_names",
        "_of",
        "_single",
        "_tail",
        "_tail_home",
        "is_async",
        "is_bound",
        "is_own",
        "least",
        "most",
        "options",
    )

    def __init__(
        self,
        function: FunctionType,
        reference: weakref.ref[FunctionType],
        returns: Any,
        *,
        is_bound: bool = False,
    ) -> None:
        code = function.__code__
        self._of = reference
        self.is_bound = is_bound
        self.is_async = bool(code.co_flags & inspect.CO_COROUTINE)
        self.is_own = own(function)
        self.most = code.co_argcount - is_bound
        self.least = self.most - len(function.__defaults__ or ())
        if code.co_flags & inspect.CO_VARARGS:
            self.most = sys.maxsize
        if code.co_kwonlyargcount > len(function.__kwdefaults__ or ()):
            self.most = -1
        self.options = StepOptions(returns=returns)
        self._home, _, self._name = (identity_of(function) or "").partition(":")
        self._tail, self._tail_home = "", None
        self._kind: weakref.ref[type] | None = (
            None  # for a method, the class or the object's class of its last call
        )
        self._names = names = code.co_varnames[int(is_bound) : code.co_argcount]
        self._heads = [f"{json.dumps(name)}:" for name in names]
        self._single = (
            f'{{"args":{{{self._heads[0]}' if self._heads and len(self._heads[0]) < READABLE // 2 else ""
        )

    def is_of(self, function: object) -> bool:
        """Return whether these are the facts of this very function."""
        return self._of() is function

    def tail_of(self, name: str, home: str, function: object) -> str | None:
        """Return the end of a step's inputs, which identifies its function; None if the step's name identifies it.

        Args:
            name: The step's name.
            home: The module of the workflow's function.
            function: The function, or a method with this function.
        """
        if not self.is_bound:
            if name == self._name and home == self._home:
                return None
            if home != self._tail_home:
                self._tail, self._tail_home = _tail(function, home), home
            return self._tail
        bound: object = cast("MethodType", function).__self__
        kind = bound if isinstance(bound, type) else type(bound)  # a class method's object is its class
        if self._kind is None or self._kind() is not kind or home != self._tail_home:
            self._kind = weakref.ref(kind)
            self._tail, self._tail_home = _tail(function, home), home
        return self._tail

    def inputs_of(self, call: str, args: Sequence[Any]) -> str | None:
        """Return the text of a call's inputs, as ``arguments_text`` makes it.

        Args:
            call: The call's name, for warnings.
            args: Its arguments, all positional; at least one.

        Returns:
            The text; None if an argument has no name.
        """
        if len(args) == 1 and type(args[0]) is int and self._single and -_LARGEST < args[0] < _LARGEST:
            # Fast path: most steps of a busy run are called with an id.
            return f"{self._single}{args[0]!r}}}}}"
        if len(args) > len(self._heads):
            return None
        parts: list[str] = []
        others: list[int] = []  # arguments that are not plain; with any, texts are written in ASCII
        for head, each in zip(self._heads, args, strict=False):
            kind = cast("Any", type(each))
            if (kind is int and -_LARGEST < each < _LARGEST) or (kind is float and isfinite(each)):
                parts.append(f"{head}{each!r}")
            elif each is None or kind is bool:
                parts.append(head + _CONSTANTS[each])
            elif kind is str and (text := _readable(each)) is not None:
                parts.append(head + text)
            elif kind in BRINGING:
                return None  # it may capture values
            else:
                others.append(len(parts))
                parts.append(head + argument_text(call, self._of(), self._names[len(parts)], each))
        text = parts[0] if len(parts) == 1 else ",".join(parts)
        if not others and len(text) <= READABLE:
            return f'{{"args":{{{text}}}}}'
        if not text.isascii():
            for index, each in enumerate(args):
                if index not in others and type(each) is str:
                    text = argument_text(call, self._of(), self._names[index], each)
                    parts[index] = self._heads[index] + text
        return f'{{"args":{folded_object(parts)}}}'


def _tail(function: object, home: str) -> str:
    return f'"{PART}":{json.dumps(shortened(identity_of(function), home))}}}'


def _readable(text: str) -> str | None:
    """Return a short text as JSON; None if it is long or not Unicode."""
    if len(text) > READABLE:
        return None
    try:
        written = to_json(text).decode()
    except Exception:
        return None
    return written if len(written) <= READABLE else None


_CONSTANTS: Final = {None: "null", True: "true", False: "false"}

# By identity, since a weak dictionary is much slower. An entry is removed with its function.
_known: dict[int, StepFunction] = {}
_methods: dict[int, StepFunction] = {}  # by the identities of their functions


def step_function_of(function: object) -> StepFunction | None:
    """Return the facts about a function; None if it is not a module-level function or not known yet."""
    known = _known.get(id(function))
    if known is not None and known.is_of(function):
        return known
    if type(function) is MethodType:
        plain = function.__func__
        known = _methods.get(id(plain))
        if known is not None and known.is_of(plain):
            return known
        if codec.return_annotation(function) is not codec.return_annotation(plain):
            return None  # like `Self`, it depends on the object's class
        return _learn(plain, _methods, is_bound=True)
    return _learn(function, _known, is_bound=False)


def _learn(function: object, known: dict[int, StepFunction], *, is_bound: bool) -> StepFunction | None:
    if type(function) is not FunctionType or function.__closure__ is not None:
        return None
    if "<locals>" in function.__qualname__:
        return None
    returns, is_settled = codec.settled_return_annotation(function)
    if not is_settled or (is_bound and not function.__code__.co_argcount):
        return None
    key = id(function)
    # Bound as a default: functions are also collected when this module's globals are gone.
    reference = weakref.ref(function, lambda gone, forget=_forget: forget(known, key))
    known[key] = callee = StepFunction(function, reference, returns, is_bound=is_bound)
    return callee


def _forget(known: dict[int, StepFunction], key: int) -> None:
    callee = known.get(key)
    if callee is not None and callee.is_of(None):  # otherwise another function has its place
        del known[key]
