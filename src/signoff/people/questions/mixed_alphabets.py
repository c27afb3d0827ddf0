"""Finds words that mix alphabets: a letter of one may look like a letter of another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final, cast

MOST: Final = 5
"""Maximum number of words reported."""

LONGEST: Final = 20_000
"""How many characters of a text are searched."""

_WORD: Final = re.compile(r"[^\W\d_]+")

_ALPHABETS: Final = (
    "LATIN",
    "CYRILLIC",
    "GREEK",
    "ARMENIAN",
    "CHEROKEE",
    "COPTIC",
    "FULLWIDTH",
    "MATHEMATICAL",
)


def mixed_words(value: Any) -> list[str]:
    """Return the words in a JSON value that mix alphabets, escaped so that each letter can be identified.

    Example::

        mixed_words({"to": "p\\u0430ypal"}) == ["p\\\\u0430ypal"]  # with a Cyrillic a
    """
    found: dict[str, None] = {}
    for text in _texts(value):
        if text.isascii():
            continue
        for word in _WORD.findall(text[:LONGEST]):
            if not word.isascii() and len({_alphabet_of(letter) for letter in word} - {""}) > 1:
                found[ascii(word)[1:-1]] = None
                if len(found) == MOST:
                    return list(found)
    return list(found)


def _alphabet_of(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return name if name in _ALPHABETS else ""


def _texts(value: Any) -> Iterator[str]:
    todo = [value]
    while todo:
        each: Any = todo.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            todo += reversed(cast("list[Any]", each))
        elif isinstance(each, dict):
            fields = cast("dict[str, Any]", each)
            todo += reversed([*fields, *fields.values()])
