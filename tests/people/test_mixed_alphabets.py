"""Letters that look like others are pointed out in approvals."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.people.questions.mixed_alphabets import MOST, mixed_words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"to": "p\u0430ypal.com"}, [r"p\u0430ypal"]),
        (["\uff41dmin", "k\u03a9"], [r"\uff41dmin", r"k\u03a9"]),
        ({"\u0430b": [{"x": 1}]}, [r"\u0430b"]),
        (
            {
                "to": "Jos\u00e9 Stra\u00dfe \u041c\u043e\u0441\u043a\u0432\u0430 \u6771\u4eac IBM\u793e",
                "n": 1.5,
            },
            [],
        ),
        ("a" * 100_000, []),
        (
            [f"a\u0430{letter}" for letter in "bcdefghij"],
            [rf"a\u0430{letter}" for letter in "bcdefghij"[:MOST]],
        ),
    ],
)
def test_words_that_mix_alphabets_are_found(value: Any, words: list[str]) -> None:
    assert mixed_words(value) == words
