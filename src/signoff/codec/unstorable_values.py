"""Refusals of values that cannot be stored: the reason, the path and the remedy."""

from __future__ import annotations

import functools
import io
import socket
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Iterator, MappingView
from typing import NoReturn

from pydantic import Secret, SecretBytes, SecretStr

MAX_DEPTH = 100
"""Maximum nesting of a value. The JSON parser stops at 200, which leaves room for the records around a value."""

SECRETS = (SecretStr, SecretBytes, Secret)

TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels; make it flatter"
"""The reason for a container that is nested too deep. A container that contains itself is detected the same way."""


class Unfit(Exception):
    """A value cannot be stored.

    Attributes:
        reason: The problem and the remedy.
        trail: ``(key, container)`` of each container it is in, from the innermost outwards.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.trail: list[tuple[object, object]] = []

    def at(self, key: object, container: object) -> Unfit:
        """Add a container to the trail. Returns itself, to be raised."""
        self.trail.append((key, container))
        return self

    def under(self, root: str) -> tuple[str, str]:
        """Return the path and the reason.

        Args:
            root: The name of the outermost value, such as ``args.order``.

        Returns:
            The path and the reason. For a value that contains itself, the path ends at the repetition.
        """
        path, seen = root, set[int]()
        for depth, (key, container) in enumerate(reversed(self.trail)):
            if id(container) in seen:
                return path, "contains itself; refer to it by an id instead"
            seen.add(id(container))
            if depth < 10 or self.reason != TOO_DEEP:
                path += segment(key)
        return path, self.reason


def refuse(value: object, _depth: int = 0) -> NoReturn:
    """Refuse a value of a type that cannot be stored, with advice for that type."""
    advice = next((text for kinds, text in _ADVICE if isinstance(value, kinds)), None) or _advice_by_module(
        value
    )
    what = f"the class {name_of(value)}" if isinstance(value, type) else f"of type {name_of(type(value))}"
    raise Unfit(f"is {what}, which cannot be stored; {advice}")


def segment(key: object) -> str:
    """Return one part of a path: ``.name`` for identifiers, ``[3]`` for other keys."""
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    try:
        text = repr(key)
    except Exception:  # a number with too many digits, or a class whose repr fails
        text = name_of(type(key))
    return f"[{text if len(text) <= 60 else text[:60] + '...'}]"


def name_of(kind: type) -> str:
    """Return the name of a type with its module, or without for builtins."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _advice_by_module(value: object) -> str:
    module = type(value).__module__.partition(".")[0]
    return next((text for names, text in _ADVICE_BY_MODULE if module in names), _DEFAULT_ADVICE)


_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)

_ADVICE_BY_MODULE = (
    (
        ("numpy", "pandas", "polars"),
        "convert it to Python's own, such as by .item(), .tolist() or .to_dict()",
    ),
    (("ipaddress", "re", "fractions", "zoneinfo"), "pass it as text, or as a field of a pydantic model"),
)
_DEFAULT_ADVICE = "make it a dataclass or a pydantic model, or pass plain data"
_ADVICE: tuple[tuple[tuple[type, ...], str], ...] = (
    (SECRETS, "it would come back masked: pass the secret's name and read it inside the step that needs it"),
    ((BaseException,), "raise it, or pass str(error)"),
    ((Awaitable,), "await it and pass what it gives"),
    ((io.IOBase,), "pass its path and open it inside the step that needs it"),
    ((AsyncIterator, Iterator, MappingView, range), "collect it into a list"),
    ((types.MappingProxyType,), "copy it into a dict"),
    ((bytearray, memoryview), "copy it into bytes"),
    ((socket.socket,), "open it inside the step that needs it"),
    ((type(threading.Lock()), type(threading.RLock())), "it guards one process: create it inside the step"),
    ((types.ModuleType, type), "pass its name"),
    (_CODE, "pass data, not code"),
)
