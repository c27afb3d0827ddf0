"""A member of an enum as a type comes back unchanged, for every kind of enum."""

from __future__ import annotations

import enum
from dataclasses import make_dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, create_model
from typing_extensions import TypedDict

from signoff import codec
from signoff.errors import SignoffError


class Text(enum.Enum):
    A = "a"
    B = "b"


class Number(enum.Enum):
    A = 1
    B = 2.5


class Mixed(str, enum.Enum):  # noqa: UP042 - another kind than StrEnum
    A = "a"


class Str(enum.StrEnum):
    A = "a"


class Int(enum.IntEnum):
    A = 1


class Flag(enum.Flag):
    A = 1
    B = 2


class IntFlag(enum.IntFlag):
    A = 1


MEMBERS: list[Any] = [Text.A, Number.A, Number.B, Mixed.A, Str.A, Int.A, Flag.A, IntFlag.A]


def _shapes(member: Any) -> list[tuple[Any, Any]]:
    kind: Any = Literal[member]

    model: Any = create_model("Model", kind=(kind, ...), at=(date, date(2024, 5, 6)), raw=(bytes, b"a"))
    data: Any = make_dataclass("Data", [("kind", kind)])
    typed: Any = TypedDict("typed", {"kind": kind})
    return [
        (kind, member),
        (kind | None, member),
        (kind | None, None),
        (list[kind], [member, member]),
        (dict[str, kind], {"x": member}),
        (tuple[kind, int], (member, 1)),
        (Annotated[kind, Field(description="which")], member),
        (model, model(kind=member)),
        (list[model], [model(kind=member)]),
        (dict[str, model | None], {"x": model(kind=member), "y": None}),
        (data, data(member)),
        (typed, {"kind": member}),
    ]


@pytest.mark.parametrize("member", MEMBERS, ids=repr)
def test_it_comes_back_as_it_went(member: Any) -> None:
    for annotation, value in _shapes(member):
        text, again = codec.normalize(value, annotation)
        assert again == value
        assert codec.decode(text, annotation) == value


class Card(BaseModel):
    kind: Literal[Text.A]
    number: int


class Bank(BaseModel):
    kind: Literal[Text.B]
    iban: str


class Payment(BaseModel):
    method: Annotated[Card | Bank, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Annotated[Card | Bank, Field(discriminator="kind")], Bank(kind=Text.B, iban="x")),
        (Payment, Payment(method=Card(kind=Text.A, number=1))),
        (list[Payment], [Payment(method=Card(kind=Text.A, number=1))]),
    ],
)
def test_it_discriminates_a_union(annotation: Any, value: Any) -> None:
    assert codec.normalize(value, annotation)[1] == value


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Literal[Text.A], '"b"'),
        (Literal[Text.A], "1"),
        (Literal[Number.A], "true"),
        (Literal[Number.A], "1.0"),
        (Literal[Text.A], "{}"),
        (Payment, '{"method":{"kind":"c"}}'),
        (Payment, '{"method":{"kind":"a","number":"x"}}'),
    ],
)
def test_another_value_is_refused(annotation: Any, text: str) -> None:
    with pytest.raises(SignoffError):
        codec.decode(text, annotation)


def test_a_plain_value_beside_the_member_stays_plain() -> None:
    annotation: Any = Literal[Text.A, "a", "c"]
    assert codec.decode('"a"', annotation) == "a"
    assert codec.normalize("c", annotation)[1] == "c"
    with pytest.raises(SignoffError, match="Text"):
        codec.normalize(Text.A, annotation)
