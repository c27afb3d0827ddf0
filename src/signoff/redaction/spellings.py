"""The spellings of hidden texts in other texts, and the few of them that a text may contain."""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

from signoff.redaction.kept_texts import EVERY, bytes_of, without_mark

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

MOST_UNINDEXED: Final = 500
"""Up to so many spellings are searched for one by one."""

MOST_SPELT_BYTES: Final = 4 * 1024 * 1024
"""Maximum memory of all spellings of hidden texts, some 5,000 words. If they take more, every text is hidden."""

BETWEEN: Final = r"[\s\-\u2010-\u2015.,'\u2019/_]"
"""Separators between groups of letters and digits, as in an IBAN, a card number or an amount."""

Rewritten = tuple[str, bool]
"""A hidden text in lower case, and whether it is without separators."""


class Spellings:
    """The spellings of a set of hidden texts.

    A large set is not searched for one by one: the time to search a text would grow with both. Each spelling has an
    anchor, a short part of it, and only spellings whose anchors the text contains are searched for.

    Args:
        secrets: The texts, the ends of long ones with marks.

    Attributes:
        is_for_every_text: Whether every text counts as hidden, because the spellings take too much memory.
        all: The spellings, the longest first.
    """

    def __init__(self, secrets: frozenset[str]) -> None:
        self._secrets = secrets
        spelt = _spell(secrets)
        self.is_for_every_text = spelt is None
        self.all = spelt or ()
        self._are_few = len(self.all) <= MOST_UNINDEXED

    @classmethod
    def of(cls, secrets: frozenset[str]) -> Spellings:
        """Return the spellings of these texts, cached."""
        return (_short_spellings if is_short(secrets) else _long_spellings)(secrets)

    def possible_in(self, text: str) -> Sequence[str]:
        """Return the spellings that a text may contain, the longest first."""
        return self.all if self._are_few else self._anchors.possible_in(text)

    def rewritten_in(self, text: str) -> Iterator[Rewritten]:
        """Yield the hidden texts that a text contains in another letter case, or in groups; the longest first."""
        if len(text) < SHORTEST_SPREAD:
            return
        lowered = text.lower()
        joined = between.sub("", lowered)
        possible: Collection[Rewritten] = self.rewritten
        if not self._are_few:
            of_lowered, of_joined = self._rewritten_anchors
            names = {*of_lowered.possible_in(lowered), *of_joined.possible_in(joined)}
            possible = [each for each in self.rewritten if each[0] in names]
        yield from contained(lowered, joined, possible)

    def cut_in(self, around: str) -> Sequence[str]:
        """Return the spellings of which an end may be in a text, the longest first; see ``SHORTEST_CUT_PIECE``."""
        if self._are_few:
            return [
                each
                for each in self.all
                if len(each) > SHORTEST_CUT_PIECE
                and (each[:SHORTEST_CUT_PIECE] in around or each[-SHORTEST_CUT_PIECE:] in around)
            ]
        return self._cut_anchors.possible_in(around)

    def long_in(self, text: str) -> Sequence[str]:
        """Return the spellings of which a long piece may be in a text, the longest first; see ``SHORTEST_PIECE``."""
        if self._are_few:
            return [each for each in self.all if len(each) > SHORTEST_PIECE]
        return self._long_anchors.possible_in(text)

    @cached_property
    def rewritten(self) -> tuple[Rewritten, ...]:
        """The texts to search for in other letter cases and in groups, the longest first."""
        return rewrite(self._secrets)

    @cached_property
    def _anchors(self) -> Anchors:
        return Anchors(self.all)

    @cached_property
    def _rewritten_anchors(self) -> tuple[Anchors, Anchors]:
        return (
            Anchors([text for text, is_spread in self.rewritten if not is_spread]),
            Anchors([text for text, is_spread in self.rewritten if is_spread]),
        )

    @cached_property
    def _cut_anchors(self) -> Anchors:
        return Anchors([each for each in self.all if len(each) > SHORTEST_CUT_PIECE], SHORTEST_CUT_PIECE)

    @cached_property
    def _long_anchors(self) -> Anchors:
        return Anchors([each for each in self.all if len(each) > SHORTEST_PIECE], SHORTEST_PIECE)


