"""Plain enum members in ``Literal``. Pydantic reads them from Python objects only; JSON has their values."""

from __future__ import annotations

import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Literal, cast

from pydantic_core import core_schema

_NOT_SCHEMAS: Final = frozenset(
    {"metadata", "serialization", "cls", "config", "default", "expected", "members"}
)
"""Parts of a core schema that hold the user's data or classes."""


def is_one(part: object) -> bool:
    """Whether a type is a ``Literal`` with a member of an enum that is not a ``str`` or ``int`` enum."""
    return typing.get_origin(part) is Literal and any(map(_is_plain_member, typing.get_args(part)))


def by_value(schema: Any) -> Any:
    """Return a core schema that also reads such members by their values."""
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
    """Return a function that maps values to their plain members; None if there are no such members."""
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
