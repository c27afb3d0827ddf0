"""What was hidden of a record or a run, and finding it again in texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import quote

from pydantic_core import from_json

PLACEHOLDER: Final = "[redacted]"
"""What stands for what is hidden."""

SHORTEST_TEXT: Final = 4
"""Texts that were hidden are looked for elsewhere from this many characters on: shorter ones are there by chance."""

SHORTEST_NUMBER: Final = 6
"""Likewise numbers that stand alone in a payload, in digits and signs."""

Pointer = tuple[str | int, ...]
"""Where something is in a payload."""


class Hidden:
    """What was hidden, to find it in other places.

    Args:
        secrets: What is hidden already, such as elsewhere in the run.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.count = 0
        self._secrets = set(secrets)
        self._own: set[str] = set()  # the placeholders that it has made: nothing is looked for in them

    @property
    def secrets(self) -> frozenset[str]:
        """All texts that are hidden."""
        return frozenset(self._secrets)

    def note(self, value: Any, where: Pointer | None = None) -> str:
        """Note that a value is hidden, and return what stands for it.

        Args:
            value: The value.
            where: Its place in something that people may edit; None: nobody may.
        """
        self.count += 1
        self._secrets.update(
            text
            for text in _texts_in(value)
            if len(text) >= SHORTEST_TEXT
            and not text.startswith(PLACEHOLDER[:-1])  # of what is shown twice
            and text not in PLACEHOLDER
        )
        return self.placed(PLACEHOLDER if where is None else marker(where))

    def placed(self, placeholder: str) -> str:
        """Return a placeholder, in which nothing is looked for from now on."""
        self._own.add(placeholder)
        return placeholder

    def is_in(self, text: str) -> bool:
        """Whether a text has anything that is hidden, also as it is written in JSON."""
        return any(spelling in text for spelling in _spellings(self.secrets))

    def masked(self, text: str) -> str:
        """Return a text without what is hidden."""
        if text in self._own:
            return text
        for spelling in _spellings(self.secrets):
            if spelling in text:
                self.count += 1
                text = text.replace(spelling, PLACEHOLDER)
        return text

    def masked_in(self, value: Any) -> Any:
        """Return plain data whose texts, names and numbers are without what is hidden; the very value if all are."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            masked = {self.masked(name): self.masked_in(each) for name, each in fields.items()}
            return fields if _is_very(fields.items(), masked.items()) else masked
        if isinstance(value, list):
            items = cast("list[Any]", value)
            each_masked = [self.masked_in(each) for each in items]
            return items if all(a is b for a, b in zip(items, each_masked, strict=True)) else each_masked
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            if len(text) >= SHORTEST_NUMBER and text in self._secrets:
                return self.note(value)
        return value


def _is_very(before: Iterable[tuple[str, Any]], after: Iterable[tuple[str, Any]]) -> bool:
    one, other = list(before), list(after)
    return len(one) == len(other) and all(
        a == b and x is y for (a, x), (b, y) in zip(one, other, strict=True)
    )


@lru_cache(maxsize=256)
def _spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    """Return how texts may be written in others, the longest first: as they are, in JSON, by ``repr``, in URLs."""
    found: set[str] = set()
    for text in secrets:
        found.add(text)
        if not text.isalnum() or not text.isascii():
            found.update(
                (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])
            )
            found.add(quote(text.encode(errors="replace"), safe=""))
    return tuple(sorted(found, key=lambda each: (-len(each), each)))


def marker(where: Pointer) -> str:
    """Return what stands for a value at a place of something that people may edit: no two places have the same."""
    return f"{PLACEHOLDER[:-1]} {pointer_to(where)}]"


def pointer_to(where: Pointer) -> str:
    """Return a place as a JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in where)


def json_in(text: str) -> Any:
    """Return what a text says if it is a JSON object or list, such as the arguments a model sent; else None."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return from_json(text)
    except (ValueError, RecursionError):
        return None


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in cast("dict[str, Any]", value).values():
            yield from _texts_in(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _texts_in(each)
    elif isinstance(value, str):
        inner = json_in(value)
        if inner is not None:
            yield from _texts_in(inner)
        yield value
    elif value is not None and not isinstance(value, bool):
        yield str(value)
