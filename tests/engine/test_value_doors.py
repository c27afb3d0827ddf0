"""A value comes back equal and with its type through every interface, live and rebuilt, in every kind of store."""

from __future__ import annotations

import asyncio
import collections
import enum
import functools
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import numpy
import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, computed_field

from signoff import AsyncClient, AsyncHandle, Context, Signoff
from signoff.codec.set_order import kind_of
from signoff.errors import NotSerializable
from signoff.flows import Data, Flow
from signoff.flows.errors import ChunkFailed
from signoff.testing import MemoryStore
from tests.places import NewStore
from tests.support import comes, doomed_worker, in_asyncio, opened, opens, pauses, running

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str = Field(alias="theName")


class Box(BaseModel, Generic[T]):
    item: T


class Names(RootModel[dict[str, list[int]]]):
    pass


class Tree(BaseModel):
    children: list[Tree] = []


class Square(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2

    @functools.cached_property
    def half(self) -> float:
        return self.side / 2


class Options(TypedDict, total=False):
    a: int
    b: str


class Pair(NamedTuple):
    left: int
    right: str = "x"


@dataclass(slots=True, kw_only=True)
class Slotted:
    a: int
    next: Slotted | None = None


@dataclass(frozen=True)
class Frozen:
    tags: frozenset[str]
    total: int = field(init=False, default=0)


def square() -> Square:
    made = Square(side=2, colour="red")  # type: ignore[call-arg]
    assert made.half == 1
    return made


UserId = NewType("UserId", int)

SHAPES: dict[str, tuple[Any, Any]] = {
    "none": (None, int | None),
    "bool": (True, bool),
    "float without a fraction": (1.0, float),
    "minus zero": (-0.0, float),
    "over 2**53": (2**53 + 1, int),
    "over 64 bit": (-(2**70), int),
    "NUL": ("a\0b", str),
    "text": ("🙂 é \u2028 \\u0000", str),
    "NUL in a key": ({"a\0": "\0"}, dict[str, str]),
    "bytes": (b"\xff\0", bytes),
    "naive": (datetime(2026, 1, 1, 0, 0, 0, 1), datetime),  # noqa: DTZ001
    "fold": (datetime(2026, 10, 25, 2, 30, fold=1), datetime),  # noqa: DTZ001
    "zone": (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), datetime),
    "offset": (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-3))), datetime),
    "date": (date.max, date),
    "time": (time(1, 2, 3, 4, tzinfo=UTC), time),
    "duration": (timedelta(days=-1, microseconds=1), timedelta),
    "decimal": (Decimal("1.10"), Decimal),
    "uuid": (uuid.UUID(int=7), uuid.UUID),
    "path": (Path("a/b"), Path),
    "enum": (Colour.ONE, Colour),
    "enums": ((Level.LOW, Mode.FAST, Rights.READ | Rights.WRITE), tuple[Level, Mode, Rights]),
    "number keys": ({1: {2: "a"}}, dict[int, dict[int, str]]),
    "date keys": ({date(2026, 1, 1): 1}, dict[date, int]),
    "enum keys": ({Colour.RED: {Level.LOW: 1}}, dict[Colour, dict[Level, int]]),
    "other keys": ({True: {1.5: {b"\xff": 1}}}, dict[bool, dict[float, dict[bytes, int]]]),
    "sets": (({1}, frozenset({"a"})), tuple[set[int], frozenset[str]]),
    "tuples": ((1, ("a",)), tuple[int, tuple[str, ...]]),
    "named tuple": (Pair(1), Pair),
    "deque": (collections.deque([1]), collections.deque[int]),
    "default dict": (collections.defaultdict(list, a=[1]), collections.defaultdict[str, list[int]]),
    "ordered dict": (collections.OrderedDict(b=1, a=2), collections.OrderedDict[str, int]),
    "counter": (collections.Counter("aab"), collections.Counter[str]),
    "union": ([Cat(lives=9), Dog(theName="x")], list[Annotated[Cat | Dog, Field(discriminator="kind")]]),
    "generic": (Box[list[Cat]](item=[Cat(lives=1)]), Box[list[Cat]]),
    "root": (Names({"a": [1]}), Names),
    "recursive": (Tree(children=[Tree()]), Tree),
    "computed": (square(), Square),
    "typed dict": ({"a": 1}, Options),
    "slots": (Slotted(a=1, next=Slotted(a=2)), Slotted),
    "frozen": (Frozen(frozenset({"a"})), Frozen),
    "new type": (UserId(1), UserId),
    "annotated": (1, Annotated[int, Field(gt=0)]),
}


