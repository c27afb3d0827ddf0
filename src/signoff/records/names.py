"""Names, ids and other short texts: which of them every store can keep, and how assignees are written."""

from __future__ import annotations

import re
import reprlib
import unicodedata

from signoff.errors import InvalidValue

LONGEST_NAME = 256  # characters

# In bytes of UTF-8. A row of a Postgres index has at most 2,704 bytes over all columns. The largest rows are
# those of waiters (three ids, namespace) and of the inbox (two ids, a person, namespace).
LONGEST_NAME_BYTES = 500
"""Limit of workflow and group names, versions and worker ids."""
LONGEST_NAMESPACE_BYTES = 256
"""Limit of namespaces and channel names."""
LONGEST_ID_BYTES = 770
"""Limit of ids, including derived ones such as that of a child's child."""
LONGEST_CHOSEN_BYTES = 640
"""Limit of ids that callers choose. It leaves room for the ids derived from them."""
LONGEST_PERSON_BYTES = 800
"""Limit of users, groups and roles, as assignees and recipients are written."""
LONGEST_REQUEST_BYTES = 1040
"""Limit of request ids: 256 characters and a prefix of Signoff's own."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Python counts as printable, but that are invisible: fillers, joiners and variation selectors."""

_PAIRS = (
    "\u0430a \u0435e \u043eo \u0440p \u0441c \u0443y \u0445x \u0456i \u0458j \u0455s \u04bbh \u0501d "  # Cyrillic
    "\u051bq \u051dw \u0475v \u043ak \u043cm \u0442t \u043dh \u0432b \u0410A \u0415E \u041eO \u0420P "
    "\u0421C \u0423Y \u0425X \u0406I \u0408J \u0405S \u0412B \u041dH \u041aK \u041cM \u0422T \u0417Z "
    "\u03b1a \u03b5e \u03bfo \u03c1p \u03c5u \u03c7x \u03b9i \u03f3j \u03bak \u03bdv \u03c4t \u0391A "  # Greek
    "\u0392B \u0395E \u0396Z \u0397H \u0399I \u039aK \u039cM \u039dN \u039fO \u03a1P \u03a4T \u03a5Y "
    "\u03a7X \u037fJ "
    "\u0578n \u0585o \u057du \u0570h "  # Armenian
    "\u0131i \u0251a \u0261g \u1d00a \u0299b \u1d04c \u1d05d \u1d07e \u0262g \u029ch \u026ai \u1d0aj "  # Latin
    "\u1d0bk \u029fl \u1d0dm \u0274n \u1d0fo \u1d18p \u0280r \u1d1bt \u1d1cu \u1d20v \u1d21w \u028fy "
    "\u1d22z "
)
_LOOKALIKES = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split()})
"""Letters that look like a Latin letter in common fonts."""

_RESERVED = ("user:", "group:", "role:", "signoff:")


def check_text(path: str, text: object) -> str:
    """Return a string that every store can keep.

    Raises:
        InvalidValue: It is not a string, or has a NUL character or a lone surrogate.
    """
    if not isinstance(text, str):
        raise InvalidValue(path, f"expected a string, not {reprlib.repr(text)}")
    if "\0" in text:
        raise InvalidValue(path, "has a NUL character, which Postgres cannot keep; leave it out")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidValue(path, "has a lone surrogate, which is not valid Unicode") from None
    return text


def check_optional_text(path: str, text: object) -> None:
    """Raise InvalidValue for anything but None and a string that every store can keep."""
    if text is not None:
        check_text(path, text)


def check_filter(path: str, text: object) -> None:
    """Raise InvalidValue if nothing in a store can match this field of a list's filter. None matches everything."""
    if text is not None and not check_text(path, text).strip():
        raise InvalidValue(path, "it is empty, so it matches nothing; leave it out to list all")


def check_size(path: str, text: str | None, most: int = LONGEST_NAME_BYTES) -> None:
    """Raise InvalidValue for a string of more bytes than an index can hold."""
    # A character has 4 bytes at most, so the length alone clears nearly all strings.
    if not isinstance(text, str) or len(text) * 4 <= most:
        return
    size = len(text.encode(errors="replace"))
    if size > most:
        raise InvalidValue(path, f"{text[:40]!r}... has {size:,} bytes in UTF-8, over the limit of {most:,}")


def check_namespace(namespace: str) -> str:
    """Return the name of a namespace. Raises InvalidValue if it is longer than an index can hold."""
    check_size("namespace", namespace, LONGEST_NAMESPACE_BYTES)
    return namespace


def check_named(path: str, name: object) -> str:
    """Return the name of a workflow or a group.

    Raises:
        InvalidValue: It is empty, too long for a store, or has surrounding spaces or invisible characters: two names
            could look the same, and no operator could type the second one.
    """
    text = check_text(path, name)
    if not text.strip():
        raise InvalidValue(path, "it is empty")
    check_size(path, text)
    if text != text.strip() or not text.isprintable():
        raise InvalidValue(
            path, f"must be printable characters without spaces at the ends, not {text[:100]!r}"
        )
    return text


def check_by(by: object) -> None:
    """Raise InvalidValue if the name of the acting user is empty or too long. None means unknown."""
    if by is None:
        return
    name = check_text("by", by)
    if not name.strip():
        raise InvalidValue("by", "it is empty; leave it out if the user is not known")
    if len(name) > LONGEST_NAME:
        raise InvalidValue("by", f"it has {len(name):,} characters, over the limit of {LONGEST_NAME}")
    check_size("by", name, LONGEST_PERSON_BYTES)


def check_user(path: str, user_id: str) -> str:
    """Return a user id, ``ana`` or ``user:ana``.

    Raises:
        InvalidValue: It is empty or too long, has surrounding spaces or invisible characters (two names could look
            the same), or has the prefix of a group, a role or one of Signoff's own names.
    """
    check_text(path, user_id)
    name = user_id.removeprefix("user:")
    if not _is_name(name) or name.casefold().startswith(_RESERVED):
        raise InvalidValue(
            path, f"{user_id[:LONGEST_NAME]!r} is not a valid user name; write ana or user:ana"
        )
    return user_id


def check_part(path: str, name: str) -> str:
    """Return the name of a group or a role, without ``group:`` or ``role:``. Raises InvalidValue."""
    check_text(path, name)
    if not _is_name(name):
        raise InvalidValue(path, f"{name[:LONGEST_NAME]!r} is not a valid name of a group or a role")
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
    """Return a user id as an assignee: ``user:ana`` for both ``ana`` and ``user:ana``."""
    return user_id if user_id.startswith("user:") else f"user:{user_id}"


def person_key(user_id: str) -> str:
    """Return a key that is equal for all spellings of a user's name, with or without ``user:``.

    It ignores letter case, width and style, and maps a letter of another alphabet to the Latin letter that it looks
    like. So another spelling lets no user approve their own request, or vote twice.
    """
    name = user_id.removeprefix("user:")
    if name.isascii():
        return name.lower()
    alike = unicodedata.normalize("NFKD", name.translate(_LOOKALIKES)).casefold().translate(_LOOKALIKES)
    return unicodedata.normalize("NFKC", alike.replace("i\u0307", "i"))


def _is_name(name: str) -> bool:
    is_visible = name == name.strip() and name.isprintable() and unicodedata.is_normalized("NFC", name)
    is_visible = is_visible and (name.isascii() or _INVISIBLE.search(name) is None)
    is_short = len(name) <= LONGEST_NAME and len(name.encode()) <= LONGEST_PERSON_BYTES - len("group:")
    return len(name) > 0 and is_short and is_visible
