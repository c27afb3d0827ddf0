"""Shapes of tool arguments: as a model sends them, as the tool gets them, as people see them, and another call."""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    AliasPath,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    PlainSerializer,
    PlainValidator,
    RootModel,
    SecretBytes,
    SecretStr,
    Tag,
    WrapValidator,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_ai import RunContext
from typing_extensions import TypedDict

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    x: int
    y: int = 5


class Aliased(BaseModel):
    cents: int = Field(alias="amountCents")


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    amount_cents: int


class Generated(BaseModel):
    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=str.upper, serialization_alias=str.title)
    )
    cents: int


class Chosen(BaseModel):
    cents: int = Field(validation_alias=AliasChoices("amount", "value"))


class Nested(BaseModel):
    cents: int = Field(validation_alias=AliasPath("money", "cents"))


class Serialized(BaseModel):
    cents: int = Field(serialization_alias="out")


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    cents: int = Field(alias="amountCents")


class Excluded(BaseModel):
    to: str
    cents: int = Field(exclude=True)


class Computed(BaseModel):
    cents: int

    @computed_field
    @property
    def euros(self) -> float:
        return self.cents / 100


class Rounded(BaseModel):
    price: float

    @field_serializer("price")
    def rounded(self, value: float) -> str:
        return f"{value:.0f}"