def same_again(it: Any) -> Any:
    return it


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, of one type, and look the same, but for the class of a fixed offset."""
    shown = repr(one).replace("datetime.timezone.utc", "TzInfo(0)")
    shown = shown.replace("datetime.timezone(datetime.timedelta(days=-1, seconds=75600))", "TzInfo(-10800)")
    looks = (repr(other), repr(other).replace("datetime.timezone.utc", "TzInfo(0)"))
    return kind_of(one) is kind_of(other) and one == other and shown in looks


Seen = dict[str, list[dict[str, Any]]]


def register(app: Signoff, shape: str, seen: Seen) -> tuple[Any, Flow]:
    """Make a workflow and a flow that send one value through all doors."""
    value, annotation = SHAPES[shape]

    def make() -> Any:
        return value

    async def child(ctx: Context, given: Any) -> Any:
        return given

    async def doors(ctx: Context, given: Any, *, named: Any) -> Any:
        got = {"argument": given, "named argument": named, "step": await ctx.step(make)}
        got["argument of a step"] = await ctx.step("inner", same_again, given, returns=annotation)
        got["child"] = await ctx.rfc(child, value)
        got["child by name"] = await ctx.rfc(child.__name__, value).options(returns=annotation)
        got["promise"] = await (await ctx.promise(id=f"{ctx.run_id}-promise", returns=annotation))
        got["signal"] = await ctx.wait_for_signal("value", returns=annotation)
        seen[shape].append(got)
        await ctx.wait_for_signal("go")
        return value

    for function in (make, child, doors):
        function.__name__ = function.__qualname__ = f"{shape} {function.__name__}"
    make.__annotations__ = {"return": annotation}
    child.__annotations__ |= {"given": annotation, "return": annotation}
    doors.__annotations__ |= {"given": annotation, "named": annotation, "return": annotation}
    app.workflow(child)
    app.workflow(doors)

    async def undeclared(data: Any) -> Any:
        return data.input

    async def declared(data: Any) -> Any:
        await data.emit("event", data.input)
        return data.input

    async def last(data: Any) -> None:
        seen[f"{shape} flow"].append({f"{data.event} to a chunk": data.input})

    flow = Flow(f"{shape} flow", input=annotation)
    for chunk in (undeclared, declared, last):
        chunk.__annotations__ = {"data": Data[annotation]}
    declared.__annotations__["return"] = annotation
    flow.to(undeclared).to(declared).to(last)
    flow.when("event").to(last)
    app.register(flow)
    return doors, flow


@in_asyncio
async def test_values_pass_every_door(new_store: NewStore) -> None:
    app, seen = Signoff(new_store()), collections.defaultdict[str, list[dict[str, Any]]](list)
    registered = {shape: register(app, shape, seen) for shape in SHAPES}
    async with opened(app) as client:
        handles = dict[str, AsyncHandle]()
        for number, (shape, (value, _)) in enumerate(SHAPES.items()):
            handles[shape] = await client.start(registered[shape][0], value, named=value, id=f"r{number}")
        async with doomed_worker(app):
            for number, (value, _) in enumerate(SHAPES.values()):
                await opens(app, f"r{number}-promise")
                await client.promises.resolve(f"r{number}-promise", value)
                await client.signal(f"r{number}", "value", value)
            await comes(lambda: asyncio.sleep(0, all(seen[shape] for shape in SHAPES)))
            for number in range(len(SHAPES)):
                await pauses(app, f"r{number}")
        for shape in SHAPES:
            await handles[shape].signal("go")
        async with app.worker():
            results = {shape: await handle.result(60) for shape, handle in handles.items()}
            executions = [await registered[shape][1].start(value) for shape, (value, _) in SHAPES.items()]
            for execution in executions:
                await execution.close(timeout_seconds=60)
    wrong = [
        f"{shape}: result {results[shape]!r}"
        for shape in SHAPES
        if not same(SHAPES[shape][0], results[shape])
    ]
    for shape, (value, _) in SHAPES.items():
        assert len(seen[shape]) == 2, shape  # live and rebuilt
        assert len(seen[f"{shape} flow"]) == 2, shape
        for got in (*seen[shape], *seen[f"{shape} flow"]):
            wrong.extend(f"{shape}: {door} {it!r}" for door, it in got.items() if not same(value, it))
    assert not wrong, "\n".join(wrong)


# What is refused, at each door


class Hidden(BaseModel):
    seen: int
    secret: int = Field(0, exclude=True)


class Remembering(BaseModel):
    a: int
    _seen: list[int] = PrivateAttr(default_factory=list[int])


@dataclass
class InCents:
    cents: int

    def __post_init__(self) -> None:
        self.cents *= 100


def remembering() -> Remembering:
    made = Remembering(a=1)
    made._seen.append(1)  # pyright: ignore[reportPrivateUsage]
    return made


REFUSED: dict[str, Any] = {
    "an excluded field": {"it": [Hidden(seen=1, secret=2)]},
    "a private attribute": {"it": [remembering()]},
    "what changes at each reading": {"it": [InCents(7)]},
    "NaN": {"it": [float("nan")]},
    "a lone surrogate": {"it": ["\ud800"]},
    "a tuple as a key": {"it": [{(1, 2): 3}]},
    "an object": {"it": [object()]},
    "a function": {"it": [len]},
    "an error": {"it": [ValueError("x")]},
    "a number of numpy": {"it": [numpy.int64(1)]},
    "an array of numpy": {"it": [numpy.array([1])]},
    "bytes that change": {"it": [bytearray(b"x")]},
    "too many digits": {"it": [10**5000]},
}
"""Values that no declared type brings back."""

UNDECLARED: dict[str, Any] = {
    "a model": {"it": [Cat(lives=1)]},
    "a date": {"it": [date(2026, 1, 1)]},
    "a decimal": {"it": [Decimal(1)]},
    "an enum": {"it": [Colour.RED]},
    "numbers as keys": {"it": [{1: 2}]},
    "a set": {"it": [{1}]},
    "a named tuple": {"it": [Pair(1)]},
    **REFUSED,
}
"""Values that plain JSON data is not equal to."""

Door = Callable[[AsyncClient, Any], Awaitable[Any]]


async def _of_run(client: AsyncClient, value: Any, kind: str) -> None:
    held.append(value)
    await (await client.start(f"gives {kind}")).result(60)


held: list[Any] = []
app = Signoff(MemoryStore())
app_flow = Flow("gives in chunks")


def give():  # type: ignore[no-untyped-def]
    return held.pop()


@app.workflow(name="gives a step's result")
async def gives_a_result(ctx: Context) -> None:
    await ctx.step(give)


@app.workflow(name="gives its result")
async def gives_its_result(ctx: Context):  # type: ignore[no-untyped-def]
    return held.pop()


@app.workflow(name="gives by name")
async def gives_by_name(ctx: Context) -> None:
    await ctx.rfc("elsewhere", held.pop())


@app.workflow(name="gives its next generation")
async def gives_a_generation(ctx: Context, given: Any = None) -> None:
    if held:
        ctx.continue_as_new(held.pop())


@app.workflow(name="waits")
async def waits(ctx: Context) -> None:
    await ctx.wait_for_user("ok?", input_type="form", answer_type={}, assignees=[])


async def start(client: AsyncClient, value: Any) -> None:
    await client.start("elsewhere", value)


async def schedule(client: AsyncClient, value: Any) -> None:
    await client.schedules.put("s", "elsewhere", value, cron="0 9 * * *")


async def signal(client: AsyncClient, value: Any) -> None:
    await client.signal((await client.start("waits")).id, "s", value)


async def resolve(client: AsyncClient, value: Any) -> None:
    await client.promises.create("p")
    await client.promises.resolve("p", value)


async def reject(client: AsyncClient, value: Any) -> None:
    await client.promises.create("q")
    await client.promises.reject("q", value)


async def answer(client: AsyncClient, value: Any) -> None:
    run = await client.start("waits")
    await opens(app, f"{run.id}.1")
    await client.answer(f"{run.id}.1", value)


async def emit(client: AsyncClient, value: Any) -> None:
    execution = await app_flow.start(None)
    await execution.emit("told", value)


async def in_chunk(client: AsyncClient, value: Any, what: str) -> None:
    held.append(value)
    execution = await app_flow.start(what)
    await execution.close(timeout_seconds=60)


@app_flow.chunk
async def gives(data: Data[str | None]):  # type: ignore[no-untyped-def]
    match data.input:
        case "state":
            await data.set_state("key", held.pop())
        case "append":
            await data.append_state("list", held.pop())
        case "emit":
            await data.emit("told", held.pop())
        case _:
            pass
    return held.pop() if data.input == "output" else None


app_flow.to(gives)
app_flow.when("told").to(gives)
app.register(app_flow)

OPEN: dict[str, Door] = {
    "result": lambda client, value: _of_run(client, value, "its result"),
    "start by name": start,
    "schedule": schedule,
    "signal": signal,
    "promise": resolve,
    "answer": answer,
    "event": emit,
    "event of a chunk": lambda client, value: in_chunk(client, value, "emit"),
    "output of a chunk": lambda client, value: in_chunk(client, value, "output"),
    "child by name": lambda client, value: _of_run(client, value, "by name"),
}
"""Doors whose readers may declare a type."""

CLOSED: dict[str, Door] = {
    "reason": reject,
    "step": lambda client, value: _of_run(client, value, "a step's result"),
    "next generation": lambda client, value: _of_run(client, value, "its next generation"),
    "state of a chunk": lambda client, value: in_chunk(client, value, "state"),
    "appended state": lambda client, value: in_chunk(client, value, "append"),
}
"""Doors whose readers get plain data."""


@pytest.mark.parametrize("door", [*OPEN, *CLOSED])
@in_asyncio
async def test_what_would_change_is_refused_when_it_is_given(door: str) -> None:
    cases = REFUSED if door in OPEN else UNDECLARED
    app.store = MemoryStore()  # type: ignore[misc]
    app_flow.bind(app)
    async with running(app) as client:
        for case, value in cases.items():
            with pytest.raises((NotSerializable, ChunkFailed), match=r"\.it\[0\]") as refused:
                await (OPEN | CLOSED)[door](client, value)
            assert "; " in str(refused.value) or "JSON" in str(refused.value), case
