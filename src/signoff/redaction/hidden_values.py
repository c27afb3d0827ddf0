"""The hidden values of a record or a run, and how they are found again in texts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from typing import Any, Final, cast

from pydantic_core import from_json

from signoff.redaction.kept_texts import BEGIN, END, LENGTH_OF_END, KeptTexts, without_mark
from signoff.redaction.spellings import (
    BETWEEN,
    SHORTEST_CUT_PIECE,
    SHORTEST_PIECE,
    Rewritten,
    Spellings,
    between,
    contained,
    rewrite,
    spellings_of,
)

PLACEHOLDER: Final = "[redacted]"
"""Replaces a hidden value."""

SHORTEST_TEXT: Final = 4
"""Hidden texts of at least this length are searched for elsewhere. Shorter ones would match by chance."""

SHORTEST_NUMBER: Final = 6
"""The same for numbers that are values of their own in a payload, counted in digits and signs."""

LONGEST_PATTERN: Final = 100
"""Longer hidden texts are found without a regular expression."""

MOST_SEARCHED: Final = 2_000
"""A text that may contain more spellings of hidden texts is hidden whole: the time to find each would be too long."""

MOST_REWRITTEN: Final = 100
"""The same for hidden texts in another letter case or in groups, each of which takes longer to find."""

MOST_CUTS: Final = 1_000
"""The same for pairs of a mark of a cut and a hidden text that may be cut there, unless the text is longer."""

_CUT: Final = re.compile(r"\.{3,}|\u2026")

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
        spellings = Spellings.of(secrets)
        if spellings.is_for_every_text:
            return PLACEHOLDER
        masked = _without_long(text, secrets)
        possible = spellings.possible_in(masked)
        if len(possible) > MOST_SEARCHED:
            return PLACEHOLDER
        for spelling in possible:
            if spelling in masked:
                masked = masked.replace(spelling, PLACEHOLDER)
        rewritten = list(spellings.rewritten_in(masked))
        if len(rewritten) > MOST_REWRITTEN:
            return PLACEHOLDER
        for written, is_spread in rewritten:
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


def _without_long(text: str, secrets: frozenset[str]) -> str:
    """Return a text without the long hidden texts of which only the ends are known, and what is between the ends."""
    begins, lasts, rewritings = _ends(secrets)
    if not begins or len(text) < LENGTH_OF_END // 2:
        return text
    spans: list[tuple[int, int]] = []
    place = 0
    next_begin, next_last = _NextPlaces(text, begins), _NextPlaces(text, lasts)
    while (begin := next_begin.after(place)) is not None:
        last = next_last.after(sum(begin))
        place = len(text) if last is None else sum(last)
        spans.append((begin[0], place))
    rest = max((text.rfind(part) + len(part) for part in lasts if text.find(part, place) >= 0), default=0)
    whole = _replaced(text, _merged([*spans, (0, rest)] if rest else spans))
    if next(_contained_in(whole, rewritings), None) is not None:
        return PLACEHOLDER  # in another letter case or in groups
    return whole


@lru_cache(maxsize=2)
def _ends(secrets: frozenset[str]) -> tuple[list[str], list[str], Sequence[Rewritten]]:
    """Return the spellings of the beginnings and ends of long texts, and what to search for in other letter cases.

    Of each spelling half is returned, because letters at the cut may be written otherwise within the whole text.
    """
    begins: list[str] = []
    lasts: list[str] = []
    for end in secrets:
        if end.startswith(BEGIN):
            begins += (each[: len(each) // 2] for each in spellings_of(without_mark(end)))
        elif end.startswith(END):
            lasts += (each[len(each) // 2 :] for each in spellings_of(without_mark(end)))
    return begins, lasts, rewrite(frozenset(each for each in secrets if each.startswith((BEGIN, END))))


class _NextPlaces:
    """The next place of any of several parts in a text. Each part is searched from its own last place on.

    Args:
        text: The text.
        parts: The parts.
    """

    def __init__(self, text: str, parts: Iterable[str]) -> None:
        self._text = text
        self._next = [(at, part) for part in parts if (at := text.find(part)) >= 0]
        heapify(self._next)

    def after(self, place: int) -> tuple[int, int] | None:
        """Return the first place that is not before ``place``, and the length of the part there."""
        while self._next and self._next[0][0] < place:
            part = self._next[0][1]
            at = self._text.find(part, place)
            if at < 0:
                heappop(self._next)
            else:
                heapreplace(self._next, (at, part))
        return (self._next[0][0], len(self._next[0][1])) if self._next else None


def _contained_in(text: str, rewritten: Iterable[Rewritten]) -> Iterator[Rewritten]:
    lowered = text.lower()
    return contained(lowered, between.sub("", lowered), rewritten)


def _without(text: str, written: str, is_spread: bool) -> str:
    """Return a text without a hidden one in another letter case, or in groups."""
    if len(written) <= LONGEST_PATTERN:
        return _pattern_of(written, is_spread).sub(PLACEHOLDER, text)
    return _replaced(text, _places_of(text, written, is_spread))


@lru_cache(maxsize=1024)
def _pattern_of(written: str, is_spread: bool) -> re.Pattern[str]:
    between = f"{BETWEEN}*" if is_spread else ""
    return re.compile(between.join(map(re.escape, written)), re.IGNORECASE)


def _places_of(text: str, written: str, is_spread: bool) -> list[tuple[int, int]]:
    """Return the places of a long hidden text, as a pattern would find them, but in linear time."""
    small, places_in_text = text.lower(), cast("Sequence[int]", range(len(text)))
    if len(small) != len(text):  # some letters have two in lower case
        small = "".join(letter.lower() for letter in text)
        places_in_text = array("l", (at for at, letter in enumerate(text) for _ in letter.lower()))
    if is_spread:
        kept, begin = array("l"), 0
        for separator in between.finditer(small):
            kept.extend(places_in_text[begin : separator.start()])
            begin = separator.end()
        kept.extend(places_in_text[begin:])
        small, places_in_text = between.sub("", small), kept
    # The lower case of sigma depends on the next letter.
    small, sought = small.replace("ς", "σ"), written.replace("ς", "σ")
    places: list[tuple[int, int]] = []
    begin = small.find(sought)
    while begin >= 0:
        end = begin + len(sought)
        places.append((places_in_text[begin], places_in_text[end - 1] + 1))
        begin = small.find(sought, end)
    if not places and next(_contained_in(text, [(written, is_spread)]), None) is not None:
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


def _without_pieces(text: str, spellings: Spellings) -> str:
    """Return a text without pieces of hidden texts, such as error messages have when they cut a value."""
    spans: list[tuple[int, int]] = []
    cuts = [cut.span() for cut in _CUT.finditer(text)]
    if cuts:
        around = "\0".join(
            text[max(0, start - SHORTEST_PIECE) : start] + "\0" + text[end : end + SHORTEST_PIECE]
            for start, end in cuts
        )
        possible = spellings.cut_in(around)
        if len(possible) * len(cuts) > max(MOST_CUTS, len(text)):
            return PLACEHOLDER
        for spelling in possible:
            for start, end in cuts:
                if (begun := _begins_before(text, start, spelling)) is not None:
                    spans.append((begun, start))
                if (ended := _ends_after(text, end, spelling)) is not None:
                    spans.append((end, ended))
    if len(text) >= SHORTEST_PIECE:
        possible = spellings.long_in(text)
        if len(possible) > MOST_SEARCHED:
            return PLACEHOLDER
        for spelling in possible:
            spans += _long_pieces(text, spelling)
    return _replaced(text, _merged(spans)) if spans else text


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