class Twice(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def double(cls, value: int) -> int:
        return value * 2


class Together(BaseModel):
    cents: int

    @model_validator(mode="after")
    def more(self) -> Together:
        self.cents += 1
        return self


class FromText(BaseModel):
    cents: int
    currency: str

    @model_validator(mode="before")
    @classmethod
    def read(cls, data: Any) -> Any:
        if isinstance(data, dict) and "price" in data:
            cents, currency = data["price"].split()
            return {"cents": int(cents), "currency": currency}
        return data


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: int = 0


class Plain(TypedDict):
    cents: int
    note: NotRequired[str]


class AliasedDict(TypedDict):
    cents: Annotated[int, Field(alias="amountCents")]


class Pair(NamedTuple):
    name: str
    cents: int = 7


@dataclass
class Money:
    cents: int
    currency: str = "EUR"


@dataclass
class Doubled:
    cents: int
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total = self.cents * 2


@pydantic_dataclass
class Checked:
    cents: Annotated[int, Field(alias="amountCents", ge=0)]


class Names(RootModel[list[str]]):
    pass


class Box(BaseModel, Generic[T]):
    inside: T


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    cents: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    cents: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cents: int


class Ignoring(BaseModel):
    cents: int


class Made(BaseModel):
    cents: int
    tags: list[str] = Field(default_factory=lambda: ["new"])


class Tree(BaseModel):
    name: str
    below: list[Tree] = []


class Secrets(BaseModel):
    token: SecretStr


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: dt.date
    cents: int


class Token:
    """What JSON cannot say."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and other.text == self.text

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def wrapped(value: Any, handler: Any) -> int:
    return handler(value) + 1


def kind_of(value: Any) -> str:
    return value["kind"] if isinstance(value, dict) else value.kind


@dataclass(frozen=True)
class Shape:
    """One shape.

    Attributes:
        tool: Makes the tool, which calls what it is given with its argument.
        sent: What the model sends.
        gets: What the tool gets of it.
        shown: What people are shown; None: what was sent.
        edit: What a person puts in the place of what they are shown; None: nothing else fits.
        gets_then: What the tool then gets.
        is_unseen: Whether JSON cannot say what the tool gets.
    """

    tool: Callable[[Callable[..., None]], Callable[..., str]]
    sent: dict[str, Any]
    gets: Any
    shown: dict[str, Any] | None = None
    edit: dict[str, Any] | None = None
    gets_then: Any = None
    is_unseen: bool = False


def of(
    kind: Any, sent: Any, gets: Any, shown: Any = None, edit: Any = None, then: Any = None, **more: Any
) -> Shape:
    """A tool with one more argument beside it, so that the one of that type stands under its name."""

    def make(got: Callable[..., None]) -> Callable[..., str]:
        def pay(value: Any, to: str = "bob") -> str:
            got(value)
            return "paid"

        pay.__annotations__["value"] = kind
        return pay

    def whole(value: Any) -> dict[str, Any]:
        return {"value": value, "to": "bob"}

    return Shape(
        make,
        {"value": sent},
        gets,
        whole(sent if shown is None else shown),
        None if edit is None else whole(edit),
        then,
        **more,
    )


def single(kind: Any, sent: Any, gets: Any, shown: Any = None, edit: Any = None, then: Any = None) -> Shape:
    """A tool with one argument, whose fields are the tool's arguments."""

    def make(got: Callable[..., None]) -> Callable[..., str]:
        def pay(value: Any) -> str:
            got(value)
            return "paid"

        pay.__annotations__["value"] = kind
        return pay

    return Shape(make, sent, gets, shown, edit, then)


def flat(sent: Any, gets: Any, shown: Any, edit: Any, then: Any, make: Any) -> Shape:
    return Shape(make, sent, gets, shown, edit, then)


def with_defaults(got: Callable[..., None]) -> Callable[..., str]:
    def pay(cents: int = 20_000, to: str = "bob") -> str:
        got((cents, to))
        return "paid"

    return pay


def with_context(got: Callable[..., None]) -> Callable[..., str]:
    def pay(ctx: RunContext[Any], cents: int, *, to: str) -> str:
        got((cents, to))
        return "paid"

    return pay


def with_keywords(got: Callable[..., None]) -> Callable[..., str]:
    def pay(cents: int, **more: int) -> str:
        got((cents, more))
        return "paid"

    return pay


def with_positions(got: Callable[..., None]) -> Callable[..., str]:
    def pay(cents: int, /, *more: int) -> str:
        got((cents, more))
        return "paid"

    return pay


def with_alias(got: Callable[..., None]) -> Callable[..., str]:
    def pay(cents: Annotated[int, Field(alias="amountCents")], to: str = "bob") -> str:
        got(cents)
        return "paid"

    return pay


def without_arguments(got: Callable[..., None]) -> Callable[..., str]:
    def pay() -> str:
        got(None)
        return "paid"

    return pay


def untyped(got: Callable[..., None]) -> Callable[..., str]:
    def pay(value, to="bob"):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        got(value)
        return "paid"

    return pay


ZONE = ZoneInfo("Europe/Berlin")
EDIT = Field(description="an argument")
BIG = 2**70

SHAPES: dict[str, Shape] = {
    # Plain values
    "int": of(int, 70, 70, edit=80, then=80),
    "int as text": of(int, "7000", 7000, 7000, edit=80, then=80),
    "big int": of(int, BIG, BIG, edit=BIG + 1, then=BIG + 1),
    "bool": of(bool, True, True, edit=False, then=False),
    "float": of(float, 7, 7.0, edit=8.5, then=8.5),
    "text": of(str, "bob", "bob", edit="eve", then="eve"),
    "text beyond ascii": of(str, "é\u0000😀", "é\u0000😀", edit="ü", then="ü"),
    "any": of(Any, {"a": [1, None]}, {"a": [1, None]}, edit=[2], then=[2]),
    "optional": of(int | None, None, None, edit=8, then=8),
    "union": of(int | str, "7", "7", edit=7, then=7),
    "literal": of(Literal["a", "b"], "a", "a", edit="b", then="b"),
    "enum": of(Colour, "red", Colour.RED, edit="blue", then=Colour.BLUE),
    "int enum": of(Level, 1, Level.LOW, edit=2, then=Level.HIGH),
    "decimal": of(Decimal, "1.50", Decimal("1.50"), edit="2.50", then=Decimal("2.50")),
    "decimal as number": of(Decimal, 1.5, Decimal("1.5"), edit=2.5, then=Decimal("2.5")),
    "date": of(dt.date, "2026-01-31", dt.date(2026, 1, 31), edit="2026-02-01", then=dt.date(2026, 2, 1)),
    "time": of(dt.time, "10:30:00", dt.time(10, 30), edit="11:00:00", then=dt.time(11)),
    "datetime": of(
        dt.datetime,
        "2026-01-31T10:00:00+02:00",
        dt.datetime(2026, 1, 31, 10, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        edit="2026-01-31T10:00:00Z",
        then=dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC),
    ),
    "timedelta": of(dt.timedelta, "PT1H", dt.timedelta(hours=1), edit="PT2H", then=dt.timedelta(hours=2)),
    "zone": of(ZoneInfo, "Europe/Berlin", ZONE, edit="Europe/Paris", then=ZoneInfo("Europe/Paris")),
    "uuid": of(UUID, str(UUID(int=1)), UUID(int=1), edit=str(UUID(int=2)), then=UUID(int=2)),
    "path": of(Path, "/tmp/a", Path("/tmp/a"), edit="/tmp/b", then=Path("/tmp/b")),
    "address": of(
        ipaddress.IPv4Address,
        "10.0.0.1",
        ipaddress.IPv4Address("10.0.0.1"),
        edit="10.0.0.2",
        then=ipaddress.IPv4Address("10.0.0.2"),
    ),
    "url": of(
        pydantic.HttpUrl,
        "https://a.test/",
        pydantic.HttpUrl("https://a.test/"),
        edit="https://b.test/",
        then=pydantic.HttpUrl("https://b.test/"),
    ),
    "pattern": of(re.Pattern[str], "a+", re.compile("a+"), edit="b+", then=re.compile("b+")),
    "bytes": of(bytes, "raw", b"raw", edit="other", then=b"other"),
    "base64": of(Base64Bytes, "aGVsbG8=", b"hello", edit="Ynll", then=b"bye"),
    "secret text": of(SecretStr, "hunter2", SecretStr("hunter2"), edit="hunter3", then=SecretStr("hunter3")),
    "secret bytes": of(SecretBytes, "hunter2", SecretBytes(b"hunter2"), edit="x", then=SecretBytes(b"x")),
    "infinity": of(float, "Infinity", float("inf"), edit=8, then=8.0),
    "size": of(ByteSize, "1KB", ByteSize(1000), 1000, edit="2KB", then=ByteSize(2000)),
    "json text": of(Json[list[int]], "[1, 2]", [1, 2], edit="[3]", then=[3]),
    "constrained": of(Annotated[int, Field(gt=0, lt=100)], 7, 7, edit=8, then=8),
    # Validators
    "after": of(Annotated[int, AfterValidator(lambda each: each * 100)], 70, 7000, 7000, edit=80, then=8000),
    "before": of(
        Annotated[str, BeforeValidator(lambda each: f"EUR {each}")], "5", "EUR 5", "EUR 5", "6", "EUR 6"
    ),
    "wrap": of(Annotated[int, WrapValidator(wrapped)], 5, 6, 6, edit=8, then=9),
    "plain": of(Annotated[int, PlainValidator(lambda each: int(each) * 2)], 5, 10, 10, edit=8, then=16),
    "opaque": of(
        Annotated[Any, PlainValidator(Token)], "t", Token("t"), "t", edit="u", then=Token("u"), is_unseen=True
    ),
    "field validator": of(Twice, {"cents": 5}, Twice(cents=5), {"cents": 10}, {"cents": 7}, Twice(cents=7)),
    "after the model": of(
        Together, {"cents": 5}, Together(cents=5), {"cents": 6}, {"cents": 8}, Together(cents=8)
    ),
    "before the model": single(
        FromText,
        {"price": "500 EUR"},
        FromText(cents=500, currency="EUR"),
        {"cents": 500, "currency": "EUR"},
        {"cents": 600, "currency": "EUR"},
        FromText(cents=600, currency="EUR"),
    ),
    "serializer": of(Annotated[int, PlainSerializer(lambda each: "many")], 5, 5, edit=6, then=6),
    "field serializer": of(
        Rounded, {"price": 1.25}, Rounded(price=1.25), None, {"price": 2.5}, Rounded(price=2.5)
    ),
    # Names
    "alias": single(
        Aliased, {"amountCents": 5}, Aliased(amountCents=5), None, {"amountCents": 6}, Aliased(amountCents=6)
    ),
    "camel": single(
        Camel, {"amountCents": 5}, Camel(amountCents=5), None, {"amountCents": 6}, Camel(amountCents=6)
    ),
    "generated alias": of(
        Generated, {"CENTS": 5}, Generated(CENTS=5), None, {"CENTS": 6}, Generated(CENTS=6)
    ),
    "choices": of(Chosen, {"value": 5}, Chosen(amount=5), None, {"value": 6}, Chosen(amount=6)),
    "path alias": of(
        Nested,
        {"money": {"cents": 5}},
        Nested(money={"cents": 5}),
        None,
        {"money": {"cents": 6}},
        Nested(money={"cents": 6}),
    ),
    "serialization alias": single(
        Serialized, {"cents": 5}, Serialized(cents=5), None, {"cents": 6}, Serialized(cents=6)
    ),
    "by name": of(ByName, {"cents": 5}, ByName(cents=5), None, {"cents": 6}, ByName(cents=6)),
    "alias of a parameter": flat(
        {"amountCents": 5}, 5, {"amountCents": 5, "to": "bob"}, {"amountCents": 6, "to": "bob"}, 6, with_alias
    ),
    # Models and the like
    "single model": single(Point, {"x": 1}, Point(x=1), {"x": 1, "y": 5}, {"x": 2, "y": 5}, Point(x=2, y=5)),
    "model": of(Point, {"x": 1, "y": 2}, Point(x=1, y=2), None, {"x": 3, "y": 2}, Point(x=3, y=2)),
    "excluded": single(
        Excluded,
        {"to": "bob", "cents": 5},
        Excluded(to="bob", cents=5),
        None,
        {"to": "eve", "cents": 5},
        Excluded(to="eve", cents=5),
    ),
    "computed": single(Computed, {"cents": 5}, Computed(cents=5), None, {"cents": 6}, Computed(cents=6)),
    "discriminated": of(
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {"kind": "cat"},
        Cat(kind="cat"),
        {"kind": "cat", "lives": 9},
        {"kind": "dog", "tricks": 2},
        Dog(kind="dog", tricks=2),
    ),
    "tagged": of(
        Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(kind_of)],
        {"kind": "dog"},
        Dog(kind="dog"),
        {"kind": "dog", "tricks": 0},
        {"kind": "cat", "lives": 1},
        Cat(kind="cat", lives=1),
    ),
    "typed dict": single(
        Plain, {"cents": 5}, {"cents": 5}, None, {"cents": 6, "note": "n"}, {"cents": 6, "note": "n"}
    ),
    "typed dict with alias": of(
        AliasedDict, {"amountCents": 5}, {"cents": 5}, None, {"amountCents": 6}, {"cents": 6}
    ),
    "typed dicts in a list": of(
        list[AliasedDict], [{"amountCents": 5}], [{"cents": 5}], None, [{"amountCents": 6}], [{"cents": 6}]
    ),
    "named tuple": of(Pair, ["bob"], Pair("bob"), ["bob", 7], ["eve", 8], Pair("eve", 8)),
    "dataclass": single(
        Money,
        {"cents": 5},
        Money(5),
        {"cents": 5, "currency": "EUR"},
        {"cents": 6, "currency": "USD"},
        Money(6, "USD"),
    ),
    "dataclass with a field of its own": of(
        Doubled, {"cents": 5}, Doubled(5), None, {"cents": 6}, Doubled(6)
    ),
    "pydantic dataclass": single(
        Checked, {"amountCents": 5}, Checked(5), None, {"amountCents": 6}, Checked(6)
    ),  # pyright: ignore[reportCallIssue]
    "root": of(Names, ["a"], Names(["a"]), None, ["b"], Names(["b"])),
    "generic": of(
        Box[Point],
        {"inside": {"x": 1}},
        Box[Point](inside=Point(x=1)),
        {"inside": {"x": 1, "y": 5}},
        {"inside": {"x": 2, "y": 5}},
        Box[Point](inside=Point(x=2, y=5)),
    ),
    "frozen": single(Frozen, {"cents": 5}, Frozen(cents=5), None, {"cents": 6}, Frozen(cents=6)),
    "extra allowed": single(
        Open,
        {"cents": 5, "note": "n"},
        Open(cents=5, note="n"),
        None,
        {"cents": 6, "note": "m"},
        Open(cents=6, note="m"),
    ),
    "extra forbidden": single(Closed, {"cents": 5}, Closed(cents=5), None, {"cents": 6}, Closed(cents=6)),
    "extra ignored": of(
        Ignoring, {"cents": 5, "note": "n"}, Ignoring(cents=5), {"cents": 5}, {"cents": 6}, Ignoring(cents=6)
    ),
    "default factory": of(
        Made,
        {"cents": 5},
        Made(cents=5),
        {"cents": 5, "tags": ["new"]},
        {"cents": 6, "tags": []},
        Made(cents=6, tags=[]),
    ),
    "recursive": single(
        Tree,
        {"name": "a", "below": [{"name": "b"}]},
        Tree(name="a", below=[Tree(name="b")]),
        {"name": "a", "below": [{"name": "b", "below": []}]},
        {"name": "c", "below": []},
        Tree(name="c"),
    ),
    "secret in a model": single(
        Secrets,
        {"token": "t"},
        Secrets(token=SecretStr("t")),
        None,
        {"token": "u"},
        Secrets(token=SecretStr("u")),
    ),
    # Containers
    "list": of(list[Point], [{"x": 1}], [Point(x=1)], [{"x": 1, "y": 5}], [{"x": 2, "y": 5}], [Point(x=2)]),
    "set": of(set[int], [3, 1, 3], {1, 3}, [3, 1], [2], {2}),
    "frozenset": of(
        frozenset[Colour], ["blue", "red"], frozenset(Colour), None, ["red"], frozenset({Colour.RED})
    ),
    "tuple": of(tuple[int, str], [1, "a"], (1, "a"), None, [2, "b"], (2, "b")),
    "deque": of(deque[int], [1, 2], deque([1, 2]), None, [3], deque([3])),
    "dict": of(
        dict[str, Point],
        {"a": {"x": 1, "y": 2}},
        {"a": Point(x=1, y=2)},
        None,
        {"b": {"x": 2, "y": 2}},
        {"b": Point(x=2, y=2)},
    ),
    "dict with other keys": of(
        dict[int, Decimal], {"7": "1.0"}, {7: Decimal("1.0")}, None, {"8": "2.0"}, {8: Decimal("2.0")}
    ),
    "dict with dates": of(
        dict[dt.date, int],
        {"2026-01-31": 1},
        {dt.date(2026, 1, 31): 1},
        None,
        {"2026-02-01": 2},
        {dt.date(2026, 2, 1): 2},
    ),
    "converted in a list": of(
        list[Annotated[int, AfterValidator(lambda each: each * 100)]],
        [1, 2],
        [100, 200],
        [100, 200],
        [100, 3],
        [100, 300],
    ),
    # Functions
    "defaults": flat(
        {},
        (20_000, "bob"),
        {"cents": 20_000, "to": "bob"},
        {"cents": 5, "to": "bob"},
        (5, "bob"),
        with_defaults,
    ),
    "context": flat(
        {"cents": 5, "to": "bob"}, (5, "bob"), None, {"cents": 6, "to": "bob"}, (6, "bob"), with_context
    ),
    "keywords": flat(
        {"cents": 5, "tip": 1}, (5, {"tip": 1}), None, {"cents": 6, "tax": 2}, (6, {"tax": 2}), with_keywords
    ),
    "positions": flat(
        {"cents": 5, "more": [1, 2]}, (5, (1, 2)), None, {"cents": 6, "more": []}, (6, ()), with_positions
    ),
    "nothing": flat({}, None, None, None, None, without_arguments),
    "untyped": flat(
        {"value": [1, {"a": None}]},
        [1, {"a": None}],
        {"value": [1, {"a": None}], "to": "bob"},
        {"value": 2, "to": "bob"},
        2,
        untyped,
    ),
}
