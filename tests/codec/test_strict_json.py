"""Stored JSON: a number that no float can hold is refused, in every notation."""

from __future__ import annotations

import pytest

from signoff.codec.strict_json import read_kept

ZEROS = "0" * 250


@pytest.mark.parametrize(
    "number",
    ["1e400", "-1E+400", "1.5e0000400", "0.1e999", f"1{ZEROS}e99", f"-1{ZEROS}.5e99", f"1{ZEROS}0e58"],
)
@pytest.mark.parametrize("around", ["%s", " %s", "[%s]", "[0,%s]", '{"a":%s}', '{"a":\n\t%s}'])
def test_a_number_that_no_float_holds_is_refused(number: str, around: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        read_kept(around % number)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e308", 1e308),
        ("[-1e-400]", [0.0]),
        (f"1{ZEROS}", 10**250),
        ('"3e904"', "3e904"),
        ('[" 1e999"]', [" 1e999"]),
        ('{"a, 1e999": "b: -1e999"}', {"a, 1e999": "b: -1e999"}),
    ],
)
def test_what_floats_hold_and_texts_are_read(text: str, value: object) -> None:
    assert read_kept(text) == value
