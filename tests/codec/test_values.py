"""Values of declared types come back equal, live and on replay."""

from __future__ import annotations

import enum
import json
import math
import os
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field

from signoff import codec
from signoff.codec.set_order import kind_of
from signoff.errors import InvalidValue, NotSerializable

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    NUMBER = 7
    SHARE = 0.5
    NOTHING = None


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Item(BaseModel):
    name: str
    price: Decimal
    tags: set[str] = set()
    colour: Colour = Colour.RED


class Order(BaseModel):
    id: UUID
    at: datetime
    items: list[Item]
    by_level: dict[Level, timedelta] = {}
    parent: Order | None = None


class Blob(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    data: bytes
    by_name: dict[str, bytes] = {}


class Aliased(BaseModel):
    order_id: int = Field(alias="orderId")
    total: int = Field(validation_alias="sum", serialization_alias="amount")


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    ratio: float


class Measure(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")

    value: float


class Page(BaseModel, Generic[T]):
    items: list[T]


class Names(RootModel[list[str]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    good: bool


@dataclass
class Address:
    street: str
    since: date
    photo: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    name: str
    address: Address
    tags: frozenset[str] = frozenset()
    mode: Mode = Mode.FAST
    order: Item | None = None


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@pydantic.dataclasses.dataclass
class Point:
    x: float
    at: datetime


class Size(NamedTuple):
    width: int
    unit: Decimal
    seen: date


class Options(TypedDict, total=False):
    count: typing_extensions.Required[int]
    until: datetime
    sizes: list[Size]


class Folder(TypedDict):
    name: str
    folders: list[Folder]


class Nested(TypedDict):
    options: Options
    others: list[Options]
    more: typing_extensions.NotRequired[Options]


UserId = NewType("UserId", UUID)
Positive = Annotated[int, Field(gt=0)]
Pairs = typing_extensions.TypeAliasType("Pairs", list[tuple[int, date]])

unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
floats = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
aware = st.datetimes(timezones=offsets)
days = st.timedeltas()
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | unicode,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(unicode, inner, max_size=4),
    max_leaves=12,
)
sizes = st.builds(Size, st.integers(), decimals, st.dates())
items = st.builds(Item, name=unicode, price=decimals, tags=st.sets(unicode), colour=st.sampled_from(Colour))
orders = st.recursive(
    st.builds(
        Order,
        id=st.uuids(),
        at=aware,
        items=st.lists(items, max_size=3),
        by_level=st.dictionaries(st.sampled_from(Level), days),
        parent=st.none(),
    ),
    lambda inner: st.builds(Order, id=st.uuids(), at=st.datetimes(), items=st.just([]), parent=inner),
    max_leaves=3,
)
addresses = st.builds(Address, unicode, st.dates(), st.binary())
customers = st.builds(
    Customer,
    name=unicode,
    address=addresses,
    tags=st.frozensets(unicode),
    mode=st.sampled_from(Mode),
    order=st.none() | items,
)
trees = st.recursive(
    st.builds(Tree, st.integers()), lambda inner: st.builds(Tree, st.integers(), st.lists(inner, max_size=3))
)
options = st.fixed_dictionaries(
    {"count": st.integers()}, optional={"until": aware, "sizes": st.lists(sizes, max_size=2)}
)
small = st.integers(0, 99)
folders = st.recursive(
    st.fixed_dictionaries({"name": unicode, "folders": st.just([])}),
    lambda inner: st.fixed_dictionaries({"name": unicode, "folders": st.lists(inner, max_size=2)}),
)

KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "any": (Any, plain),
    "object": (object, plain),
    "none": (type(None), st.none()),
    "bool": (bool, st.booleans()),
    "int": (int, st.integers() | st.integers(-(10**4300) + 1, 10**4300 - 1)),
    "float": (float, floats),
    "str": (str, unicode),
    "bytes": (bytes, st.binary()),
    "naive datetime": (datetime, st.datetimes()),
    "aware datetime": (datetime, aware),
    "date": (date, st.dates()),
    "time": (time, st.times(timezones=st.none() | offsets)),
    "timedelta": (timedelta, days),
    "uuid": (UUID, st.uuids()),
    "decimal": (Decimal, decimals),
    "path": (Path, st.sampled_from([Path("a/b"), Path("/"), Path("é ü")])),
    "pure path": (PurePosixPath, st.just(PurePosixPath("a/../b"))),
    "enum": (Colour, st.sampled_from(Colour)),
    "int enum": (Level, st.sampled_from(Level)),
    "str enum": (Mode, st.sampled_from(Mode)),
    "flag": (Rights, st.sampled_from([*Rights, Rights.READ | Rights.WRITE])),
    "literal": (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    "list": (list[timedelta], st.lists(days)),
    "bare list": (list, st.lists(plain, max_size=3)),
    "deque": (deque[UUID], st.lists(st.uuids(), max_size=3).map(deque)),
    "set": (set[UUID], st.sets(st.uuids())),
    "set of tuples": (set[tuple[int, str]], st.sets(st.tuples(small, unicode))),
    "frozenset": (frozenset[date], st.frozensets(st.dates())),
    "set of models": (frozenset[Computed], st.frozensets(st.builds(Computed, side=small))),
    "fixed tuple": (tuple[int, bytes, date], st.tuples(st.integers(), st.binary(), st.dates())),
    "variadic tuple": (tuple[Decimal, ...], st.lists(decimals).map(tuple)),
    "empty tuple": (tuple[()], st.just(())),
    "named tuple": (Size, sizes),
    "dict by int": (dict[int, bytes], st.dictionaries(st.integers(), st.binary())),
    "dict by bool": (dict[bool, int], st.dictionaries(st.booleans(), small)),
    "dict by float": (dict[float, int], st.dictionaries(floats, small)),
    "dict by uuid": (dict[UUID, int], st.dictionaries(st.uuids(), small)),
    "dict by date": (dict[date, int], st.dictionaries(st.dates(), small)),
    "dict by datetime": (dict[datetime, int], st.dictionaries(aware, small)),
    "dict by timedelta": (dict[timedelta, int], st.dictionaries(days, small)),
    "dict by decimal": (dict[Decimal, int], st.dictionaries(decimals, small)),
    "dict by bytes": (dict[bytes, int], st.dictionaries(st.binary(), small)),
    "dict by int enum": (dict[Level, int], st.dictionaries(st.sampled_from(Level), small)),
    "dict by str enum": (dict[Mode, int], st.dictionaries(st.sampled_from(Mode), small)),
    "ordered dict": (OrderedDict[str, int], st.dictionaries(unicode, small).map(OrderedDict)),
    "counter": (Counter[str], st.dictionaries(unicode, small).map(Counter)),
    "optional": (datetime | None, st.none() | aware),
    "union": (int | str | list[date] | Item, st.integers() | unicode | st.lists(st.dates()) | items),
    "union of floats": (int | float | bool | Decimal, st.integers() | floats | st.booleans() | decimals),
    "tagged union": (Annotated[Cat | Dog, Field(discriminator="kind")], st.builds(Cat) | st.builds(Dog)),
    "model": (Item, items),
    "nested model": (Order, orders),
    "generic model": (Page[date], st.builds(Page[date], items=st.lists(st.dates()))),
    "root model": (Names, st.lists(unicode).map(Names)),
    "model of bytes": (
        Blob,
        st.builds(Blob, data=st.binary(), by_name=st.dictionaries(unicode, st.binary())),
    ),
    "model with aliases": (Aliased, st.builds(Aliased, orderId=small, sum=small)),
    "model with a computed field": (Computed, st.builds(Computed, side=small)),
    "model with extra fields": (Open, st.builds(Open, ratio=floats, more=plain)),
    "model that writes infinities": (Measure, st.builds(Measure, value=st.floats(allow_nan=False))),
    "dataclass": (Address, addresses),
    "frozen dataclass with slots and keywords": (Customer, customers),
    "recursive dataclass": (Tree, trees),
    "pydantic dataclass": (Point, st.builds(Point, floats, aware)),
    "typed dict": (Options, options),
    "nested typed dict": (
        Nested,
        st.fixed_dictionaries({"options": options, "others": st.lists(options)}, optional={"more": options}),
    ),
    "recursive typed dict": (Folder, folders),
    "typed dicts in a dict": (dict[str, Options | None], st.dictionaries(unicode, options | st.none())),
    "annotated": (Positive, st.integers(min_value=1)),
    "annotated with a list": (Annotated[UUID, ["note"]], st.uuids()),
    "new type": (UserId, st.uuids()),
    "type alias": (Pairs, st.lists(st.tuples(small, st.dates()))),
    "models in containers": (dict[UUID, tuple[Item, ...]], st.dictionaries(st.uuids(), st.tuples(items))),
    "iterable": (Iterable[date], st.lists(st.dates())),
    "type variable": (T, plain),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_a_value_comes_back_equal_and_of_its_type(kind: str, data: st.DataObject) -> None:
    annotation, values = KINDS[kind]
    value = data.draw(values)
    text = codec.encode(value)
    again = codec.decode(text, annotation)
    assert again == value
    assert kind_of(again) is kind_of(value)
    assert codec.normalize(value, annotation) == (text, again)
    json.loads(text, parse_constant=pytest.fail)


@settings(deadline=None)
@given(value=plain)
def test_without_an_annotation_json_data_comes_back_equal(value: object) -> None:
    text, again = codec.normalize(value)
    assert again == value == codec.decode(text) == json.loads(text)


@settings(deadline=None)
@given(value=orders | customers | st.sets(st.uuids(), min_size=1) | aware)
def test_without_annotation_a_value_that_would_become_plain_is_refused(value: object) -> None:
    with pytest.raises(NotSerializable, match="nothing declares its type; declare it"):
        codec.normalize(value)


def test_a_normalized_value_shares_nothing_with_the_value_it_was_made_of() -> None:
    value = {"items": [1]}
    _, again = codec.normalize(value, dict[str, list[int]])
    value["items"].append(2)
    assert again == {"items": [1]}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Level.HIGH, 2),
        (Mode.FAST, "fast"),
        ((1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (type("Name", (str,), {})("ana"), "ana"),
        (type("Number", (int,), {})(3), 3),
    ],
)
def test_without_annotation_tuples_and_equals_become_plain_data(value: object, plain: object) -> None:
    _, again = codec.normalize(value)
    assert again == plain
    assert type(again) is type(plain)


def test_a_subclass_without_an_annotation_is_written_by_its_base() -> None:
    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "LOUD"

    assert codec.encode(Loud("quiet")) == '"quiet"'


def test_what_a_dataclass_sets_itself_is_left_to_it() -> None:
    @dataclass
    class Guarded:
        x: int
        lock: Any = field(init=False, compare=False)

        def __post_init__(self) -> None:
            self.lock = threading.Lock()

    again = codec.decode(codec.encode(Guarded(3)), Guarded)
    assert again == Guarded(3)
    assert not again.lock.locked()


def test_an_offset_with_seconds_keeps_the_instant() -> None:
    before_zones = datetime(1800, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))
    assert codec.normalize(before_zones, datetime)[1] == before_zones


def test_what_others_write_by_alias_is_read_too() -> None:
    again = codec.decode('{"orderId": 1, "sum": 2}', Aliased)
    assert (again.order_id, again.total) == (1, 2)


def test_equal_sets_give_equal_text_in_every_process() -> None:
    code = (
        "import pydantic; from signoff import codec\n"
        "class M(pydantic.BaseModel):\n    s: set[str]\n    d: dict[str, frozenset[str]]\n"
        "words = ['a', 'bb', 'ccc', 'dddd', 'eeeee', 'é']\n"
        "print(codec.encode([set(words), M(s=words, d={'x': words})]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("2024-05-06T00:00:00", datetime | str),
        ("9e0b3a8e-5d7f-4d0c-9c53-4a4c1b0c0a55", UUID | str),
        ("abc", bytes | str),
        (Path("a"), str | Path),
        ((1, 2), list[int] | tuple[int, ...]),
        ({1: "a"}, dict[int | str, str]),
        (["2024-05-06"], list[date | str]),
        ({"at": [b"YWJj"]}, dict[str, list[str | bytes]]),
        (Address("x", date(2024, 1, 1)), dict[str, Any] | Address),
    ],
)
def test_what_would_come_back_as_another_member_of_a_union_is_refused(
    value: object, annotation: object
) -> None:
    with pytest.raises(NotSerializable, match=r"^result.*: .* look the same in JSON; declare one type"):
        codec.normalize(value, annotation)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("tomorrow", datetime | str),
        (date(2024, 5, 6), datetime | date),
        (datetime(2024, 5, 6, tzinfo=UTC), date | datetime),
        ({"lives": 9}, Cat | Dog),
        ([{"good": True}], list[Cat | Dog]),
        (Dog(good=True), Cat | Dog),
        ("fast", Mode | str),
        ({1: "a"}, dict[int, str]),
    ],
)
def test_a_union_with_distinguishable_members_is_accepted(value: object, annotation: object) -> None:
    _, again = codec.normalize(value, annotation)
    assert again == value or isinstance(again, Cat | Dog | list)


