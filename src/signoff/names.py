"""Names and ids: what every store can keep, and how people are written as assignees."""

from __future__ import annotations

import reprlib
import unicodedata

from signoff.errors import InvalidValue

LONGEST_NAME = 256  # characters
_NOBODYS = ("user:", "group:", "role:", "signoff:")


def check_text(path: str, text: object) -> str:
    """Return a text that every store can keep.

    Raises:
        InvalidValue: It is not a text, or has a NUL character or half of a surrogate pair.
    """
    if not isinstance(text, str):
        raise InvalidValue(path, f"expected a text, not {reprlib.repr(text)}")
    if "\0" in text:
        raise InvalidValue(path, "has a NUL character, which Postgres cannot keep; leave it out")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidValue(path, "has half of a surrogate pair, which is no Unicode text") from None
    return text


def check_user(path: str, user_id: str) -> str:
    """Return who somebody is said to be, ``ana`` or ``user:ana``, if it can be a person.

    Raises:
        InvalidValue: It is empty or too long, has spaces around it or characters that nobody sees, or begins as
            groups, roles and Signoff's own names do. So one person has no two names that look the same.
    """
    check_text(path, user_id)
    name = user_id.removeprefix("user:")
    if not _is_name(name) or name.casefold().startswith(_NOBODYS):
        raise InvalidValue(path, f"{user_id[:LONGEST_NAME]!r} is nobody's name; write ana or user:ana")
    return user_id


def check_part(path: str, name: str) -> str:
    """Return the name of a group or a role, without ``group:`` or ``role:``. Raises InvalidValue."""
    check_text(path, name)
    if not _is_name(name):
        raise InvalidValue(path, f"{name[:LONGEST_NAME]!r} is no name of a group or a role")
    return name


def check_assignee(path: str, name: str) -> str:
    """Return an assignee: ``user:...``, ``group:...`` or ``role:...``. Raises InvalidValue."""
    kind, colon, rest = check_text(path, name).partition(":")
    if not colon or kind not in ("user", "group", "role") or not _is_name(rest):
        raise InvalidValue(
            path, f"{name[:LONGEST_NAME]!r} is not written as user:ana, group:finance or role:approver"
        )
    return name


def user_name(user_id: str) -> str:
    """Write a user as an assignee: ``ana`` and ``user:ana`` are the same person."""
    return user_id if user_id.startswith("user:") else f"user:{user_id}"


def _is_name(name: str) -> bool:
    is_visible = name == name.strip() and name.isprintable() and unicodedata.is_normalized("NFC", name)
    return 0 < len(name) <= LONGEST_NAME and is_visible
