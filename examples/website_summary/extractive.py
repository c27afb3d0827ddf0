"""A summariser without a model or a network: it picks the most informative sentences (sumy)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module

from examples.website_summary.settings import settings

ALGORITHMS = {
    "LexRank": "sumy.summarizers.lex_rank:LexRankSummarizer",
    "Luhn": "sumy.summarizers.luhn:LuhnSummarizer",
    "LSA": "sumy.summarizers.lsa:LsaSummarizer",
    "TextRank": "sumy.summarizers.text_rank:TextRankSummarizer",
    "KL-Sum": "sumy.summarizers.kl:KLSummarizer",
}
SENTENCES = (4, 3, 5, 2)


class Tokenizer:
    """Sentences and words for sumy, whose own tokenizer downloads data when it is used."""

    def __init__(self, language: str) -> None:
        self._language = language

    def to_sentences(self, text: str) -> tuple[str, ...]:
        """Split a paragraph into its sentences, without headings and the like."""
        from sentencex import segment

        sentences = (each.strip() for each in segment(self._language, text))
        return tuple(each for each in sentences if each and not each[-1].isalnum())

    def to_words(self, text: str) -> tuple[str, ...]:
        """Return the words of a sentence."""
        return tuple(re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text))


def proposals(text: str) -> Iterator[tuple[str, str]]:
    """Yield summaries: one algorithm after the other, then shorter and longer ones, always in the same order."""
    from sumy.parsers.plaintext import PlaintextParser

    language = settings().language
    paragraphs = "\n\n".join(text.splitlines())
    document = PlaintextParser.from_string(paragraphs, Tokenizer(language)).document
    stop_words = stop_words_of(language)
    for count in SENTENCES:
        for name, place in ALGORITHMS.items():
            module, _, kind = place.partition(":")
            summarizer = getattr(import_module(module), kind)()
            summarizer.stop_words = stop_words
            picked = summarizer(document, count)
            yield " ".join(str(each) for each in picked), f"{name}, an embedded extractive summariser"


def stop_words_of(language: str) -> frozenset[str]:
    """Return words that carry no topic, as far as they are known for the language."""
    from sumy.utils import get_stop_words

    try:
        return get_stop_words(language)
    except LookupError:
        return frozenset()
