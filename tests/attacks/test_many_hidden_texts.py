"""Many short hidden texts: to search a text for each of them took a time that grew with both."""

from __future__ import annotations

import json
import random
import time
from typing import Final

import pytest

from signoff.redaction.hidden_values import MOST_SEARCHED, PLACEHOLDER, Hidden
from signoff.redaction.spellings import MOST_UNINDEXED, Anchors, Spellings

MANY: Final = [f"customer-{number:05}" for number in range(1_500)]
"""Texts with the same beginning, whose spellings are far more than are searched for one by one."""

LONG: Final = 1_000_000
MOST_SECONDS: Final = 15.0
"""What took minutes before. Each takes about a second on a machine that does nothing else."""

WRITTEN: Final = {
    "as it is": MANY[700],
    "in capitals": MANY[700].upper(),
    "in mixed case": "Customer-00700",
    "in groups": "customer 007 00",
    "in JSON": json.dumps(MANY[700]),
    "cut": "customer-00...",
    "without its beginning": "...er-00700",
}


@pytest.fixture(scope="module")
def hidden() -> Hidden:
    held = Hidden(MANY)
    assert len(Spellings.of(held.secrets).all) > 10 * MOST_UNINDEXED
    return held


@pytest.mark.parametrize("how", WRITTEN)
def test_each_of_many_is_found_however_it_is_written(hidden: Hidden, how: str) -> None:
    shown = hidden.masked(f"It is {WRITTEN[how]} or so, and a customer-like word.")
    assert PLACEHOLDER in shown
    assert "007" not in shown
    if how != "cut" and how != "without its beginning":
        assert shown.endswith("or so, and a customer-like word.")


def test_what_is_beside_many_shows(hidden: Hidden) -> None:
    assert hidden.masked("Our customer-service answers.") == "Our customer-service answers."
    assert hidden.masked(f"{MANY[1]}, {MANY[2]} and Ana") == f"{PLACEHOLDER}, {PLACEHOLDER} and Ana"


def test_a_text_that_may_contain_too_many_is_hidden_whole(hidden: Hidden) -> None:
    assert hidden.masked("Nobody but " + " ".join([*MANY, *map(str.upper, MANY)])) == PLACEHOLDER
    assert len(MANY) < MOST_SEARCHED


TEXTS: Final = {
    "words": "word and " * (LONG // 9),
    "their beginning": "customer-" * (LONG // 9),
    "cuts": "customer-0... " * (LONG // 14),
    "dots": "." * LONG,
    "capitals": " ".join(f"CuStOmEr-{number:05}" for number in range(LONG // 15)),
    "groups": " ".join(f"customer {number:05}" for number in range(LONG // 15)),
    "separators": "customer" + "-" * LONG,
}


@pytest.mark.parametrize("secrets", ["many", "few"])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_long_text_is_searched_in_bounded_time(kind: str, secrets: str) -> None:
    held = Hidden(MANY if secrets == "many" else MANY[:50])
    began_at = time.process_time()
    held.masked(TEXTS[kind])
    assert time.process_time() - began_at < MOST_SECONDS


def test_ends_of_many_long_texts_are_searched_in_bounded_time() -> None:
    chance = random.Random(3)
    long = [f"{number} {chance.randbytes(9_000).hex()}" for number in range(40)]
    held = Hidden(long)
    text = " ".join(f"{each[:1100]}{each[-1100:]}" for each in long) * 10
    began_at = time.process_time()
    shown = held.masked(text)
    assert time.process_time() - began_at < MOST_SECONDS
    assert not any(each[:100] in shown for each in long)


def test_anchors_find_every_text_that_another_contains() -> None:
    chance = random.Random(7)

    def word(most: int) -> str:
        return "".join(chance.choices("abc1", k=chance.randrange(1, most)))

    for ends in (None, 6):
        texts = [each for each in (word(40) for _ in range(300)) if len(each) >= (ends or 0)]
        anchors = Anchors(texts, ends)
        for text in (word(3_000) for _ in range(50)):
            found = anchors.possible_in(text)
            assert found == [each for each in texts if each in found]
            for each in texts:
                if each in text or (ends and (each[:ends] in text or each[-ends:] in text)):
                    assert each in found
