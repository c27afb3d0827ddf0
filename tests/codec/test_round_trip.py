"""A value comes back unchanged, or is refused when it is given."""

from __future__ import annotations

import collections
import copy
import enum
import functools
import logging
import threading
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, NoReturn, TypedDict, TypeVar
from uuid import UUID, uuid4

import numpy
import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    StringConstraints,
    field_serializer,
    field_validator,
)

from signoff import codec
from signoff.codec.set_order import kind_of
from signoff.errors import InvalidValue, NotSerializable

T = TypeVar("T")


class Animal(BaseModel):
    name: str


class Dog(Animal):
    breed: str


class Named(BaseModel):
    model_config = ConfigDict(extra="allow")


class Cage(BaseModel):
    pet: Animal


class Cages(RootModel[list[Animal]]):
    pass


class Box(BaseModel, Generic[T]):
    item: T


class Tree(BaseModel):
    pet: Animal | None = None
    children: list[Tree] = []


@dataclass
class Base:
    a: int


@dataclass
class Derived(Base):
    b: int = 2


@dataclass
class Holder:
    it: Base


class Pair(NamedTuple):
    pet: Animal
    other: int = 0


class Labelled(Pair):
    label: ClassVar[str] = "x"


class Part(TypedDict):
    a: int


class Whole(Part):
    pets: list[Animal]


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Text(str):
    __slots__ = ()


class Zone(tzinfo):
    def utcoffset(self, when: datetime | None, /) -> timedelta:
        return timedelta(hours=2)

    def dst(self, when: datetime | None, /) -> None:
        return None


DOG, DERIVED = Dog(name="rex", breed="lab"), Derived(1)
SLICED: dict[str, tuple[Any, Any]] = {
    "model": (DOG, Animal),
    "optional": (DOG, Animal | None),
    "annotated": (DOG, Annotated[Animal, "note"]),
    "list": ([Animal(name="x"), DOG], list[Animal]),
    "tuple": ((1, DOG), tuple[int, Animal]),
    "variadic tuple": ((DOG,), tuple[Animal, ...]),
    "deque": (collections.deque([DOG]), collections.deque[Animal]),
    "dict": ({"a": {"b": DOG}}, dict[str, dict[str, Animal]]),
    "union": (DOG, int | Animal),
    "model field": (Cage(pet=DOG), Cage),
    "recursive model": (Tree(children=[Tree(pet=DOG)]), Tree),
    "root model": (Cages([DOG]), Cages),
    "generic model": (Box[Animal](item=DOG), Box[Animal]),
    "generic model without parameters": (Box(item=DOG), Box[Animal]),
    "named tuple": (Pair(DOG), Pair),
    "subclass of a named tuple": (Labelled(Animal(name="x")), Pair),
    "a model in a dict for a model": ({"pet": DOG}, Cage),
    "a model in a dict for a named tuple": ([DOG, 1], Pair),
    "typed dict": ({"a": 1, "pets": [DOG]}, Whole),
    "keys of a typed dict": ({"a": 1, "b": 2}, Part),
    "keys of a typed dict in a list": ([{"a": 1, "pets": []}], list[Part]),
    "extra attributes": (Named(dog=DOG), Named),
    "dataclass": (DERIVED, Base),
    "dataclasses in a dict": ({"x": DERIVED}, dict[str, Base]),
    "dataclass field": (Holder(DERIVED), Holder),
    "a dataclass in a dict for a dataclass": ({"it": DERIVED}, Holder),
    "named tuple as a tuple": (Pair(Animal(name="x")), tuple[Animal, int]),
    "enum as text": (Mode.FAST, str),
    "enum as a number": (Level.LOW, int),
    "enum as a key": ({Mode.FAST: 1}, dict[str, int]),
    "bool as a number": (True, int),
    "bool in a list of numbers": ([1, True], list[int]),
    "number as bool": (1, bool),
    "text as a number": ("7", int),
    "number as text": (UUID(int=7), str),
    "date as text": (date(2024, 5, 6), str),
    "path as text": (Path("x"), str),
    "text subclass": (Text("x"), str),
    "numpy scalar": (numpy.float64(1.5), float),
    "large number as a float": (2**53 + 1, float),
    "datetime as a date": (datetime(2024, 5, 6, tzinfo=UTC), date),
    "date as a datetime": (date(2024, 5, 6), datetime),
    "ordered dict": (collections.OrderedDict(a=1), dict[str, int]),
    "counter": (collections.Counter("a"), dict[str, int]),
    "defaultdict": (collections.defaultdict(list, a=[1]), dict[str, list[int]]),
    "default of a defaultdict": (
        collections.defaultdict(lambda: [0], a=[1]),
        collections.defaultdict[str, list[int]],
    ),
    "length of a deque": (collections.deque([1], maxlen=3), collections.deque[int]),
    "duplicates": ([1, 1], set[int]),
}


