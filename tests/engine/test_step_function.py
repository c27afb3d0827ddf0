"""Lookups of the functions that steps call."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any, Self

import pytest
from pydantic import BaseModel

from signoff.engine.run.call_inputs import arguments_text
from signoff.engine.steps import step_function
from signoff.engine.steps.step_function import step_function_of

VALUES = [
    0,
    -1,
    2**62,
    2**63,
    10**30,
    True,
    False,
    None,
    "",
    'é\n"',
    "\0",
    1.5,
    -0.0,
    1e300,
    "x" * 150,
    "é" * 90,
]


async def taking_two(first: Any, second: Any = 3) -> int:
    return 1


def taking_any(*rest: Any) -> None: ...


def taking_more(first: Any, *, second: Any = 2) -> None: ...


def asking_more(first: Any, *, second: Any) -> None: ...


class Till:
    """Has methods that steps call."""

    def pay(self, cents: Any, to: Any = "ana") -> int:
        return 1

    def myself(self) -> Self:
        return self

    def locally(self) -> Any:
        class Inner:
            def method(self) -> None: ...

        return Inner().method


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_it_writes_plain_arguments_as_they_are_written_otherwise(value: Any) -> None:
    known = step_function_of(taking_two)
    assert known is not None
    for args in ((value,), (value, 3), ("a", value)):
        text = known.inputs_of("step", args)
        otherwise = arguments_text("step", taking_two, args, {})
        assert text is not None
        assert otherwise is not None
        assert json.loads(text) == {"args": json.loads(otherwise)}


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), [1], (1,), {}, b"", "\ud800", "x" * 201, 2**64, pytest],
    ids=lambda value: repr(value)[:20],
)
def test_it_writes_other_arguments_as_they_are_written_otherwise(value: Any) -> None:
    known = step_function_of(taking_two)
    assert known is not None
    text, otherwise = known.inputs_of("step", (value,)), arguments_text("step", taking_two, (value,), {})
    assert text is not None
    assert otherwise is not None
    assert json.loads(text) == {"args": json.loads(otherwise)}
    assert known.inputs_of("step", (1, 2, 3)) is None


def test_only_plain_functions_and_methods_of_modules_are_known() -> None:
    def local() -> None: ...

    others: list[Any] = [local, lambda: None, list[int]().append, len, object(), Till().locally()]
    for other in others:
        assert step_function_of(other) is None
    known = step_function_of(taking_two)
    assert known is not None
    assert (known.least, known.most, known.options.returns) == (1, 2, int)
    assert known is step_function_of(taking_two)
    variadic = step_function_of(taking_any)
    assert variadic is not None
    assert (variadic.least, variadic.most) == (0, sys.maxsize)
    more, asking = step_function_of(taking_more), step_function_of(asking_more)
    assert more is not None
    assert (more.least, more.most) == (1, 1)
    assert asking is not None
    assert asking.most == -1


def test_methods_are_known_by_their_functions_and_never_for_functions() -> None:
    known = step_function_of(Till().pay)
    assert known is not None
    assert known.is_bound
    assert (known.least, known.most, known.options.returns) == (1, 2, int)
    assert known is step_function_of(Till().pay)
    plain = step_function_of(Till.pay)
    assert plain is not None
    assert (plain.least, plain.most, plain.is_bound) == (2, 3, False)
    assert step_function_of(Till().myself) is None
    assert known.inputs_of("step", (7,)) == '{"args":{"cents":7}}'


class Order(BaseModel):
    cents: int
    tags: list[str]


@pytest.mark.parametrize(
    "args",
    [
        (Order(cents=1, tags=["é"]), 7),
        ([1, {"b": 1, "a": 2}], "é"),
        ("x" * 201, None),
        ((1.5, True), False),
        (dict.fromkeys(range(20), "y" * 150), 1),
        (["z" * 190] * 2, "q" * 3_000),
        (object(), 1),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_other_arguments_are_written_exactly_as_before(args: tuple[Any, ...]) -> None:
    for function in (taking_two, Till().pay):
        known = step_function_of(function)
        assert known is not None
        text = known.inputs_of("step", args)
        assert text == f'{{"args":{arguments_text("step", function, args, {})}}}'


def test_it_forgets_functions_that_are_gone() -> None:
    names: dict[str, Any] = {"__name__": "cell"}
    exec("def made(): ...", names)
    key = id(names["made"])
    assert step_function_of(names["made"]) is not None
    assert key in step_function._known  # pyright: ignore[reportPrivateUsage]
    names.clear()
    gc.collect()
    assert key not in step_function._known  # pyright: ignore[reportPrivateUsage]


def test_a_return_type_that_cannot_be_resolved_yet_is_looked_for_again() -> None:
    names: dict[str, Any] = {"__name__": "cell"}
    exec("def made() -> 'Order': ...", names)
    assert step_function_of(names["made"]) is None
    names["Order"] = int
    known = step_function_of(names["made"])
    assert known is not None
    assert known.options.returns is int
