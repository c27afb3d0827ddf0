"""The second step: a summary of the sentences whose words are the most frequent on the page. It needs no model."""

# pyright: basic

import json
import re
from collections import Counter
from pathlib import Path

from examples.website_summary.files import write_atomically
from examples.website_summary.settings import settings

SENTENCES = 3
MAX_CHARACTERS = 500
"""A longer sentence is cut."""


class NoFurtherSummary(Exception):
    """All possible summaries of this page were rejected."""


def summarize(ctx, filename):
    """Summarise a page, each time differently within one run.

    They are kept in a file by the id of their step: one that was made before its worker died is not made again.
    """
    run_id = ctx.id.rpartition(".")[0]
    file = settings().summaries / f"{run_id}.json"
    made = json.loads(file.read_text()) if file.exists() else {}
    if ctx.id not in made:
        print(f"summarizing {filename}", flush=True)
        made[ctx.id] = summary((settings().pages / Path(filename).name).read_text(), len(made))
        write_atomically(file, json.dumps(made))
    return made[ctx.id]


def summary(text, rejected):
    """Return the most informative sentences, in their order on the page, without those of the rejected summaries.

    Raises:
        NoFurtherSummary: There are no others.
    """
    sentences = list(dict.fromkeys(sentences_of(text)))
    frequency = Counter(word for sentence in sentences for word in words_of(sentence))

    def weight(sentence):
        words = words_of(sentence)
        return sum(frequency[word] for word in words) / max(1, len(words))

    ranked = sorted(sentences, key=weight, reverse=True)
    best = set(ranked[SENTENCES * rejected : SENTENCES * (rejected + 1)])
    if not best:
        raise NoFurtherSummary(
            f"no further summary: {rejected} were rejected and the page has no other sentences"
        )
    return " ".join(sentence for sentence in sentences if sentence in best)


def sentences_of(text):
    """Return the sentences of a text whose lines are paragraphs; its lines if it has no sentences."""
    lines = filter(None, map(str.strip, text.splitlines()))
    parts = [part for line in lines for part in re.split(r"(?<=[.!?])\s+", line)]
    sentences = [part for part in parts if part.rstrip("\"')]”’»").endswith((".", "!", "?"))]
    return [part[:MAX_CHARACTERS] for part in sentences or parts]


def words_of(sentence):
    """Return the words of a sentence that can carry a topic."""
    return [word for word in re.findall(r"\w+", sentence.casefold()) if len(word) > 3]
