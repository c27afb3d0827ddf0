"""Arguments come back as each parameter declares, and equal calls give equal text."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, TypeVar, Unpack
from uuid import UUID

import pytest
from pydantic import BaseModel

from signoff import codec
from signoff.errors import InvalidValue, NotSerializable, PayloadTooLarge

if TYPE_CHECKING:
    from nowhere import Missing  # pyright: ignore[reportMissingImports]

R = TypeVar("R")


class Order(BaseModel):
    id: UUID
    at: datetime


@dataclass(frozen=True)
class Line:
    day: date


class Filters(TypedDict, total=False):
    since: date
    limit: int


ORDER = Order(id=UUID(int=1), at=datetime(2024, 5, 6, tzinfo=UTC))
DAY = date(2024, 5, 6)


def simple(ctx: Any, a: int, b: int = 2, *, c: int = 3) -> None: ...
def only_position(ctx: Any, a: date, /, b: date) -> None: ...
def only_names(ctx: Any, *, a: date, b: date = DAY) -> None: ...
def anything(ctx: Any, *rest: date, **more: Line) -> None: ...
def unpacked(ctx: Any, *rest: *tuple[int, str], **filters: Unpack[Filters]) -> None: ...
def typed(ctx: Any, order: Order, lines: list[Line], days: Iterable[date] = ()) -> None: ...
def untyped(ctx, a, b=None): ...  # type: ignore[no-untyped-def]
def unresolved(ctx: Any, a: Missing, day: date) -> Missing: ...
def no_context(a: int) -> None: ...


class Service:
    def method(self, ctx: Any, day: date) -> Line: ...
    async def amethod(self, ctx: Any, day: date) -> Line: ...
    def __call__(self, ctx: Any, day: date) -> Line: ...


@functools.lru_cache
def cached(ctx: Any, day: date) -> Line: ...


def decorated(function: Callable[..., R]) -> Callable[..., R]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> R:
        return function(*args, **kwargs)

    return wrapper


wrapped = decorated(typed)


@pytest.mark.parametrize(
    ("function", "calls", "text"),
    [
        (simple, [((1, 5), {}), ((1,), {"b": 5}), ((), {"b": 5, "a": 1})], '{"args":[1,5],"kwargs":{}}'),
        (simple, [((1,), {}), ((), {"a": 1})], '{"args":[1],"kwargs":{}}'),
        (simple, [((1,), {"c": 4}), ((), {"c": 4, "a": 1})], '{"args":[1],"kwargs":{"c":4}}'),
        (simple, [((1, 2), {"c": 3}), ((), {"c": 3, "b": 2, "a": 1})], '{"args":[1,2],"kwargs":{"c":3}}'),
        (anything, [((), {"b": Line(DAY), "a": Line(DAY)}), ((), {"a": Line(DAY), "b": Line(DAY)})], None),
        (untyped, [(({"x": [3, 1, 2]},), {}), ((), {"a": {"x": [3, 1, 2]}})], None),
        (None, [((1,), {"b": 2, "a": 1}), ((1,), {"a": 1, "b": 2})], '{"args":[1],"kwargs":{"a":1,"b":2}}'),
    ],
)
def test_calls_that_mean_the_same_give_the_same_text(
    function: Any, calls: list[tuple[tuple[Any, ...], dict[str, Any]]], text: str | None
) -> None:
    texts = {codec.encode_arguments(function, args, kwargs) for args, kwargs in calls}
    assert len(texts) == 1
    assert text is None or texts == {text}


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (typed, (ORDER, [Line(DAY)]), {}),
        (typed, (ORDER, [], [DAY, DAY]), {}),
        (wrapped, (ORDER, [Line(DAY)]), {}),
        (only_position, (DAY, DAY), {}),
        (only_names, (), {"a": DAY, "b": DAY}),
        (anything, (DAY, DAY), {"x": Line(DAY), "y": Line(DAY)}),
        (unpacked, (1, "x"), {"since": DAY, "limit": 3}),
        (untyped, ({"a": [1, None]}, "x"), {}),
        (unresolved, ({"any": "thing"}, DAY), {}),
        (cached, (DAY,), {}),
        (Service().method, (DAY,), {}),
        (Service().amethod, (DAY,), {}),
        (Service(), (DAY,), {}),
        (functools.partial(typed, lines=[]), (ORDER,), {"days": [DAY]}),
    ],
)
def test_arguments_come_back_as_declared(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    text = codec.encode_arguments(function, args, kwargs)
    assert codec.decode_arguments(text, function) == (list(args), kwargs)


def test_a_function_without_a_context_takes_all_its_arguments() -> None:
    text = codec.encode_arguments(no_context, (), {"a": 3}, skip=0)
    assert text == '{"args":[3],"kwargs":{}}'
    assert codec.decode_arguments(text, no_context, skip=0) == ([3], {})


def test_arguments_of_an_unknown_function_are_restored_where_it_is_known() -> None:
    text = codec.encode_arguments(None, (ORDER,), {"lines": [Line(DAY)]})
    assert codec.decode_arguments(text, typed) == ([ORDER, [Line(DAY)]], {})


def test_a_builtin_without_a_signature_takes_anything() -> None:
    text = codec.encode_arguments(max, (1, 2), {}, skip=0)
    assert codec.decode_arguments(text, max, skip=0) == ([1, 2], {})


def test_text_may_leave_out_what_is_empty() -> None:
    assert codec.decode_arguments("{}", anything) == ([], {})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "message"),
    [
        (simple, (), {}, r"simple\(.*missing a required argument: 'a'"),
        (simple, (1, 2, 3), {}, r"simple\(.*too many positional arguments"),
        (simple, (1,), {"a": 1}, r"simple\(.*multiple values for argument 'a'"),
        (simple, (1,), {"d": 1}, r"simple\(.*unexpected keyword argument 'd'"),
        (simple, (1,), {"ctx": 1}, r"simple\(.*multiple values for argument 'ctx'"),
        (only_names, (), {}, r"only_names\(.*missing a required.* 'a'"),
        (only_names, (DAY,), {}, r"only_names\(.*too many positional arguments"),
        (only_position, (), {"a": DAY, "b": DAY}, r"only_position\(.*'a'"),
        (Service().method, (), {}, r"Service.method\(.*'day'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_function_and_parameter(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValue, match=f"^args: .*{message}"):
        codec.encode_arguments(function, args, kwargs)
    text = codec.encode_arguments(None, args, kwargs)
    with pytest.raises(InvalidValue, match=f"^args: .*{message}"):
        codec.decode_arguments(text, function)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "path"),
    [
        (simple, ("x",), {}, "args.a"),
        (simple, (1,), {"c": "x"}, "args.c"),
        (typed, ({"id": "x"}, []), {}, "args.order.id"),
        (typed, (ORDER, [Line(DAY), {}]), {}, "args.lines[1].day"),
        (anything, (DAY, "x"), {}, "args.rest[1]"),
        (anything, (), {"x": {"day": 1.5}}, "args.x.day"),
    ],
)
def test_an_argument_of_another_type_is_refused_with_its_path(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidValue) as refusal:
        codec.encode_arguments(function, args, kwargs)
    assert refusal.value.path == path
    with pytest.raises(InvalidValue) as refusal:
        codec.decode_arguments(codec.encode_arguments(None, args, kwargs), function)
    assert refusal.value.path == path


def test_an_argument_that_cannot_be_stored_is_refused_by_its_parameter() -> None:
    with pytest.raises(NotSerializable, match=r"^args\.a\.client: "):
        codec.encode_arguments(untyped, ({"client": object()},), {})
    with pytest.raises(NotSerializable, match=r"^args\[0\]\.client: "):
        codec.encode_arguments(None, ({"client": object()},), {})
    with pytest.raises(NotSerializable, match=r"^args\.b: "):
        codec.encode_arguments(None, (), {"b": object()})


def test_arguments_over_the_limit_together_are_refused() -> None:
    with pytest.raises(PayloadTooLarge, match=r"^args: "):
        codec.encode_arguments(untyped, ("x" * 600_000, "y" * 600_000), {})


@pytest.mark.parametrize("text", ["[]", '{"args": "ab"}', '{"kwargs": [1]}', "{", "null"])
def test_what_are_no_arguments_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match=r"^args"):
        codec.decode_arguments(text, untyped)


async def returns_async() -> Order: ...
def returns_generator() -> Generator[int, str, Order]: ...
def returns_bare_generator() -> Generator: ...  # type: ignore[type-arg]
def yields() -> Iterator[int]:
    yield 1


def returns_iterable() -> Iterable[date]: ...
async def ayields() -> AsyncIterator[int]:
    yield 1


def returns_awaitable() -> Awaitable[Order]: ...
def returns_coroutine() -> Coroutine[Any, Any, list[Line]]: ...
def returns_never() -> NoReturn: ...
def returns_text() -> "Order": ...  # noqa: UP037
def returns_nothing_declared(a: int): ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("function", "annotation"),
    [
        (returns_async, Order),
        (returns_generator, Order),
        (returns_bare_generator, Any),
        (yields, Any),
        (returns_iterable, Iterable[date]),
        (returns_awaitable, Order),
        (returns_coroutine, list[Line]),
        (returns_never, Any),
        (returns_text, Order),
        (returns_nothing_declared, Any),
        (simple, type(None)),
        (unresolved, Any),
        (lambda: 1, Any),
        (len, Any),
        (Order, Order),
        (functools.partial(returns_async), Order),
        (functools.partial(functools.partial(Service().method, 1), DAY), Line),
        (Service().method, Line),
        (Service().amethod, Line),
        (Service(), Line),
        (cached, Line),
        (wrapped, type(None)),
        (object(), Any),
    ],
)
def test_the_return_type_is_what_the_function_gives_at_its_end(function: Any, annotation: object) -> None:
    assert codec.return_annotation(function) == annotation
    assert codec.return_annotation(function) == annotation


def test_one_unresolved_name_does_not_hide_the_others() -> None:
    _, kwargs = codec.decode_arguments('{"kwargs": {"a": 1, "day": "2024-05-06"}}', unresolved)
    args, _ = codec.decode_arguments('{"args": [1, "2024-05-06"]}', unresolved)
    assert (kwargs, args) == ({}, [1, DAY])


def test_describing_a_function_does_not_keep_it() -> None:
    def local(ctx: Any, lines: Sequence[int]) -> dict[str, int]: ...

    codec.encode_arguments(local, ([1],), {})
    codec.return_annotation(local)
    gone = weakref.ref(local)
    del local
    gc.collect()
    assert gone() is None