@pytest.mark.parametrize("case", SLICED)
def test_what_would_come_back_as_something_else_is_refused(case: str) -> None:
    value, annotation = SLICED[case]
    with pytest.raises((NotSerializable, InvalidValue)) as refused:
        codec.normalize(value, annotation)
    assert refused.value.path.startswith("result")


def test_a_refusal_has_the_path_the_lost_fields_and_what_to_declare() -> None:
    with pytest.raises(NotSerializable) as refused:
        codec.normalize({"pets": [Cage(pet=DOG)]}, dict[str, list[Cage]], path="args.all")
    assert str(refused.value) == (
        "args.all.pets[0].pet: a Dog would come back as an Animal without breed;"
        " declare Dog, or a union of the classes that a field tells apart"
    )


def test_a_class_of_the_same_name_is_named_with_its_module() -> None:
    other = type("Animal", (BaseModel,), {"__annotations__": {"name": str}, "__module__": "elsewhere"})
    with pytest.raises(NotSerializable, match=r"an? elsewhere\.Animal would come back as an? tests"):
        codec.normalize(other(name="x"), Animal)


class Doubled(BaseModel):
    cents: Annotated[int, AfterValidator(lambda each: each * 100)]


class Grown(BaseModel):
    steps: list[int]

    @field_validator("steps")
    @classmethod
    def grow(cls, value: list[int]) -> list[int]:
        return [*value, len(value)]


class Counted(BaseModel):
    n: int

    def model_post_init(self, context: Any, /) -> None:
        self.n += 1


@dataclass
class InCents:
    cents: int

    def __post_init__(self) -> None:
        self.cents *= 100


@dataclass
class Seen:
    a: int
    id: UUID = field(init=False)

    def __post_init__(self) -> None:
        self.id = uuid4()


@dataclass
class Shifted:
    a: int
    by: InitVar[int] = 1

    def __post_init__(self, by: int) -> None:
        self.a += by


class Excluded(BaseModel):
    a: int
    secret: int = Field(0, exclude=True)


class Private(BaseModel):
    a: int
    _seen: list[int] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


def private() -> Private:
    made = Private(a=1)
    made._seen.append(1)  # pyright: ignore[reportPrivateUsage]
    return made


def with_attribute() -> Base:
    made = Base(1)
    made.more = "x"  # type: ignore[attr-defined]
    return made


Cents = Annotated[int, AfterValidator(lambda each: each * 100)]


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (70, Cents),
        ([70], list[Cents]),
        ({"a": 70}, dict[str, Cents]),
        ({"cents": 70}, Doubled),
        (Doubled(cents=70), Doubled),
        (Grown(steps=[1]), Grown),
        (Counted(n=1), Counted),
        (InCents(7), InCents),
        ({"cents": 7}, InCents),
        (Seen(1), Seen),
        (Shifted(1), Shifted),
        (Excluded(a=1, secret=2), Excluded),
        (private(), Private),
        (with_attribute(), Base),
    ],
)
def test_what_each_reading_would_change_is_refused(value: object, annotation: object) -> None:
    with pytest.raises(NotSerializable):
        codec.normalize(value, annotation)


class Cached(BaseModel):
    a: int

    @functools.cached_property
    def double(self) -> int:
        return self.a * 2


@dataclass
class Total:
    prices: list[int]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.prices)


def cached() -> Cached:
    made = Cached(a=1)
    assert made.double == 2
    return made


