"""Edits turn the old value into the new one, and back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.people.questions.edits import Edit, edits_between, is_same

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.5, 1.0])
    | st.text("a/~0", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("a/~0", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


def applied(value: Any, edits: list[Edit]) -> Any:
    """Apply edits as a JSON Patch, and check each old value on the way."""
    root = {"": copy.deepcopy(value)}
    for edit in edits:
        keys = ["", *(key.replace("~1", "/").replace("~0", "~") for key in edit["path"].split("/")[1:])]
        at: Any = root
        for key in keys[:-1]:
            at = at[int(key)] if isinstance(at, list) else at[key]
        key: Any = int(keys[-1]) if isinstance(at, list) else keys[-1]
        if edit["op"] == "add":
            assert "old" not in edit
            if isinstance(at, list):
                at.insert(key, edit["value"])
            else:
                assert key not in at
                at[key] = edit["value"]
            continue
        assert is_same(at[key], edit["old"])
        if edit["op"] == "remove":
            assert "value" not in edit
            del at[key]
        else:
            at[key] = edit["value"]
    return root[""]


@given(JSON, JSON)
def test_edits_lead_from_the_old_value_to_the_new(old: Any, new: Any) -> None:
    edits = edits_between(old, new)
    assert is_same(applied(old, edits), new)
    assert (edits == []) == is_same(old, new)


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        ({"amount": 7}, {"amount": 5}, [{"op": "replace", "path": "/amount", "value": 5, "old": 7}]),
        ({"a": 1}, {"a": 1, "b": None}, [{"op": "add", "path": "/b", "value": None}]),
        ({"a": 1, "b": None}, {"a": 1}, [{"op": "remove", "path": "/b", "old": None}]),
        ([1, 2, 3, 4], [1, 4], [{"op": "remove", "path": f"/{n}", "old": n + 1} for n in (2, 1)]),
        ([1, 4], [1, 2, 4], [{"op": "add", "path": "/1", "value": 2}]),
        ([{"a": 1}], [{"a": 2}], [{"op": "replace", "path": "/0/a", "value": 2, "old": 1}]),
        ({"a/b~": 1}, {"a/b~": 2}, [{"op": "replace", "path": "/a~1b~0", "value": 2, "old": 1}]),
        ("a", "b", [{"op": "replace", "path": "", "value": "b", "old": "a"}]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True, "old": 1}]),
        ({"a": []}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}, "old": []}]),
    ],
    ids=repr,
)
def test_only_what_differs_is_an_edit(old: Any, new: Any, edits: list[Edit]) -> None:
    assert edits_between(old, new) == edits
