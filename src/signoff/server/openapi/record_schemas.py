"""What replies look like, for the API's description: made of the records that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from inspect import signature
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict

from signoff import records
from signoff.errors import InvalidValue, NotSerializable, SignoffError, WrongAnswer
from signoff.people.questions.question_schema import PROMISED
from signoff.records import AuditKind, OriginWay
from signoff.stores.shared.listed_payloads import LEFT_OUT
from signoff.wire.records import JSON_FIELDS, UNREADABLE, UNSAID, URN, Record

Json = Annotated[Any, Field(description="Any JSON")]


class Origin(TypedDict):
    """From where something was done, as the server saw it."""

    way: Annotated[str, Field(description=f"{', '.join(OriginWay)}, or what a newer version has")]
    credential: NotRequired[
        Annotated[
            str,
            Field(description="Id of the key, login, link, callback or rule; user of Slack or of the host"),
        ]
    ]
    service: NotRequired[
        Annotated[str, Field(description="Whose key it was, also where it acted for a person")]
    ]
    address: NotRequired[
        Annotated[str, Field(description="Of the client; of a program with the database, its host")]
    ]


_RENAMED: Final[Mapping[Any, Any]] = {
    AuditKind: Annotated[str, Field(description=f"{', '.join(AuditKind)}, or what a newer version records")],
    records.Origin: Origin,
    Mapping[str, int]: Annotated[
        dict[str, int],
        Field(
            description="Of what is too large for a list its size in bytes, by field; showing the item has it"
        ),
    ],
}


_PLAIN: Final[Mapping[tuple[type[Record], str], Any]] = {(records.Promise, "data"): PROMISED}
"""What is known of fields that are JSON."""


class Wrong(TypedDict):
    """One thing that is wrong about what was sent."""

    field: Annotated[str, Field(description="Where; `` for the whole")]
    message: str


@cache
def shape_of(kind: type[Record]) -> Any:
    """Return what a record is on the wire, as ``to_wire`` writes it: a type that pydantic knows."""
    return _typed_dict(kind.__name__, _members(kind), kind.__doc__)


@cache
def more_than(kind: type[Record], name: str, texts: tuple[str, ...]) -> Any:
    """Return what a record is on the wire with texts beside it that are told once."""
    return _typed_dict(name, {**_members(kind), **dict.fromkeys(texts, Required[str])}, kind.__doc__)


def _members(kind: type[Record]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    members: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in UNSAID.get(kind, ()):
            continue
        hint, is_optional = _without_none(hints[field.name])
        plain = _PLAIN.get((kind, field.name), Json)
        what = plain if field.name in JSON_FIELDS[kind] else _RENAMED.get(hint, hint)
        is_optional = is_optional or field.name in LEFT_OUT.get(kind, ())
        members[field.name] = NotRequired[what] if is_optional else Required[what]
    if JSON_FIELDS[kind]:
        members[UNREADABLE] = NotRequired[
            Annotated[list[Wrong], Field(description="What of it cannot be read, where it is kept malformed")]
        ]
    return members


@cache
def page_of(shape: Any, after: type[str] | type[int] = str) -> Any:
    """Return what a page of a list is, whose pages begin after a text or a number."""
    name = shape.__name__
    next_page = Annotated[after | None, Field(description="The `after` of the next page; null at the end")]
    members = {"items": Required[list[shape]], "next": Required[next_page]}
    return _typed_dict(f"{name}Page", members, f"Part of a list: {name}")


@cache
def problem_of(kind: type[SignoffError]) -> Any:
    """Return what ``to_problem`` makes of an error."""
    members: dict[str, Any] = {
        "type": Required[Annotated[str, Field(json_schema_extra={"const": URN + kind.__name__})]],
        "title": Required[str],
        "status": Required[int],
        "detail": Required[str],
    }
    hints = get_type_hints(kind.__init__)
    for name in signature(kind).parameters:
        hint, is_optional = _without_none(hints[name])
        members[name] = NotRequired[hint] if is_optional else Required[hint]
    if issubclass(kind, WrongAnswer):
        del members["problems"]
    if issubclass(kind, WrongAnswer | InvalidValue | NotSerializable):
        members["fields"] = Required[list[Wrong]]
    return _typed_dict(f"{kind.__name__}Problem", members, kind.__doc__)


class Plain(TypedDict):
    """A problem that HTTP itself has a name for."""

    type: Annotated[str, Field(json_schema_extra={"const": "about:blank"})]
    title: str
    status: int
    detail: str


def _typed_dict(name: str, members: dict[str, Any], doc: str | None) -> Any:
    made: Any = TypedDict(name, members)  # pyright: ignore[reportArgumentType]
    made.__doc__ = (doc or name).splitlines()[0]
    return made


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether that was part of it: what is None is left out on the wire."""
    if get_origin(hint) not in (Union, UnionType) or NoneType not in get_args(hint):
        return hint, False
    [only] = [each for each in get_args(hint) if each is not NoneType]
    return only, True
