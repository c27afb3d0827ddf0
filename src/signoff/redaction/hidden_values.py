"""The hidden values of a record or a run, and how they are found again in texts."""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

from pydantic_core import from_json

from signoff.redaction.kept_texts import (
    BEGIN,
    END,
    EVERY,
    LENGTH_OF_END,
    KeptTexts,
    bytes_of,
    without_mark,
)

PLACEHOLDER: Final = "[redacted]"
"""Replaces a hidden value."""

SHORTEST_TEXT: Final = 4
"""Hidden texts of at least this length are searched for elsewhere. Shorter ones would match by chance."""

SHORTEST_NUMBER: Final = 6
"""The same for numbers that are values of their own in a payload, counted in digits and signs."""

SHORTEST_CASELESS: Final = 8
"""Texts of at least this length are also searched for in other letter cases and in base64."""

SHORTEST_SPREAD: Final = 8
"""Texts with digits and at least this many letters and digits are also found with separators such as blanks."""

SHORTEST_PIECE: Final = 32
"""A piece of this length, from either end of a longer text, is also hidden: the text may have been cut."""

SHORTEST_CUT_PIECE: Final = 6
"""The same beside dots that mark a cut, as in ``'eyJhbGciOi...0THsR8U'`` of a pydantic message."""

LONGEST_REMEMBERED: Final = 8 * 1024
"""The spellings of hidden texts that take up to this many bytes are cached; of larger sets only those of the last are.

All spellings of a text take about twenty times its memory.
"""

MOST_SPELT_BYTES: Final = 16 * 1024 * 1024
"""Maximum memory of all spellings of hidden texts. If they take more, every text is hidden."""

LONGEST_PATTERN: Final = 100
"""Longer hidden texts are found without a regular expression."""

_CUT: Final = re.compile(r"\.\.\.|\u2026")

Pointer = tuple[str | int, ...]
"""A place in a payload: keys and indexes from its root."""


class Hidden:
    """Collects hidden values, and hides them in other texts.

    Args:
        secrets: Texts that are already hidden, such as elsewhere in the run.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.count = 0
        self._secrets = KeptTexts(secrets)
        self._own: set[str] = set()  # its placeholders, which are not searched

    @property
    def secrets(self) -> frozenset[str]:
        """All hidden texts; see ``KeptTexts``."""
        return self._secrets.frozen

    def note(self, value: Any, where: Pointer | None = None) -> str:
        """Add a hidden value, and return its placeholder.

        Args:
            value: The value.
            where: Its place in an editable part of a question; None elsewhere.
        """
        self.count += 1
        self._secrets.add(
            text
            for text in _texts_in(value)
            if len(text) >= SHORTEST_TEXT
            and not text.startswith(PLACEHOLDER[:-1])  # if a record is redacted twice
            and text not in PLACEHOLDER
        )
        return self.placed(PLACEHOLDER if where is None else marker(where))

    def placed(self, placeholder: str) -> str:
        """Return a placeholder, and exclude it from searches from now on."""
        self._own.add(placeholder)
        return placeholder

    def is_in(self, text: str) -> bool:
        """Whether a text contains a hidden text, in any spelling."""
        return self._without_hidden(text) != text

    def masked(self, text: str) -> str:
        """Return a text without hidden texts."""
        if text in self._own:
            return text
        masked = self._without_hidden(text)
        self.count += masked != text
        return masked

    def _without_hidden(self, text: str) -> str:
        secrets = self.secrets
        spellings = _spellings(secrets)
        if spellings is None:
            return PLACEHOLDER
        masked = _without_long(text, secrets)
        for spelling in spellings:
            if spelling in masked:
                masked = masked.replace(spelling, PLACEHOLDER)
        for written, is_spread in _rewritten(masked, secrets):
            masked = _without(masked, written, is_spread)
        return _without_pieces(masked, spellings)

    def masked_in(self, value: Any) -> Any:
        """Return plain data without hidden texts in strings, keys and numbers; the same object if there are none."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            masked = {self.masked(name): self.masked_in(each) for name, each in fields.items()}
            return fields if _are_same_objects(fields.items(), masked.items()) else masked
        if isinstance(value, list):
            items = cast("list[Any]", value)
            each_masked = [self.masked_in(each) for each in items]
            return items if all(a is b for a, b in zip(items, each_masked, strict=True)) else each_masked
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            if len(text) >= SHORTEST_NUMBER and text in self._secrets:
                return self.note(value)
        return value


