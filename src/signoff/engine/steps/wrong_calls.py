"""Detects calls of Signoff's functions with wrong arguments, which a retry would repeat."""

from __future__ import annotations

import re
import sys
from types import FunctionType
from typing import Final

_REFUSAL: Final = re.compile(r"(?P<name>[\w.<>]+)\(\) (?:got|missing|takes) ")
"""Python's TypeError for a wrong call: ``pause() got an unexpected keyword argument 'assignee'``."""

_MODULES: Final = ("signoff", "signoff.agents", "signoff.flows")


def is_wrong_call(error: BaseException) -> bool:
    """Return whether an error is Python's TypeError for a call of a public function or method of Signoff."""
    if type(error) is not TypeError or not (match := _REFUSAL.match(str(error))):
        return False
    name = match["name"]
    return any(_has(module, name) for module in _MODULES if module in sys.modules)


def _has(module: str, name: str) -> bool:
    """Whether a module exports a function with this qualified name, or a class with such a method."""
    exported = sys.modules[module]
    for each in getattr(exported, "__all__", ()):
        found: object = getattr(exported, each, None)
        if isinstance(found, FunctionType) and found.__qualname__ == name:
            return True
        if isinstance(found, type) and any(
            name.startswith(f"{kind.__qualname__}.") for kind in found.__mro__
        ):
            return True
    return False
