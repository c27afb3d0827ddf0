"""What is known of a function that steps call: found out once, and looked up once for each step.

Only plain functions of a module, and methods that are such, are known. Partial functions, functions defined in others
and callable objects may be other ones, or hold other data, at each call.
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
from signoff.engine.steps.function_identity import PART, identity_of
from signoff.engine.steps.options import StepOptions

_LARGEST: Final = 2**63
"""Integers above this are left to the codec, which has a limit for them."""


class Callee:
    """A plain function of a module.

    Attributes:
        is_bound: Whether it is called as a method. Its object may hold other data at each call.
        is_async: Whether it is a coroutine function.
        is_own: Whether it is Signoff's own, see ``inputs.own``.
        least: How many arguments by position it surely takes at least.
        most: And at most; -1 if it cannot be called with arguments by position alone.
        options: Those of a step that calls it and says nothing else, with the type that it declares to return.
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
        self._tail = _tail(function)
        self._kind: weakref.ref[type] | None = (
            None  # of a method, the class, or that of the object, that it was called on last
        )
        self._names = names = code.co_varnames[int(is_bound) : code.co_argcount]
        self._heads = [f"{json.dumps(name)}:" for name in names]
        self._single = (
            f'{{"args":{{{self._heads[0]}' if self._heads and len(self._heads[0]) < READABLE // 2 else ""
        )

    def is_of(self, function: object) -> bool:
        """Whether this is known of that very function."""
        return self._of() is function

    def tail_of(self, name: str, home: str, function: object) -> str | None:
        """Return the end of the inputs of a step, which names its function; None if the step's name does.

        Args:
            name: The step's name.
            home: The module of the workflow's function.
            function: What the step calls: the function, or a method of which this is the function.
        """
        if not self.is_bound:
            return None if name == self._name and home == self._home else self._tail
        bound: object = cast("MethodType", function).__self__
        kind = bound if isinstance(bound, type) else type(bound)  # a class method's object is its class
        if self._kind is None or self._kind() is not kind:
            self._kind = weakref.ref(kind)
            self._tail = _tail(function)
        return self._tail

    def inputs_of(self, call: str, args: Sequence[Any]) -> str | None:
        """Return the text of a call's inputs, as ``arguments_text`` makes it.

        Args:
            call: The call's name, for warnings.
            args: Its arguments, all of them by position; at least one.

        Returns:
            The text; None if some arguments have no name.
        """
        if len(args) == 1 and type(args[0]) is int and self._single and -_LARGEST < args[0] < _LARGEST:
            return f"{self._single}{args[0]!r}}}}}"  # most steps of a busy run are called with an id
        if len(args) > len(self._heads):
            return None
        parts: list[str] = []
        others: list[int] = []  # that are not plain: if there are any, texts are spelled in ASCII
        for head, each in zip(self._heads, args, strict=False):
            kind = cast("Any", type(each))
            if (kind is int and -_LARGEST < each < _LARGEST) or (kind is float and isfinite(each)):
                parts.append(f"{head}{each!r}")
            elif each is None or kind is bool:
                parts.append(head + _CONSTANTS[each])
            elif kind is str and (text := _readable(each)) is not None:
                parts.append(head + text)
            elif kind in BRINGING:
                return None  # it may bring something along
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


def _tail(function: object) -> str:
    return f'"{PART}":{json.dumps(identity_of(function))}}}'


def _readable(text: str) -> str | None:
    """Return a text as JSON if that is short; None if it is not, or if the text is not Unicode."""
    if len(text) > READABLE:
        return None
    try:
        written = to_json(text).decode()
    except Exception:
        return None
    return written if len(written) <= READABLE else None


_CONSTANTS: Final = {None: "null", True: "true", False: "false"}

# By identity: a weak dictionary takes much longer. An entry goes with its function.
_known: dict[int, Callee] = {}
_methods: dict[int, Callee] = {}  # by the identities of their functions


def callee_of(function: object) -> Callee | None:
    """Return what is known of a function; None if it is not a plain function of a module, or cannot be known yet."""
    known = _known.get(id(function))
    if known is not None and known.is_of(function):
        return known
    if type(function) is MethodType:
        plain = function.__func__
        known = _methods.get(id(plain))
        if known is not None and known.is_of(plain):
            return known
        if codec.return_annotation(function) is not codec.return_annotation(plain):
            return None  # it depends on the object's class, as ``Self`` does
        return _learn(plain, _methods, is_bound=True)
    return _learn(function, _known, is_bound=False)


def _learn(function: object, known: dict[int, Callee], *, is_bound: bool) -> Callee | None:
    if type(function) is not FunctionType or function.__closure__ is not None:
        return None
    if "<locals>" in function.__qualname__:
        return None
    returns, is_settled = codec.settled_return_annotation(function)
    if not is_settled or (is_bound and not function.__code__.co_argcount):
        return None
    key = id(function)
    # By a default, as functions are collected also when this module's names are gone.
    reference = weakref.ref(function, lambda gone, forget=_forget: forget(known, key))
    known[key] = callee = Callee(function, reference, returns, is_bound=is_bound)
    return callee


def _forget(known: dict[int, Callee], key: int) -> None:
    callee = known.get(key)
    if callee is not None and callee.is_of(None):  # else another function has its place
        del known[key]