class Anchors:
    """An index of many texts by a part of each. It finds those that another text may contain.

    Args:
        texts: The texts.
        ends: If given, both ends of this length are the anchors. Otherwise each text has one: of the parts of a fixed
            length at its beginning, in its middle and at its end the one that the fewest texts share.
    """

    def __init__(self, texts: Sequence[str], ends: int | None = None) -> None:
        self._texts = texts
        self._places: dict[int, dict[str, list[int] | int]] = {}
        if ends is not None:
            for place, text in enumerate(texts):
                for part in {text[:ends], text[-ends:]}:
                    self._add(part, place)
            return
        often = Counter(part for text in texts for part in _parts(text))
        for place, text in enumerate(texts):
            self._add(min(_parts(text), key=lambda part: often[part]), place)

    def possible_in(self, text: str) -> Sequence[str]:
        """Return the texts whose anchors are in a text, in their order."""
        found: set[int] = set()
        for size, places in self._places.items():
            seen = {part for at in range(len(text) - size + 1) if (part := text[at : at + size]) in places}
            for part in seen:
                held = places[part]
                found.update(held if isinstance(held, list) else (held,))
        return [self._texts[place] for place in sorted(found)]

    def _add(self, part: str, place: int) -> None:
        places = self._places.setdefault(len(part), {})
        held = places.get(part)
        if held is None:
            places[part] = place
        elif isinstance(held, int):
            places[part] = [held, place]
        else:
            held.append(place)


_SIZES: Final = (16, 8, 4, 2, 1)
"""Lengths of anchors. Few, because a text is read once for each."""


def _parts(text: str) -> Iterable[str]:
    size = next(each for each in _SIZES if each <= len(text))
    middle = (len(text) - size) // 2
    return text[:size], text[middle : middle + size], text[-size:]


def is_short(secrets: frozenset[str]) -> bool:
    """Whether a set of hidden texts is small; see ``LONGEST_REMEMBERED``."""
    return bytes_of(secrets) <= LONGEST_REMEMBERED


def contained(lowered: str, joined: str, rewritten: Iterable[Rewritten]) -> Iterator[Rewritten]:
    """Yield those that a text contains, given in lower case, and in lower case without separators."""
    for written, is_spread in rewritten:
        if written in (joined if is_spread else lowered):
            yield written, is_spread


def rewrite(secrets: Iterable[str]) -> tuple[Rewritten, ...]:
    """Return the texts to search for in other letter cases and in groups, the longest first."""
    found: set[Rewritten] = set()
    for text in map(without_mark, secrets):
        if len(text) < SHORTEST_CASELESS:
            continue
        lowered = text.lower()
        joined = between.sub("", lowered)
        is_spread = len(joined) >= SHORTEST_SPREAD and any(letter.isdigit() for letter in joined)
        found.add((joined, True) if is_spread else (lowered, False))
    return tuple(sorted(found, key=lambda each: (-len(each[0]), each)))


def _spell(secrets: frozenset[str]) -> tuple[str, ...] | None:
    """Return the spellings of texts, the longest first. None: they take too much memory, or stand for every text."""
    found: set[str] = set()
    size = 0
    for text in secrets:
        spelt = spellings_of(without_mark(text))
        size += bytes_of(spelt)
        if size > MOST_SPELT_BYTES or text == EVERY:
            return None
        found |= spelt
    return tuple(sorted(found, key=lambda each: (-len(each), each)))


def spellings_of(text: str) -> set[str]:
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


def _in_base64(encoded: bytes) -> Iterator[str]:
    """Yield the base64 characters of bytes at each alignment, without those that depend on neighbouring bytes."""
    for before in range(3):
        padded = bytes(before) + encoded
        start, end = -(-before * 8 // 6), len(padded) * 8 // 6
        for write in (base64.b64encode, base64.urlsafe_b64encode):
            yield write(padded).decode()[start:end]


def _in_small(found: re.Match[str]) -> str:
    return found[0].lower()


_QUOTES: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
)
_ESCAPE: Final = re.compile("%[0-9A-F]{2}")
between: Final = re.compile(BETWEEN)

_short_spellings = lru_cache(maxsize=16)(Spellings)
_long_spellings = lru_cache(maxsize=1)(Spellings)
