"""Names and ids: what every store can keep, and how people are written as assignees."""

from __future__ import annotations

import re
import reprlib
import unicodedata

from signoff.errors import InvalidValue

LONGEST_NAME = 256  # characters

# In bytes of UTF-8. Postgres keeps at most 2,704 bytes in a row of an index, over all of its columns. The largest are
# those of waiters (three ids, namespace) and of the inbox (two ids, a person, namespace).
LONGEST_NAME_BYTES = 500
"""Of the name of a workflow or a group, a version, a worker's id."""
LONGEST_NAMESPACE_BYTES = 256
"""Of a namespace or a channel's name."""
LONGEST_ID_BYTES = 770
"""Of an id, also one that is made of others, such as that of a child's child."""
LONGEST_CHOSEN_BYTES = 640
"""Of an id that a caller chooses: what is made of it still fits."""
LONGEST_PERSON_BYTES = 800
"""Of a person, a group or a role, as assignees and recipients are written."""
LONGEST_REQUEST_BYTES = 1040
"""Of a request id: 256 characters, and how Signoff's own begin."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable characters that nobody sees: fillers, joiners and variation selectors."""

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
"""Letters that look like a Latin one, in the usual fonts."""

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


def check_size(path: str, text: str | None, most: int = LONGEST_NAME_BYTES) -> None:
    """Raise InvalidValue for a text of more bytes than an index can hold."""
    # A character takes 4 bytes at most: nearly all texts are short enough without a look at them.
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
    """Return the name of a workflow or a group. Raises InvalidValue if it is empty or too long for a store."""
    text = check_text(path, name)
    if not text.strip():
        raise InvalidValue(path, "it is empty")
    check_size(path, text)
    return text


def check_by(by: object) -> None:
    """Raise InvalidValue for an empty or overlong name of the user who acts. None: the user is not stated."""
    if by is None:
        return
    name = check_text("by", by)
    if not name.strip():
        raise InvalidValue("by", "it is empty; leave it out if the user is not known")
    if len(name) > LONGEST_NAME:
        raise InvalidValue("by", f"it has {len(name):,} characters, over the limit of {LONGEST_NAME}")
    check_size("by", name, LONGEST_PERSON_BYTES)


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


def person_key(user_id: str) -> str:
    """Return the same text for all spellings of a name that may be one person, ``user:`` included or not.

    Letter case, width and style do not count. A letter of another alphabet counts as the Latin one that it looks like.
    So nobody gets past four eyes, or votes twice, by another spelling of their name.
    """
    name = user_id.removeprefix("user:")
    if name.isascii():
        return name.lower()
    alike = unicodedata.normalize("NFKD", name.translate(_LOOKALIKES)).casefold().translate(_LOOKALIKES)
    return unicodedata.normalize("NFKC", alike.replace("i\u0307", "i"))


def _is_name(name: str) -> bool:
    is_visible = name == name.strip() and name.isprintable() and unicodedata.is_normalized("NFC", name)
    is_visible = is_visible and (name.isascii() or _UNSEEN.search(name) is None)
    is_short = len(name) <= LONGEST_NAME and len(name.encode()) <= LONGEST_PERSON_BYTES - len("group:")
    return len(name) > 0 and is_short and is_visible
