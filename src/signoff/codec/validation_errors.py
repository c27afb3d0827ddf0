"""Pydantic's ``ValidationError`` to data and back. It keeps its problems in native code, not in ``args``."""

from __future__ import annotations

import itertools
from typing import Any, Final, cast

from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError, ValidationError

KEY: Final = "$problems"
"""The key of the problems in the attributes of an error's record."""


def describe(error: ValidationError) -> dict[str, Any]:
    """Describe an error for ``rebuild``.

    Returns:
        Its title, its problems and how it shows inputs.
    """
    problems = error.errors(include_url=False)
    described: dict[str, Any] = {
        "title": error.title,
        "problems": [
            {
                "type": each["type"],
                "loc": list(each["loc"]),
                "input": each["input"],
                "ctx": each.get("ctx"),
                "msg": each["msg"],
            }
            for each in problems
        ],
    }
    for input_type, hide_input in itertools.product(("python", "json"), (False, True)):
        shown = described | {"input_type": input_type, "hide_input": hide_input}
        if str(rebuild(shown)) == str(error):
            return shown
    return described


def rebuild(described: dict[str, Any]) -> ValidationError:
    """Make the error that ``describe`` described.

    Raises:
        Exception: Pydantic rejects the problems.
    """
    return ValidationError.from_exception_data(
        described["title"],
        [_line(each) for each in described["problems"]],
        described.get("input_type", "python"),
        described.get("hide_input", False),
    )


def _line(problem: dict[str, Any]) -> InitErrorDetails:
    name, context = problem["type"], problem["ctx"]
    line: dict[str, Any] = {"type": name, "loc": tuple(problem["loc"]), "input": problem["input"]}
    if context is not None:
        line["ctx"] = context
    if not _is_known(name, context):
        # its message template is not available, so the message itself takes its place
        line["type"] = PydanticCustomError(name, problem["msg"], context)
    return cast("InitErrorDetails", line)


def _is_known(name: Any, context: dict[str, Any] | None) -> bool:
    """Whether pydantic defines this type of problem."""
    try:
        PydanticKnownError(name, context)
    except KeyError:
        return False
    return True
