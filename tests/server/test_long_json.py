"""Long JSON from workers is read like short JSON, at a lower cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.codec.strict_json import read_exactly, read_kept
from signoff.errors import InvalidValue
from signoff.server.limits.long_json import check_long, read_long

SAMPLES = (
    '{"a":[1,"x",{"b":"\\u20ac"}]}',
    '["\\ud83d\\ude00","\\\\ud800","\\\\","\\""]',
    ' [ "a" , { "b" : "c" }, -0.5e3, null ] ',
    '{"args":["a",{"args":1}],"kwargs":{"x":"kwargs"}}',
    '"\u2028\x7fé€😀"',
)
EDITS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from('{}[]",:\\u1dD8 ae0.-\n\x01€')), max_size=3)


@st.composite
def nearly_json(draw: st.DrawFn) -> str:
    """JSON, or what is JSON but for a few characters."""
    text = draw(st.sampled_from(SAMPLES))
    for place, character in draw(EDITS):
        place %= len(text) + 1
        text = text[:place] + character + text[place + draw(st.integers(0, 1)) :]
    return text


def _outcome(read: Any, text: Any) -> Any:
    try:
        return True, read(text)
    except (ValueError, RecursionError):
        return False, None


@given(nearly_json())
def test_a_value_is_refused_if_reading_it_refuses_it(text: str) -> None:
    assert _outcome(lambda text: check_long("value", text), text)[0] == _outcome(read_kept, text)[0]


@given(nearly_json())
def test_a_body_is_read_as_a_short_one_is(text: str) -> None:
    may_be_read, value = _outcome(read_exactly, text)
    is_read, read = _outcome(read_long, bytearray(text.encode()))
    if is_read:
        assert (may_be_read, read) == (True, value)
    elif may_be_read:
        assert "\\u" in json.dumps(value)  # half of a surrogate pair, which no store keeps


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"args":[1,"kwargs"],"kwargs":{"args":0},"x":1}', {}),
        ('{"args":{}}', {"args": None}),
        ('{"\\u0061rgs":"args"}', {"args": None}),
        ('{"args":[],"kw\\u0061rgs":[]}', {"kwargs": None}),
        ('[{"kwargs":null}]', [{"kwargs": None}]),
        ('"args"', "args"),
    ],
)
def test_what_is_left_of_a_value_shows_whether_it_can_be_arguments(text: str, left: Any) -> None:
    assert check_long("arguments", text) == left


@pytest.mark.parametrize("depth", [100, 200, 300, 5_000])
def test_no_value_is_deeper_than_readers_go(depth: int) -> None:
    text = '[{"":' * (depth // 2) + "0" + "}]" * (depth // 2)
    assert _outcome(lambda text: check_long("value", text), text)[0] == _outcome(read_kept, text)[0]


@pytest.mark.parametrize("twice", ['{"a":1,"a":2}', '[{"b":{"\\u0061":1,"a":2}}]', '{"":0,"":0}'])
def test_a_key_that_is_there_twice_is_found(twice: str) -> None:
    with pytest.raises(ValueError, match="duplicate key"):
        read_long(bytearray(twice.encode()))


@pytest.mark.parametrize("unit", ["[]", '{"a":1}', '"ab"', '{"a":{"":0}}', "0.5"])
def test_a_body_that_would_take_much_memory_is_refused_before_it_is_read(unit: str) -> None:
    body = bytearray(f"[{f'{unit},' * 1_500_000}0]".encode())
    with pytest.raises(InvalidValue, match="MiB of memory"):
        read_long(body)