def _are_same_objects(before: Iterable[tuple[str, Any]], after: Iterable[tuple[str, Any]]) -> bool:
    one, other = list(before), list(after)
    return len(one) == len(other) and all(
        a == b and x is y for (a, x), (b, y) in zip(one, other, strict=True)
    )


def _spellings(secrets: frozenset[str]) -> tuple[str, ...] | None:
    """Return the spellings of texts within other texts, the longest first. None: there are too many."""
    return (_spelt if _is_short(secrets) else _spelt_long)(secrets)


def _is_short(secrets: frozenset[str]) -> bool:
    return bytes_of(secrets) <= LONGEST_REMEMBERED


def _spell(secrets: frozenset[str]) -> tuple[str, ...] | None:
    """Return the spellings of texts, the longest first. None: they take too much memory, or stand for every text."""
    found: set[str] = set()
    size = 0
    for text in secrets:
        spelt = _spellings_of(without_mark(text))
        size += bytes_of(spelt)
        if size > MOST_SPELT_BYTES or text == EVERY:
            return None
        found |= spelt
    return tuple(sorted(found, key=lambda each: (-len(each), each)))


def _spellings_of(text: str) -> set[str]:
    """Return the spellings of a text in JSON, ``repr``, URLs, HTML and base64."""
    found = {text}
    encoded = text.encode(errors="replace")
    if len(text) >= SHORTEST_CASELESS:
        found.update((text.upper(), text.lower()), _in_base64(encoded))
    if not text.isalnum() or not text.isascii():
        quoted = {each(text) for each in _QUOTES}
        found.update(quoted, (each(inner) for inner in quoted for each in _QUOTES))  # JSON within JSON
        found.update((html.escape(text), html.escape(text, quote=False)))
        urls = {quote(encoded, safe=""), quote(encoded), quote_plus(encoded)}
        found.update(urls, map(quote_plus, urls), (_ESCAPE.sub(_in_small, url) for url in urls))
    if not text.isascii():
        found.update(unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC"))
    return found


_spelt = lru_cache(maxsize=64)(_spell)
_spelt_long = lru_cache(maxsize=1)(_spell)


def _in_base64(encoded: bytes) -> Iterator[str]:
    """Yield the base64 characters of bytes at each alignment, without those that depend on neighbouring bytes."""
    for before in range(3):
        padded = bytes(before) + encoded
        start, end = -(-before * 8 // 6), len(padded) * 8 // 6
        for write in (base64.b64encode, base64.urlsafe_b64encode):
            yield write(padded).decode()[start:end]


def _in_small(found: re.Match[str]) -> str:
    return found[0].lower()


_ESCAPE: Final = re.compile("%[0-9A-F]{2}")
_BETWEEN: Final = r"[\s\-\u2010-\u2015.,'\u2019/_]"
"""Separators between groups of letters and digits, as in an IBAN, a card number or an amount."""
_BETWEEN_ANY: Final = re.compile(_BETWEEN)


def _rewritten(text: str, secrets: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """Yield the entries of ``_rewritings`` that ``text`` contains: in another letter case, or in groups."""
    if len(text) >= SHORTEST_SPREAD:
        yield from _rewritten_of(text, _rewritings(secrets))


def _rewritten_of(text: str, rewritings: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    lowered = text.lower()
    joined = _BETWEEN_ANY.sub("", lowered)
    for written, is_spread in rewritings:
        if written in (joined if is_spread else lowered):
            yield written, is_spread


def _rewritings(secrets: frozenset[str]) -> tuple[tuple[str, bool], ...]:
    """Return the texts to search for in other letter cases and in groups."""
    return (_rewritten_as if _is_short(secrets) else _rewritten_as_long)(secrets)


def _rewrite(secrets: frozenset[str]) -> tuple[tuple[str, bool], ...]:
    """Return the texts to search for, in lower case, the longest first, and whether each is without separators."""
    found: set[tuple[str, bool]] = set()
    for text in map(without_mark, secrets):
        if len(text) < SHORTEST_CASELESS:
            continue
        lowered = text.lower()
        joined = _BETWEEN_ANY.sub("", lowered)
        is_spread = len(joined) >= SHORTEST_SPREAD and any(letter.isdigit() for letter in joined)
        found.add((joined, True) if is_spread else (lowered, False))
    return tuple(sorted(found, key=lambda each: (-len(each[0]), each)))


_rewritten_as = lru_cache(maxsize=64)(_rewrite)
_rewritten_as_long = lru_cache(maxsize=1)(_rewrite)


def _without_long(text: str, secrets: frozenset[str]) -> str:
    """Return a text without the long hidden texts of which only the ends are known, and what is between the ends."""
    begins, lasts, rewritings = _ends(secrets)
    if not begins or len(text) < LENGTH_OF_END // 2:
        return text
    spans: list[tuple[int, int]] = []
    place = 0
    while (begin := min(_found(text, begins, place), default=None)) is not None:
        place = min((at + size for at, size in _found(text, lasts, sum(begin))), default=len(text))
        spans.append((begin[0], place))
    rest = max((text.rfind(part) + len(part) for part in lasts if text.find(part, place) >= 0), default=0)
    whole = _replaced(text, _merged([*spans, (0, rest)] if rest else spans))
    if next(_rewritten_of(whole, rewritings), None) is not None:
        return PLACEHOLDER  # in another letter case or in groups
    return whole


@lru_cache(maxsize=2)
def _ends(secrets: frozenset[str]) -> tuple[list[str], list[str], Sequence[tuple[str, bool]]]:
    """Return the spellings of the beginnings and ends of long texts, and what to search for in other letter cases.

    Of each spelling half is returned, because letters at the cut may be written otherwise within the whole text.
    """
    begins: list[str] = []
    lasts: list[str] = []
    for end in secrets:
        if end.startswith(BEGIN):
            begins += (each[: len(each) // 2] for each in _spellings_of(without_mark(end)))
        elif end.startswith(END):
            lasts += (each[len(each) // 2 :] for each in _spellings_of(without_mark(end)))
    return begins, lasts, _rewrite(frozenset(each for each in secrets if each.startswith((BEGIN, END))))


def _found(text: str, parts: Iterable[str], place: int) -> Iterator[tuple[int, int]]:
    """Yield the first place of each part from a place on, and its length."""
    for part in parts:
        at = text.find(part, place)
        if at >= 0:
            yield at, len(part)


def _without(text: str, written: str, is_spread: bool) -> str:
    """Return a text without a hidden one in another letter case, or in groups."""
    if len(written) <= LONGEST_PATTERN:
        return _pattern_of(written, is_spread).sub(PLACEHOLDER, text)
    return _replaced(text, _places_of(text, written, is_spread))


@lru_cache(maxsize=1024)
def _pattern_of(written: str, is_spread: bool) -> re.Pattern[str]:
    between = f"{_BETWEEN}*" if is_spread else ""
    return re.compile(between.join(map(re.escape, written)), re.IGNORECASE)


def _places_of(text: str, written: str, is_spread: bool) -> list[tuple[int, int]]:
    """Return the places of a long hidden text, as a pattern would find them, but in linear time."""
    small, places_in_text = text.lower(), cast("Sequence[int]", range(len(text)))
    if len(small) != len(text):  # some letters have two in lower case
        small = "".join(letter.lower() for letter in text)
        places_in_text = array("l", (at for at, letter in enumerate(text) for _ in letter.lower()))
    if is_spread:
        kept, begin = array("l"), 0
        for separator in _BETWEEN_ANY.finditer(small):
            kept.extend(places_in_text[begin : separator.start()])
            begin = separator.end()
        kept.extend(places_in_text[begin:])
        small, places_in_text = _BETWEEN_ANY.sub("", small), kept
    # The lower case of sigma depends on the next letter.
    small, sought = small.replace("ς", "σ"), written.replace("ς", "σ")
    places: list[tuple[int, int]] = []
    begin = small.find(sought)
    while begin >= 0:
        end = begin + len(sought)
        places.append((places_in_text[begin], places_in_text[end - 1] + 1))
        begin = small.find(sought, end)
    if not places and next(_rewritten_of(text, [(written, is_spread)]), None) is not None:
        return [
            (0, len(text))
        ]  # found only by a lower case that depends on neighbouring letters: hide everything
    return places


def _replaced(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Return a text with placeholders at these places, which are in order."""
    parts: list[str] = []
    begin = 0
    for start, end in places:
        parts += (text[begin:start], PLACEHOLDER)
        begin = end
    return "".join([*parts, text[begin:]])


_QUOTES: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
)


def _without_pieces(text: str, spellings: Iterable[str]) -> str:
    """Return a text without pieces of hidden texts, such as error messages have when they cut a value."""
    cuts = [cut.span() for cut in _CUT.finditer(text)]
    is_long = len(text) >= SHORTEST_PIECE
    if not cuts and not is_long:
        return text
    spans: list[tuple[int, int]] = []
    for spelling in spellings:
        if len(spelling) <= SHORTEST_CUT_PIECE:
            break  # all others are shorter
        begins, ends = spelling[:SHORTEST_CUT_PIECE] in text, spelling[-SHORTEST_CUT_PIECE:] in text
        for start, end in cuts if begins or ends else ():
            if (begun := _begins_before(text, start, spelling)) is not None:
                spans.append((begun, start))
            if (ended := _ends_after(text, end, spelling)) is not None:
                spans.append((end, ended))
        if is_long and len(spelling) > SHORTEST_PIECE:
            spans += _long_pieces(text, spelling)
    return _replaced(text, _merged(spans))


def _begins_before(text: str, end: int, spelling: str) -> int | None:
    """Return the start of a beginning of a hidden text that ends at ``end``."""
    at = max(0, end - min(len(spelling), SHORTEST_PIECE))  # longer ones are found as long pieces
    while (at := text.find(spelling[:SHORTEST_CUT_PIECE], at, end)) >= 0:
        if spelling.startswith(text[at:end]):
            return at
        at += 1
    return None


def _ends_after(text: str, start: int, spelling: str) -> int | None:
    """Return the end of an ending of a hidden text that starts at ``start``."""
    last, at = spelling[-SHORTEST_CUT_PIECE:], start + min(len(spelling), SHORTEST_PIECE)
    while (at := text.rfind(last, start, at)) >= 0:
        if spelling.endswith(text[start : at + len(last)]):
            return at + len(last)
        at += len(last) - 1
    return None


def _long_pieces(text: str, spelling: str) -> Iterator[tuple[int, int]]:
    """Yield the places of long beginnings and endings of a hidden text, even without the mark of a cut."""
    first, last = spelling[:SHORTEST_PIECE], spelling[-SHORTEST_PIECE:]
    at = -1
    while (at := text.find(first, at + 1)) >= 0:
        end = at + _begun(text, at, spelling)
        yield at, end
        at = end - 1
    end = len(text)
    while (at := text.rfind(last, 0, end)) >= 0:
        end = at + SHORTEST_PIECE
        start = end - _ended(text, end, spelling)
        yield start, end
        end = start


def _begun(text: str, at: int, spelling: str) -> int:
    """Return the length of the common prefix of a hidden text and a text from ``at`` on."""
    return shared(len(spelling), lambda begin, end: text.startswith(spelling[begin:end], at + begin))


def _ended(text: str, at: int, spelling: str) -> int:
    """Return the length of the common suffix of a hidden text and a text up to ``at``."""
    size = len(spelling)

    def is_shared(begin: int, end: int) -> bool:
        return text.endswith(spelling[size - end : size - begin], 0, at - begin)

    return shared(size, is_shared)


def shared(most: int, is_shared: Callable[[int, int], bool]) -> int:
    """Return the length of a common prefix by galloping search, whose cost is linear in the result.

    Args:
        most: The maximum length.
        is_shared: Whether the characters from ``begin`` to ``end`` are equal.
    """
    shared, step = 0, SHORTEST_PIECE
    while shared < most and is_shared(shared, min(shared + step, most)):
        shared, step = min(shared + step, most), 2 * step
    while step > 1:
        step //= 2
        if shared + step <= most and is_shared(shared, shared + step):
            shared += step
    return shared


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping places, and sort them."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def marker(where: Pointer) -> str:
    """Return the placeholder for a place in an editable part. Each place has another one."""
    return f"{PLACEHOLDER[:-1]} {pointer_to(where)}]"


def pointer_to(where: Pointer) -> str:
    """Return a place as a JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in where)


def json_in(text: str) -> Any:
    """Parse a text that is a JSON object or list, such as the arguments from a model; else return None."""
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
