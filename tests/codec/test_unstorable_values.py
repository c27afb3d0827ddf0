"""Values that cannot come back unchanged are refused at once, with their path and a remedy."""

from __future__ import annotations

import asyncio
import enum
import io
import json
import math
import socket
import threading
import types
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, Secret, SecretBytes, SecretStr, field_serializer

from signoff import codec
from signoff.errors import NotSerializable, PayloadTooLarge, SignoffError


class Client:
    """An ordinary class."""


class Shape(enum.Enum):
    SQUARE = (1, 1)
    DAY = datetime(2024, 1, 1, tzinfo=UTC)
    ENDLESS = math.inf


class Number(enum.Enum):
    ONE = 1


@dataclass
class Order:
    client: object
    note: str = ""


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    it: Any = None


class Texts(BaseModel):
    data: bytes = b""
    parts: dict[str, list[bytes]] = {}


class HalfBase64(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")

    data: bytes


class Login(BaseModel):
    user: str
    password: SecretStr


class Ratio(BaseModel):
    value: float | None


class Ratios(RootModel[list[float]]):
    pass


class Lazy(BaseModel):
    numbers: Iterable[int]


class ByPair(BaseModel):
    cells: dict[tuple[int, int], str]


class ByNumber(BaseModel):
    counts: dict[Any, int]


class Zoned(BaseModel):
    at: datetime | time


class Broken(BaseModel):
    x: int

    @field_serializer("x")
    def write(self, x: int) -> int:
        raise LookupError("no such thing")


@pydantic.dataclasses.dataclass
class Vault:
    key: SecretBytes


def generator() -> Iterator[int]:
    yield 1


async def agenerator() -> AsyncIterator[int]:
    yield 1


async def coroutine() -> None:
    pass


def cyclic_list() -> list[object]:
    items: list[object] = [1]
    items.append({"again": items})
    return items


def twice_cyclic_list() -> list[object]:
    items: list[object] = []
    items += [items, items]
    return items


def cyclic_model() -> Model:
    model = Model()
    model.it = [model]
    return model


def cyclic_dataclass() -> Order:
    order = Order(None)
    order.client = order
    return order


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


AMSTERDAM = ZoneInfo("Europe/Amsterdam")


class BrokenZone(tzinfo):
    """A zone of the program's own that fails, as that of pandas' NaT does."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        raise ValueError("the zone knows nothing")

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return "broken"


AMSTERDAM = ZoneInfo("Europe/Amsterdam")
ODD = timezone(timedelta(seconds=61))

REFUSED: dict[str, tuple[Any, str, str]] = {
    "ordinary object": (
        Client(),
        "value",
        r"is of type .*Client, which cannot be stored; make it a dataclass",
    ),
    "in a dataclass": ([Order(Client())], "value[0].client", "Client"),
    "in a dict": ({"order": {"client": Client()}}, "value.order.client", "Client"),
    "in a list": ({"items": [1, 2, 3, Client()]}, "value.items[3]", "Client"),
    "in a tuple": ((1, (2, Client())), "value[1][1]", "Client"),
    "in a set": ({Client()}, "value[0]", "Client"),
    "under an odd key": ({"not a name": {7: Client()}}, "value['not a name'][7]", "Client"),
    "in a model": (Model(it={"x": [Client()]}), "value.it.x[0]", "Client"),
    "in a model in a dataclass": (Order(Model(it=Model(it=Client()))), "value.client.it.it", "Client"),
    "class": (Client, "value", "is the class .*Client, .* pass its name"),
    "function": (generator, "value", "pass data, not code"),
    "lambda": ({"f": lambda: 1}, "value.f", "pass data, not code"),
    "method": (Client().__eq__, "value", "cannot be stored"),
    "partial": (partial(print, 1), "value", "pass data, not code"),
    "builtin": (print, "value", "pass data, not code"),
    "module": (json, "value", "pass its name"),
    "generator": (generator(), "value", "collect it into a list"),
    "async generator": (agenerator(), "value", "collect it into a list"),
    "map": (map(str, [1]), "value", "collect it into a list"),
    "range": (range(3), "value", "collect it into a list"),
    "view": ({"a": 1}.keys(), "value", "collect it into a list"),
    "mapping proxy": (types.MappingProxyType({}), "value", "copy it into a dict"),
    "bytearray": (bytearray(b"x"), "value", "copy it into bytes"),
    "memoryview": (memoryview(b"x"), "value", "copy it into bytes"),
    "file": (io.StringIO("x"), "value", "pass its path"),
    "binary file": ([io.BytesIO(b"x")], "value[0]", "pass its path"),
    "lock": (threading.Lock(), "value", "guards one process"),
    "reentrant lock": (threading.RLock(), "value", "guards one process"),
    "event": (threading.Event(), "value", "make it a dataclass"),
    "error": (ValueError("x"), "value", "raise it"),
    "complex": (1j, "value", "complex"),
    "object": (object(), "value", "object"),
    "ellipsis": (..., "value", "ellipsis"),
    "secret": (SecretStr("x"), "value", "masked"),
    "secret bytes": ({"a": SecretBytes(b"x")}, "value.a", "masked"),
    "secret number": (Secret[int](1), "value", "masked"),
    "secret in a model": (Login(user="u", password=SecretStr("p")), "value.password", "masked"),
    "secret in a list of a model": (Model(it=[SecretStr("p")]), "value.it[0]", "masked"),
    "secret in a pydantic dataclass": ([Vault(key=SecretBytes(b"p"))], "value[0].key", "masked"),
    "not a number": ({"x": math.nan}, "value.x", "is nan, which JSON cannot hold"),
    "infinity": (-math.inf, "value", "is -inf"),
    "not a number in a model": (Ratio(value=math.nan), "value.value", "ser_json_inf_nan"),
    "infinity in a root model": (Ratios([1, math.inf]), "value.root[1]", "ser_json_inf_nan"),
    "infinite decimal": (Decimal("Infinity"), "value", "Infinity"),
    "signalling decimal": ([Decimal("sNaN")], "value[0]", "sNaN"),
    "infinite key": ({math.inf: 1}, "value[inf]", "is inf"),
    "surrogate": ("\ud800", "value", "surrogates"),
    "surrogate deep inside": ({"a": ["x", {"b": "\udfff"}]}, "value.a[1].b", "surrogates"),
    "surrogate in a key": ([{"\ud800": 1}], "value[0]['\\ud800']", "surrogates"),
    "surrogate in a set": ({"\ud800"}, "value[0]", "surrogates"),
    "surrogate in a model": (Model(it=["\ud800"]), "value.it[0]", "surrogates"),
    "number too long": ({"n": [10**4300]}, "value.n[0]", "4300 digits"),
    "negative number too long": (-(10**4300), "value", "4300 digits"),
    "number too long in a model": (Model(it=10**5000), "value.it", "4300 digits"),
    "number too long as a key": ({"n": {10**4300: 1}}, "value.n[int]", "4300 digits"),
    "tuple as key": ({"t": {(1, 2): 3}}, "value.t[(1, 2)]", r"key of type tuple.* list of pairs"),
    "none as key": ({None: 3}, "value[None]", "key of type NoneType"),
    "set as key": ({frozenset(): 3}, "value[frozenset()]", "key of type frozenset"),
    "number of an enum as key": ({Number.ONE: 3}, "value[<Number.ONE: 1>]", "StrEnum or IntEnum"),
    "keys that are the same": ({1: "a", "1": "b"}, "value", "keys that are the same"),
    "tuple as key in a model": (ByPair(cells={(1, 2): "x"}), "value.cells[(1, 2)]", "key of type tuple"),
    "none as key in a model": (ByNumber(counts={None: 1}), "value.counts[None]", "key of type NoneType"),
    "keys that are the same in a model": (ByNumber(counts={1: 1, "1": 2}), "value.counts", "the same"),
    "enum of tuples": ([Shape.SQUARE], "value[0]", "Shape.SQUARE.*str or int"),
    "enum of dates": (Shape.DAY, "value", "Shape.DAY.*str or int"),
    "enum of infinities": (Shape.ENDLESS, "value", "inf"),
    "enum of tuples in a model": (Model(it=Shape.SQUARE), "value.it", "Shape.SQUARE"),
    "bytes that are no text in a model": (Texts(data=b"\xff"), "value.data", 'ser_json_bytes="base64"'),
    "bytes deep in a model": (Texts(parts={"a": [b"", b"\xff"]}), "value.parts.a[1]", "val_json_bytes"),
    "bytes read in another way": (HalfBase64(data=b"x"), "value.data", "val_json_bytes"),
    "time with an odd offset": (time(1, tzinfo=ODD), "value", "offset with seconds"),
    "datetime of a broken zone": (
        [datetime(2024, 1, 1, tzinfo=BrokenZone())],
        "value[0]",
        "no UTC offset: the zone",
    ),
    "time of a broken zone": (time(1, tzinfo=BrokenZone()), "value", "no UTC offset: the zone"),
    "datetime without a UTC time": (datetime(1, 1, 1, tzinfo=ODD), "value", "no UTC time"),
    "odd offset in a model": (
        Zoned(at=datetime(1800, 1, 1, tzinfo=AMSTERDAM)),
        "value.at",
        "offset with sec",
    ),
    "iterator in a model": (Lazy(numbers=[1, 2]), "value.numbers", "collect it into a list"),
    "model whose serializer fails": ([Broken(x=1)], "value[0]", "own serializer.*no such thing"),
    "list in itself": (cyclic_list(), "value[1].again", "contains itself"),
    "list twice in itself": (twice_cyclic_list(), "value[0]", "contains itself"),
    "dataclass in itself": (cyclic_dataclass(), "value.client", "contains itself"),
    "model in itself": (cyclic_model(), "value.it[0]", "contains itself"),
    "too deep": (nested(101), "value" + "[0]" * 10, "deeper than 100 levels"),
    "too deep in a model": (Model(it=nested(100)), "value.it" + "[0]" * 9, "deeper than 100 levels"),
    "far too deep": (nested(100_000), "value" + "[0]" * 10, "deeper than 100 levels"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_stored_is_refused_with_its_path(case: str) -> None:
    value, path, reason = REFUSED[case]
    with pytest.raises(NotSerializable, match=reason) as refusal:
        codec.encode(value)
    assert refusal.value.path == path
    assert isinstance(refusal.value, SignoffError | TypeError)


def test_a_socket_is_refused() -> None:
    with (
        socket.socket() as it,
        pytest.raises(NotSerializable, match=r"^result\.conn: .*socket.*open it inside"),
    ):
        codec.normalize({"conn": it})


def test_a_coroutine_is_refused() -> None:
    it = coroutine()
    with pytest.raises(NotSerializable, match="await it"):
        codec.encode(it)
    it.close()


def test_a_future_is_refused() -> None:
    loop = asyncio.new_event_loop()
    with pytest.raises(NotSerializable, match="await it"):
        codec.encode(loop.create_future())
    loop.close()


def test_a_value_that_is_named_is_refused_under_its_name() -> None:
    with pytest.raises(NotSerializable, match=r"^args\.order\.client: "):
        codec.encode({"client": Client()}, path="args.order")


def test_a_long_key_does_not_flood_the_message() -> None:
    with pytest.raises(NotSerializable) as refusal:
        codec.encode({"-" * 10_000: Client()})
    assert len(str(refusal.value)) < 300


def test_a_refused_secret_is_not_in_the_message() -> None:
    with pytest.raises(NotSerializable) as refusal:
        codec.encode(Login(user="u", password=SecretStr("hunter2")))
    assert "hunter2" not in str(refusal.value)


def test_as_deep_as_allowed_comes_back() -> None:
    assert codec.normalize(nested(100))[1] == nested(100)
    model = Model(it=nested(99))
    assert codec.normalize(model, Model)[1] == model
    codec.decode(codec.encode_arguments(None, (nested(100),), {}))


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = [1]
    assert codec.encode([shared, shared, {"a": shared}]) == '[[1],[1],{"a":[1]}]'


def test_what_the_author_of_a_model_decides_is_not_refused() -> None:
    class Revealed(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        password: SecretStr
        client: Client = Field(default_factory=Client, exclude=True)

        @field_serializer("password")
        def reveal(self, password: SecretStr) -> str:
            return password.get_secret_value()

    again = codec.decode(codec.encode(Revealed(password=SecretStr("hunter2"))), Revealed)
    assert again.password.get_secret_value() == "hunter2"


def test_a_value_over_the_limit_is_refused_with_its_size() -> None:
    with pytest.raises(PayloadTooLarge) as refusal:
        codec.encode("é" * 600_000, path="result.text")
    assert (refusal.value.path, refusal.value.size) == ("result.text", 1_200_002)
    assert refusal.value.limit == codec.MAX_BYTES


def test_a_value_of_exactly_the_limit_is_stored() -> None:
    assert len(codec.encode("x" * 98, limit=100)) == 100
    with pytest.raises(PayloadTooLarge):
        codec.encode("x" * 99, limit=100)


def test_a_long_run_of_digits_in_text_is_no_number() -> None:
    digits = "1" * 10_000
    assert codec.normalize([digits])[1] == [digits]
