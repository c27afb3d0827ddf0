"""Sets that the codec reads have one order in every process, and are sets."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from signoff import codec
from signoff.codec.set_order import OrderedFrozenSet, OrderedSet, in_one_order

WORDS = [f"o-{number}" for number in range(12)]


class Fruit(Enum):
    APPLE = "apple"
    PEAR = "pear"
    PLUM = "plum"


class Basket(BaseModel):
    fruits: set[Fruit]
    deep: dict[str, list[set[str]]] = {}


class FrozenModel(BaseModel, frozen=True):
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Crate:
    tags: frozenset[str]
    more: set[str] = field(default_factory=set)


class Pair(NamedTuple):
    one: set[str]
    two: int


class Typed(TypedDict):
    tags: set[str]


DECLARED: list[tuple[Any, Any]] = [
    (set[str], set(WORDS)),
    (frozenset[str], frozenset(WORDS)),
    (Set[str], set(WORDS)),
    (set, set(WORDS)),
    (set[str] | None, set(WORDS)),
    (set[str | int], {*WORDS, 1, 2, 3}),
    (set[frozenset[str]], {frozenset(WORDS[:3]), frozenset(WORDS[3:])}),
    (set[tuple[str, int]], {(word, 1) for word in WORDS}),
    (list[set[str]], [set(WORDS)]),
    (tuple[set[str], ...], (set(WORDS), {"x"})),
    (dict[str, set[str]], {"a": set(WORDS)}),
    (dict[str, dict[str, list[frozenset[str]]]], {"a": {"b": [frozenset(WORDS)]}}),
    (Basket, Basket(fruits=set(Fruit), deep={"a": [set(WORDS)]})),
    (list[Basket], [Basket(fruits=set(Fruit))]),
    (set[FrozenModel], {FrozenModel(tags=frozenset(WORDS[:2])), FrozenModel(tags=frozenset(WORDS[2:]))}),
    (Crate, Crate(frozenset(WORDS), set(WORDS))),
    (dict[str, Crate], {"a": Crate(frozenset(WORDS), set(WORDS))}),
    (Pair, Pair(set(WORDS), 2)),
    (Typed, {"tags": set(WORDS)}),
]


def walked(value: Any) -> Any:
    """Return a value as text, walking its sets as they are walked."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return {name: walked(each) for name, each in value.__dict__.items()}
    if isinstance(value, Crate):
        return [walked(value.tags), walked(value.more)]
    if isinstance(value, dict):
        return {name: walked(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [walked(each) for each in value]
    return value


def everything() -> str:
    """Return all values as they are walked after the codec has read them."""
    return json.dumps([walked(codec.normalize(value, kind)[1]) for kind, value in DECLARED])


@pytest.mark.parametrize(("kind", "value"), DECLARED, ids=range(len(DECLARED)))
def test_a_set_comes_back_equal(kind: Any, value: Any) -> None:
    text, again = codec.normalize(value, kind)
    assert again == value
    assert codec.normalize(again, kind) == (text, again)
    assert codec.decode(text, kind) == again
    assert walked(codec.decode(text, kind)) == walked(again)


def test_sets_are_walked_in_one_order_in_every_process() -> None:
    found = {everything()}
    for seed in ("1", "2"):
        code = "from tests.codec.test_set_order import everything; print(everything())"
        env = os.environ | {"PYTHONHASHSEED": seed}
        found.add(
            subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
            ).stdout.strip()
        )
    assert len(found) == 1


CHANGES: list[Any] = [
    lambda mine, items: mine.add(items[0]),
    lambda mine, items: mine.discard(items[0]),
    lambda mine, items: mine.update(items),
    lambda mine, items: mine.difference_update(items),
    lambda mine, items: mine.intersection_update(items),
    lambda mine, items: mine.symmetric_difference_update(items),
    lambda mine, items: mine.clear(),
    lambda mine, items: mine.__ior__(set(items)),
    lambda mine, items: mine.__iand__(set(items)),
    lambda mine, items: mine.__isub__(set(items)),
    lambda mine, items: mine.__ixor__(set(items)),
    lambda mine, items: mine.pop() and None if mine else None,
]
OPERATIONS: list[Any] = [
    lambda mine, other: mine | other,
    lambda mine, other: mine & other,
    lambda mine, other: mine - other,
    lambda mine, other: mine ^ other,
    lambda mine, other: other | mine,
    lambda mine, other: other & mine,
    lambda mine, other: other - mine,
    lambda mine, other: other ^ mine,
    lambda mine, other: mine.union(other, [1]),
    lambda mine, other: mine.intersection(other),
    lambda mine, other: mine.difference(other),
    lambda mine, other: mine.symmetric_difference(other),
    lambda mine, other: mine.copy(),
    lambda mine, other: copy.copy(mine),
    lambda mine, other: copy.deepcopy(mine),
]
numbers = st.lists(st.integers(0, 9), min_size=1, max_size=8)


@given(numbers, st.lists(st.tuples(st.sampled_from(range(len(CHANGES))), numbers), max_size=6))
def test_it_changes_as_a_set_does(items: list[int], changes: list[tuple[int, list[int]]]) -> None:
    mine, plain = OrderedSet(items), set(items)
    for index, others in changes:
        if index == len(CHANGES) - 1:
            plain.discard(next(reversed(list(mine)), None))
            CHANGES[index](mine, others)
        else:
            CHANGES[index](mine, others)
            CHANGES[index](plain, others)
        assert mine == plain
        assert sorted(mine) == sorted(plain)
        assert len(list(mine)) == len(mine)


@given(numbers, numbers)
def test_what_is_made_of_it_is_in_order_too(items: list[int], others: list[int]) -> None:
    for kind, plain in ((OrderedSet, set), (OrderedFrozenSet, frozenset)):
        for make in OPERATIONS:
            for other in (plain(others), kind(others)):
                result = make(kind(items), other)
                assert result == make(plain(items), plain(others))
                assert len(list(result)) == len(result)
    assert hash(OrderedFrozenSet(items)) == hash(frozenset(items))
    random.shuffle(items)
    assert OrderedSet(items) == set(items)
    assert repr(OrderedSet([2, 1])) == "{2, 1}"


def test_a_class_with_a_named_tuple_method_is_not_a_named_tuple() -> None:
    @dataclass
    class Cake:
        layers: set[str]

        def _make(self) -> None: ...

    cake = in_one_order(Cake({"b", "a"}))
    assert list(cake.layers) == ["a", "b"]