class Loose(BaseModel):
    parts: tuple[int, ...] = ()
    at: float = 0


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (Excluded(a=1), Excluded),
        (Private(a=1), Private),
        (cached(), Cached),
        (Total([1, 2]), Total),
        (Box[Animal](item=Animal(name="x")), Box[Animal]),
        ([DOG, Animal(name="x")], list[Dog | Animal]),
        (collections.defaultdict(list, a=[1]), collections.defaultdict[str, list[int]]),
        (Decimal("1.00"), Decimal),
        (DOG, Dog),
        (copy.copy(DERIVED), Derived),
        ({Level.LOW: Mode.FAST}, dict[Level, Mode]),
        (Loose(parts=(1, 2), at=1), Loose),
    ],
)
def test_a_value_that_comes_back_unchanged_is_kept(value: Any, annotation: object) -> None:
    text, again = codec.normalize(value, annotation)
    assert kind_of(again) is kind_of(value)
    assert codec.encode(again) == text
    assert str(again) == str(value)


@pytest.mark.parametrize(
    ("given", "annotation", "read"),
    [
        ({"name": "rex", "breed": "lab"}, Dog, DOG),
        ([{"name": "rex", "breed": "lab"}], tuple[Dog, ...], (DOG,)),
        ("2024-05-06", date, date(2024, 5, 6)),
        ({"2024-05-06": "1.0"}, dict[date, Decimal], {date(2024, 5, 6): Decimal("1.0")}),
        ("fast", Mode, Mode.FAST),
        ([1, 2], set[int], {1, 2}),
        ((1, 2), list[int], [1, 2]),
        (1, float, 1.0),
        (" x ", Annotated[str, StringConstraints(strip_whitespace=True)], "x"),
        ({"item": {"name": "x"}}, Box[Animal], Box[Animal](item=Animal(name="x"))),
        (Box(item=Animal(name="x")), Box[Animal], Box[Animal](item=Animal(name="x"))),
    ],
)
def test_plain_data_stands_for_what_is_declared(given: object, annotation: object, read: object) -> None:
    text, again = codec.normalize(given, annotation)
    assert (again, kind_of(again)) == (read, kind_of(read))
    assert codec.decode(text, annotation) == read


def test_what_a_default_makes_is_made_once() -> None:
    class Order(BaseModel):
        id: UUID = Field(default_factory=uuid4)

    text, again = codec.normalize({}, Order)
    assert codec.decode(text, Order) == again


