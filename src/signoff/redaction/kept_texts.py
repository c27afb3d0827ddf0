"""The hidden texts of a run, within a bound of memory.

All spellings of a hidden text take about twenty times its memory, and a value may be a million short texts, or one long
text. So of a long text only the ends are kept, and a set that takes too much is replaced by a mark: it stands for every
text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

LONGEST_WHOLE: Final = 16 * 1024
"""Of a longer hidden text, in characters, only the ends are kept. Whatever is between two ends is hidden with them."""

LENGTH_OF_END: Final = 1024

MOST_BYTES: Final = 2 * 1024 * 1024
"""Maximum memory of the hidden texts of a run and its related runs. If they take more, every text is hidden there."""

BEGIN: Final = "\0begin "
END: Final = "\0end "
"""The marks of the ends of a long text. If a payload has a text with such a mark, more is hidden than it asks for."""

EVERY: Final = "\0every"
"""The mark of a set that stands for every text."""


class KeptTexts:
    """A set of hidden texts.

    Args:
        texts: Its first texts. They may have marks.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: set[str] = set()
        self._bytes = 0
        self._frozen: frozenset[str] | None = None
        self.add(texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    @property
    def frozen(self) -> frozenset[str]:
        """The texts, the ends of long ones with marks."""
        if self._frozen is None:
            self._frozen = frozenset(self._texts)
        return self._frozen

    def add(self, texts: Iterable[str]) -> None:
        """Add texts. Once they take more than ``MOST_BYTES``, the set is ``{EVERY}``."""
        for each in texts:
            for text in _kept(each):
                if EVERY in self._texts:
                    return
                if text in self._texts:
                    continue
                self._frozen = None
                self._texts.add(text)
                self._bytes += sys.getsizeof(text)
                if self._bytes > MOST_BYTES or text == EVERY:
                    self._texts = {EVERY}


def _kept(text: str) -> Iterator[str]:
    if len(text) <= LONGEST_WHOLE:
        yield text
    else:
        yield BEGIN + text[:LENGTH_OF_END]
        yield END + text[-LENGTH_OF_END:]


def without_mark(text: str) -> str:
    """Return a kept text, or the end of one, as it is written."""
    return text.removeprefix(BEGIN).removeprefix(END) if text[:1] == "\0" else text


def bytes_of(texts: Iterable[str]) -> int:
    """Return the memory of texts."""
    return sum(map(sys.getsizeof, texts))
