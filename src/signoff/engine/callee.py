"""What is known of a function that steps call: found out once, and looked up once for each step.

Only plain functions of a module are known. Methods, partial functions, functions defined in others and callable objects
may be other ones, or hold other data, at each call.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Sequence
from math import isfinite
from types import FunctionType
from typing import Any, Final, cast

from pydantic_core import to_json

from signoff import codec
from signoff.engine.inputs import READABLE, own
from signoff.engine.step_options import StepOptions

_VARIADIC: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

_LARGEST: Final = 2**63
"""Integers above this are left to the codec, which has a limit for them."""


class Callee:
    """A plain function of a module.

    Attributes:
        is_async: Whether it is a coroutine function.
        is_own: Whether it is Signoff's own, see ``inputs.own``.
        least: How many arguments by position it surely takes at least.
        most: And at most; -1 if only its signature can say.
        options: Those of a step that calls it and says nothing else, with the type that it declares to return.
    """

    __slots__ = ("_heads", "_of", "_single", "is_async", "is_own", "least", "most", "options")

    def __init__(self, function: FunctionType, reference: weakref.ref[FunctionType], returns: Any) -> None:
        code = function.__code__
        self._of = reference
        self.is_async = bool(code.co_flags & inspect.CO_COROUTINE)
        self.is_own = own(function)
        self.most = code.co_argcount
        self.least = self.most - len(function.__defaults__ or ())
        if code.co_flags & _VARIADIC or code.co_kwonlyargcount:
            self.most = -1
        self.options = StepOptions(returns=returns)
        names = code.co_varnames[: code.co_argcount]
        self._heads = [f"{to_json(name).decode()}:" for name in names]
        self._single = (
            f'{{"args":{{{self._heads[0]}' if self._heads and len(self._heads[0]) < READABLE // 2 else ""
        )

    def is_of(self, function: object) -> bool:
        """Whether this is known of that very function."""
        return self._of() is function

    def inputs_of(self, args: Sequence[Any]) -> str | None:
        """Return the text of a call's inputs, as ``arguments_text`` makes it, if its arguments are plain and short.

        Args:
            args: Its arguments, all of them by position; at least one.

        Returns:
            The text; None if an argument is not plain, or the text would be long.
        """
        if len(args) == 1 and type(args[0]) is int and self._single and -_LARGEST < args[0] < _LARGEST:
            return f"{self._single}{args[0]!r}}}}}"  # most steps of a busy run are called with an id
        if len(args) > len(self._heads):
            return None
        parts: list[str] = []
        for head, each in zip(self._heads, args, strict=False):
            kind = cast("Any", type(each))
            if kind is str:
                if len(each) > READABLE:
                    return None
                try:
                    parts.append(head + to_json(each).decode())
                except Exception:  # text that is not Unicode
                    return None
            elif (kind is int and -_LARGEST < each < _LARGEST) or (kind is float and isfinite(each)):
                parts.append(f"{head}{each!r}")
            elif each is None or kind is bool:
                parts.append(head + _CONSTANTS[each])
            else:
                return None
        text = parts[0] if len(parts) == 1 else ",".join(parts)
        return f'{{"args":{{{text}}}}}' if len(text) <= READABLE else None


_CONSTANTS: Final = {None: "null", True: "true", False: "false"}

# By identity: a weak dictionary takes much longer. An entry goes with its function.
_known: dict[int, Callee] = {}


def callee_of(function: object) -> Callee | None:
    """Return what is known of a function; None if it is not a plain function of a module, or cannot be known yet."""
    known = _known.get(id(function))
    if known is not None and known.is_of(function):
        return known
    if type(function) is not FunctionType or function.__closure__ is not None:
        return None
    if "<locals>" in function.__qualname__:
        return None
    returns, is_settled = codec.settled_return_annotation(function)
    if not is_settled:
        return None
    key = id(function)
    _known[key] = callee = Callee(function, weakref.ref(function, lambda gone: _forget(key, gone)), returns)
    return callee


def _forget(key: int, gone: object) -> None:
    known = _known.get(key)
    if known is not None and known.is_of(None):  # else another function has its place
        del _known[key]