def test_two_orders_of_one_union_do_not_share_a_reader() -> None:
    class One(BaseModel):
        x: int

    class Two(BaseModel):
        x: int

    assert type(codec.decode('{"x": 1}', One | Two)) is One
    assert type(codec.decode('{"x": 1}', Two | One)) is Two


@pytest.mark.parametrize(
    ("text", "annotation", "path"),
    [
        ('{"name": "n", "price": "1", "tags": [1]}', Item, r"value\.tags\[0\]"),
        ('{"options": {"count": "x"}, "others": []}', Nested, r"value\.options\.count"),
        ('[{"street": "s"}]', list[Address], r"value\[0\]\.since"),
        ('"purple"', Colour, "value"),
        ("-1", Positive, "value"),
        ('"NaN"', float, "value"),
        ("NaN", Any, "value"),
        ("{", Any, "value"),
        ("{", Item, "value"),
        ("[" * 1000 + "]" * 1000, Any, "value"),
    ],
)
def test_text_that_does_not_fit_is_refused_with_the_path(text: str, annotation: object, path: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{path}: "):
        codec.decode(text, annotation)


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(InvalidValue) as refusal:
        codec.decode('{"name": "n", "price": "s3cret"}', Item)
    assert "s3cret" not in str(refusal.value)


class Client:
    """An ordinary class."""


@pytest.mark.parametrize("annotation", [Client, list[Client], Client | None, type[int]])
def test_a_declared_type_that_json_cannot_be_read_as_is_refused_by_name(annotation: object) -> None:
    with pytest.raises(InvalidValue, match=r"Client|type\[int\]|class"):
        codec.decode("{}", annotation)


def test_a_validator_that_fails_by_its_own_fault_is_a_refusal() -> None:
    @dataclass
    class Broken:
        x: int

        def __post_init__(self) -> None:
            raise KeyError("x")

    with pytest.raises(InvalidValue, match="KeyError"):
        codec.decode('{"x": 1}', Broken)


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert codec.digest('{"a": 1, "b": [1, 2]}') == codec.digest('{"b":[1,2],"a":1}')


@settings(deadline=None)
@given(one=plain, other=plain)
def test_different_values_have_different_digests(one: object, other: object) -> None:
    texts = codec.encode(one), codec.encode(other)
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (codec.digest(texts[0]) == codec.digest(texts[1])) is same


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
def test_a_type_statement_is_read_as_what_it_stands_for() -> None:
    scope: dict[str, Any] = {"date": date}
    exec("type Days = dict[str, list[date]]\ntype Either[T] = list[T] | None\nIt = Either[date]", scope)
    days = {"a": [date(2024, 5, 6)]}
    assert codec.normalize(days, scope["Days"])[1] == days
    assert codec.normalize(days["a"], scope["It"])[1] == days["a"]


def test_negative_zero_keeps_its_sign() -> None:
    assert math.copysign(1, codec.normalize(-0.0, float)[1]) == -1
