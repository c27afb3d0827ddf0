"""Texts that every store can keep, and by which lists are chosen."""

from __future__ import annotations

import reprlib
from typing import cast

from signoff.errors import InvalidValue


def check_text(field: str, text: str | None) -> None:
    """Raise InvalidValue for what is not text, or has a NUL character or half of a surrogate pair."""
    if text is None:
        return
    if not isinstance(cast("object", text), str):
        raise InvalidValue(field, f"expected a text, not {reprlib.repr(text)}")
    if "\0" in text:
        raise InvalidValue(field, "it has a NUL character, which Postgres cannot keep; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue(field, "it has half of a surrogate pair, which is no Unicode text") from None


def check_chosen(field: str, text: str | None) -> None:
    """Raise InvalidValue for a text that a list is to be chosen by, and that nothing can have. None chooses all."""
    check_text(field, text)
    if text is not None and not text.strip():
        raise InvalidValue(field, "it is empty, and nothing has an empty one; leave it out to list all")
