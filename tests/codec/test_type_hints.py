"""Declared types are resolved wherever Python can. Unresolvable ones are named, once."""

from __future__ import annotations

import functools
import gc
import logging
import sys
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NewType, Self

import pytest

from signoff import codec

if TYPE_CHECKING:
    from nowhere import Order, Other  # pyright: ignore[reportMissingImports, reportUnknownVariableType]


@dataclass
class Known:
    a: int

    @dataclass
    class Inner:
        b: int

    def inner(self) -> Inner:
        return Known.Inner(self.a)

    @classmethod
    def make(cls) -> Self:
        return cls(1)

    def same(self) -> Self:
        return self

    @staticmethod
    def static() -> Known:
        return Known(1)

    def __call__(self) -> Known:
        return self


class Child(Known):
    pass


Id = NewType("Id", str)


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def plain() -> Known: ...  # type: ignore[empty-body]
def quoted() -> "Known | None": ...  # noqa: UP037
def marked() -> Annotated[list[Known], "note"]: ...  # type: ignore[empty-body]
def named() -> Id: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "annotation"),
    [
        (plain, Known),
        (quoted, Known | None),
        (marked, Annotated[list[Known], "note"]),
        (named, Id),
        (traced(plain), Known),
        (traced(traced(quoted)), Known | None),
        (functools.partial(plain), Known),
        (functools.partial(traced(plain)), Known),
        (Known(1).inner, Known.Inner),
        (Known.inner, Known.Inner),
        (Known.make, Known),
        (Child.make, Child),
        (Child(1).same, Child),
        (Known.static, Known),
        (Known(1), Known),
        (Known, Known),
    ],
)
def test_a_declared_type_is_found(function: Callable[..., Any], annotation: object) -> None:
    assert codec.return_annotation(function) == annotation


def test_a_class_of_a_function_is_found_in_the_closure() -> None:
    @dataclass
    class Local:
        a: int

    def make(like: Local) -> list[Local]:
        return [Local(like.a)]

    assert codec.return_annotation(make) == list[Local]
    text = codec.encode_arguments(make, [Local(1)], {}, skip=0)
    assert codec.decode_arguments(text, make, skip=0) == ([Local(1)], {})


def test_a_name_that_is_defined_later_is_found_then() -> None:
    module = types.ModuleType("later")
    exec("from __future__ import annotations\ndef make(it: Late) -> Late: ...", module.__dict__)
    assert codec.return_annotation(module.make) is Any
    assert codec.encode_arguments(module.make, [{"a": 1}], {}, skip=0)
    module.Late = Known  # type: ignore[attr-defined]
    assert codec.return_annotation(module.make) is Known
    text = codec.encode_arguments(module.make, [Known(1)], {}, skip=0)
    assert codec.decode_arguments(text, module.make, skip=0)[0] == [Known(1)]


def test_what_cannot_be_resolved_is_named_once_and_spoils_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def make(order: Order, known: Known, others: list[Other]) -> Order | None: ...  # pyright: ignore[reportUnknownParameterType]

    with caplog.at_level(logging.WARNING, "signoff.codec"):
        for _ in range(3):
            assert codec.return_annotation(make) is Any
            text = codec.encode_arguments(make, [{"id": 1}, Known(1), []], {}, skip=0)
    assert codec.decode_arguments(text, make, skip=0)[0] == [{"id": 1}, Known(1), []]
    found = sorted(record.getMessage().partition(" cannot be resolved")[0] for record in caplog.records)
    where = f"{__name__}.{make.__qualname__}: "
    assert found == [
        f"{where}its return type, Order | None,",
        f"{where}the type of 'order', Order,",
        f"{where}the type of 'others', list[Other],",
    ]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated lazily from Python 3.14 on")
def test_lazy_annotations_that_cannot_be_evaluated_are_named() -> None:
    scope: dict[str, Any] = {"Known": Known}
    exec("def make(order: Missing, known: Known) -> Missing: ...", scope)
    assert codec.return_annotation(scope["make"]) is Any
    text = codec.encode_arguments(scope["make"], [{"id": 1}, Known(1)], {}, skip=0)
    assert codec.decode_arguments(text, scope["make"], skip=0)[0] == [{"id": 1}, Known(1)]
    assert list(codec.shape_of(scope["make"]).parameters) == ["order", "known"]


def _declaring(declared: Any) -> Callable[..., Any]:
    def inner() -> declared:  # pyright: ignore[reportInvalidTypeForm]
        return None

    inner.__annotations__["return"] = declared
    return inner


@pytest.mark.parametrize(
    "declared",
    [
        int,
        Known,
        None,
        list[int],
        list[Known],
        int | str,
        str | int,
        dict[str, Known | None],
        Annotated[int, "a"],
    ],
    ids=str,
)
def test_a_function_of_the_same_code_may_declare_another_type(declared: Any) -> None:
    for other in (declared, str, declared, Child, list[str], str | int, int | str, declared):
        found = codec.return_annotation(_declaring(other))
        assert found is other or repr(found) == repr(type(None) if other is None else other)


def test_a_text_that_names_another_class_by_now_is_resolved_anew() -> None:
    scope: dict[str, Any] = {"__name__": __name__, "Order": Known}
    exec("def make():\n def inner() -> 'Order': ...\n return inner", scope)
    assert codec.return_annotation(scope["make"]()) is Known
    scope["Order"] = Child  # as a notebook's cell that is run again does
    assert codec.return_annotation(scope["make"]()) is Child


def test_a_class_of_each_run_is_found_and_not_kept() -> None:
    gone: list[weakref.ref[Any]] = []
    for _ in range(3):

        class Local:
            pass

        def inner(kind: Any = Local) -> Any:
            return kind

        inner.__annotations__["return"] = Local
        assert codec.return_annotation(inner) is Local
        gone.append(weakref.ref(Local))
        del Local, inner
    gc.collect()
    assert [each() for each in gone] == [None] * 3
