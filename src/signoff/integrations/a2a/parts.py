"""Parts of messages: JSON without losses, in both directions."""

from __future__ import annotations

import json
import math
from typing import Any, Final, cast

from a2a.helpers.proto_helpers import new_data_part, new_text_part
from a2a.types import Message, Part
from google.protobuf.json_format import MessageToDict

from signoff.errors import InvalidValue

LARGEST_INTEGER: Final = 2**53 - 1
"""Data parts carry numbers as doubles: larger integers are rounded on the way."""

_DEEPEST: Final = 20
"""Protobuf's JSON parsers stop at a depth of 100, which counts several levels for each of ours."""


def part_of(value: Any) -> Part:
    """Return a JSON value as a part: a text as text, other values as data if data can carry them, else as JSON text."""
    if isinstance(value, str) and value.isprintable():
        return new_text_part(value, media_type="text/plain")
    if _fits(value):
        return new_data_part(value, media_type="application/json")
    return new_text_part(json.dumps(value), media_type="application/json")


def text_of(message: Message) -> str:
    """Return the text of a message."""
    return "\n".join(part.text for part in message.parts if part.WhichOneof("content") == "text")


def data_of(message: Message) -> list[Any]:
    """Return the data parts of a message.

    Raises:
        InvalidValue: A part is a file, or a number may have been rounded on the way.
    """
    found: list[Any] = []
    for place, part in enumerate(message.parts):
        match part.WhichOneof("content"):
            case "text":
                pass
            case "data":
                found.append(_plain(MessageToDict(part.data), f"parts.{place}.data"))
            case _:
                raise InvalidValue(f"parts.{place}", "only texts and data are accepted")
    return found


def _plain(value: Any, path: str) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value) or abs(value) > LARGEST_INTEGER:
            raise InvalidValue(path, "numbers above 2**53 are rounded in data parts; send them as texts")
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _plain(each, f"{path}.{name}") for name, each in members.items()}
    if isinstance(value, list):
        return [_plain(each, f"{path}.{place}") for place, each in enumerate(cast("list[Any]", value))]
    return value


def _fits(value: Any, depth: int = 0) -> bool:
    if depth > _DEEPEST:
        return False
    match value:
        case bool() | None:
            return True
        case int() | float():
            return math.isfinite(value) and abs(value) <= LARGEST_INTEGER
        case str():
            return not any("\ud800" <= each <= "\udfff" for each in value)
        case dict():
            members = cast("dict[str, Any]", value)
            return all(_fits(name) and _fits(each, depth + 1) for name, each in members.items())
        case _:
            return all(_fits(each, depth + 1) for each in cast("list[Any]", value))
