"""Fractions, addresses, patterns, NumPy arrays and scalars: compared at replay, and arrays are copied for steps."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from fractions import Fraction
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pytest

from signoff import Context
from signoff.codec.canonical_json import Unstable, stable_text
from signoff.engine.run.value_copies import copied
from signoff.errors import NonDeterminism
from tests.engine.rebuilt_runs import live_and_rebuilt
from tests.engine.restarts import restarted
from tests.support import in_asyncio

PAIRS: dict[str, tuple[Any, Any]] = {
    "fractions": (Fraction(1, 2), Fraction(1, 3)),
    "addresses": (ip_address("10.0.0.1"), ip_address("10.0.0.2")),
    "addresses of version 6": (ip_address("::1"), ip_address("::2")),
    "networks": (ip_network("10.0.0.0/8"), ip_network("10.0.0.0/16")),
    "interfaces": (ip_interface("10.0.0.1/8"), ip_interface("10.0.0.1/16")),
    "zones": (ZoneInfo("Europe/Berlin"), ZoneInfo("Europe/Paris")),
    "patterns": (re.compile("a"), re.compile("b")),
    "patterns of bytes": (re.compile(b"a"), re.compile(b"b")),
    "flags of patterns": (re.compile("a"), re.compile("a", re.IGNORECASE)),
    "scalars": (numpy.int64(1), numpy.int64(2)),
    "scalars of other types": (numpy.int32(1), numpy.int64(1)),
    "dates": (numpy.datetime64("2026-01-01"), numpy.datetime64("2026-01-02")),
    "arrays": (numpy.array([1, 2]), numpy.array([2, 1])),
    "arrays of other shapes": (numpy.zeros((2, 3)), numpy.zeros((3, 2))),
    "arrays of objects": (numpy.array([{"a": 1}, None]), numpy.array([{"a": 2}, None])),
}

FORMS: dict[str, Callable[[Context, Any], Awaitable[Any]]] = {
    "argument": lambda ctx, value: ctx.step("pay", repr, value),
    "in a list": lambda ctx, value: ctx.step("pay", repr, [value]),
    "closure": lambda ctx, value: ctx.step("pay", lambda: repr(value)),
    "partial": lambda ctx, value: ctx.step("pay", functools.partial(repr, value)),
}


def paying(values: tuple[Any, ...], form: str) -> Callable[[Context], Awaitable[Any]]:
    async def code(ctx: Context) -> None:
        for value in values:
            await FORMS[form](ctx, value)
        await ctx.wait_for_signal("go")

    return code


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pair", PAIRS)
@in_asyncio
async def test_two_that_change_places_stop_the_replay(pair: str, form: str) -> None:
    one, other = PAIRS[pair]
    assert isinstance(await restarted(paying((one, other), form), paying((other, one), form)), NonDeterminism)
    assert await restarted(paying((one, other), form)) is None


def test_an_array_that_is_too_large_is_left_out() -> None:
    with pytest.raises(Unstable, match="an array of 16,777,224 bytes has no stable form"):
        stable_text(numpy.zeros(2 * 1024 * 1024 + 1))


def test_equal_arrays_have_one_form_whatever_their_layout() -> None:
    array = numpy.arange(6).reshape(2, 3)
    assert stable_text(array) == stable_text(numpy.asfortranarray(array)) == stable_text(array[::1])


@in_asyncio
async def test_a_step_that_changes_an_array_changes_its_copy() -> None:
    def spoil(array: Any) -> int:
        array[0] = 7
        return int(array.sum())

    async def code(ctx: Context) -> list[Any]:
        array: Any = numpy.array([1, 2])
        listed: Any = [numpy.array([3, 4])]
        found = [await ctx.step(spoil, array), await ctx.step("listed", lambda: spoil(listed[0]))]
        await ctx.wait_for_signal("go")
        return [*found, array.tolist(), listed[0].tolist()]

    assert await live_and_rebuilt(code) == [[9, 11, [1, 2], [3, 4]]] * 2


def test_a_copy_of_an_array_shares_none_of_its_objects() -> None:
    inner = {"a": [1]}
    made = copied(numpy.array([inner, None]), {})
    made[0]["a"].append(2)
    assert inner == {"a": [1]}
