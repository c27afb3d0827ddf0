"""Members of plain enums in ``Literal``: pydantic reads them from Python values only, and JSON has their values."""

from __future__ import annotations

import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Literal, cast

from pydantic_core import core_schema

_NOT_SCHEMAS: Final = frozenset(
    {"metadata", "serialization", "cls", "config", "default", "expected", "members"}
)
"""Parts of a core schema that hold data, or classes, of the user's."""


def is_one(part: object) -> bool:
    """Whether a type is a ``Literal`` with a member of an enum that is neither text nor an integer."""
    return typing.get_origin(part) is Literal and any(map(_is_plain_member, typing.get_args(part)))


def by_value(schema: Any) -> Any:
    """Return a core schema that reads such members by their values, too."""
    if isinstance(schema, list | tuple):
        return [by_value(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    held = cast("dict[Any, Any]", schema)
    made: dict[Any, Any] = {
        name: each if name in _NOT_SCHEMAS else by_value(each) for name, each in held.items()
    }
    if made.get("type") == "tagged-union" and isinstance(made.get("choices"), dict):
        choices = made["choices"]
        tags = {tag.value: choice for tag, choice in choices.items() if _is_plain_member(tag)}
        made["choices"] = {**tags, **choices}
    if made.get("type") == "literal":
        read = _reader(made["expected"])
        if read is not None:
            return core_schema.no_info_before_validator_function(read, cast("Any", made))
    return made


def _reader(expected: list[Any]) -> Callable[[Any], Any] | None:
    """Return what turns the values of plain members into these; None if there are none."""
    others = {_key(each) for each in expected if not _is_plain_member(each)}
    members: dict[Any, Any] = {}
    for each in filter(_is_plain_member, expected):
        if isinstance(each.value, str | int | float) and _key(each.value) not in others:
            members[_key(each.value)] = each
    if not members:
        return None

    def read(value: Any) -> Any:
        return members.get(_key(value), value) if isinstance(value, str | int | float) else value

    return read


def _key(value: Any) -> Any:
    return type(value), value  # 1, 1.0 and True are equal


def _is_plain_member(value: object) -> bool:
    return isinstance(value, Enum) and not isinstance(value, str | int)