def test_plain_data_that_needs_no_default_keeps_its_text() -> None:
    assert codec.normalize({"name": "x"}, Animal)[0] == '{"name":"x"}'


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ((1, 2), Any),
        ({"at": (1, [2])}, dict[str, Any]),
        (Mode.FAST, Any),
        ([Level.LOW], list),
        (collections.Counter("a"), dict),
    ],
)
def test_an_undeclared_equal_of_plain_data_becomes_it_with_one_warning(
    value: object, annotation: object, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    path = f"result of {request.node.name}"
    with caplog.at_level(logging.WARNING, "signoff.codec"):
        for _ in range(2):
            codec.normalize(value, annotation, path=path)
    assert [record.getMessage().startswith(path) for record in caplog.records] == [True]


UNDECLARED: dict[str, tuple[Any, Any, str]] = {
    "model": (DOG, Any, "result: a Dog .* dict.* its model_dump"),
    "models": ([DOG], list, r"result\[0\]: a Dog"),
    "dataclass": (DERIVED, object, "dataclasses.asdict"),
    "date": ({"at": date(2024, 5, 6)}, dict[str, Any], r"result\.at: a date .* str\(\.\.\.\) of it"),
    "dates in a set": ({"a": {date(2024, 5, 6)}}, dict[str, object], r"result\.a: a set"),
    "set": ({1}, Any, "sorted"),
    "keys": ({1: 2}, dict, r"result\[1\]: the key .* declare dict\[int, \.\.\.\]"),
    "keys deeper": ([{"a": {True: 2}}], Any, r"result\[0\]\.a\[True\]: the key"),
    "named tuple": (Pair(Animal(name="x")), Any, "a Pair would come back as a list"),
    "deque": (collections.deque([1]), Any, "a deque"),
    "bytes": (b"x", Any, "base64"),
    "number": (Decimal("1.0"), Any, "a Decimal"),
    "duration": (timedelta(1), Any, "total_seconds"),
    "enum": (enum.Enum("Colour", {"RED": "red"})["RED"], Any, "its value"),
    "path": (Path("x"), Any, "a PosixPath|a WindowsPath"),
    "uuid": (UUID(int=1), Any, "UUID"),
    "generic model": (Box(item=DOG), Box, r"result\.item: a Dog"),
}


@pytest.mark.parametrize("case", UNDECLARED)
def test_what_is_undeclared_and_not_equal_to_plain_data_is_refused(case: str) -> None:
    value, annotation, said = UNDECLARED[case]
    with pytest.raises(NotSerializable, match=said) as refused:
        codec.normalize(value, annotation)
    assert "nothing declares" in refused.value.reason


@pytest.mark.parametrize(
    "value",
    [
        Excluded(a=1, secret=2),
        [{"a": Excluded(a=1, secret=2)}],
        private(),
        Counted(n=1),
        (1, InCents(7)),
        with_attribute(),
        Cage(pet=DOG),
        {"a": collections.deque([Shifted(1)])},
    ],
)
def test_what_no_reader_could_bring_back_is_refused_when_it_is_given(value: object) -> None:
    with pytest.raises(NotSerializable, match=r"^it[.\[]"):
        codec.encode_for("the run", value, path="it")


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (DOG, Dog),
        ([DOG, Animal(name="x")], list[Dog | Animal]),
        ({1: Decimal("1.10")}, dict[int, Decimal]),
        ((datetime(2024, 5, 6, tzinfo=UTC), {Level.LOW}), tuple[datetime, set[Level]]),
        (Pair(Animal(name="x")), Pair),
        (collections.deque([b"x"]), collections.deque[bytes]),
        (numpy.float64(1.5), float),
        (Cages([Animal(name="x")]), Cages),
    ],
)
def test_what_a_reader_declares_is_given_as_it_is_and_warned_of_once(
    value: Any, annotation: object, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    reader = request.node.name
    for _ in range(2):
        assert codec.decode(codec.encode_for(reader, value), annotation) == value
    assert sum(reader in record.getMessage() for record in caplog.records) <= 1
    assert codec.encode_for("it", value) == codec.encode(value)


def test_plain_data_is_given_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert codec.encode_for("it", {"a": [1, None, 1.5, "x"]}) == '{"a":[1,null,1.5,"x"]}'
    assert not caplog.records


@pytest.mark.parametrize(
    ("value", "annotation"), [({"a": [1, None, "x", 1.5]}, Any), ([{}], list), ("x", object), (3, Any)]
)
def test_plain_data_is_not_warned_of(
    value: object, annotation: object, caplog: pytest.LogCaptureFixture
) -> None:
    codec.normalize(value, annotation, path="result of plain data")
    assert not caplog.records


class Spoken(BaseModel):
    cents: int

    @field_serializer("cents")
    def say(self, cents: int) -> str:
        return f"{cents} cents"


@dataclass
class Made:
    a: int
    by: InitVar[str]


@pytest.mark.parametrize(("value", "field"), [(Spoken(cents=1), "cents"), (Made(1, "x"), "by")])
def test_a_class_that_does_not_read_what_it_writes_is_refused_by_name(value: object, field: str) -> None:
    with pytest.raises(
        NotSerializable, match=f"{type(value).__name__} does not read what it writes"
    ) as refused:
        codec.normalize(value, type(value))
    assert refused.value.path == f"result.{field}"


class Quarrelsome(BaseModel):
    a: Annotated[int, BeforeValidator(lambda each: each)]

    def __eq__(self, other: object) -> NoReturn:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return 0


def test_a_class_that_cannot_be_compared_is_compared_by_its_fields() -> None:
    assert codec.normalize(Quarrelsome(a=1), Quarrelsome)[1].a == 1
    with pytest.raises(NotSerializable):
        codec.normalize(Quarrelsome(a=1), Any)


def test_offsets_come_back_whatever_their_class() -> None:
    value = datetime(2024, 5, 6, tzinfo=Zone())
    assert codec.normalize(value, datetime)[1] == value
