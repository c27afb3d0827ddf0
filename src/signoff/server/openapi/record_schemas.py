"""Schemas of responses for the OpenAPI document, derived from the record classes."""

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
    """The origin of an operation, as the server saw it."""

    way: Annotated[str, Field(description=f"{', '.join(OriginWay)}, or a value of a newer version")]
    credential: NotRequired[
        Annotated[
            str,
            Field(description="Id of the key, login, link, callback or rule; Slack user or host user"),
        ]
    ]
    service: NotRequired[Annotated[str, Field(description="The key's service, even if it acted for a user")]]
    address: NotRequired[
        Annotated[str, Field(description="The client's address; for a program with the database, its host")]
    ]


_RENAMED: Final[Mapping[Any, Any]] = {
    AuditKind: Annotated[str, Field(description=f"{', '.join(AuditKind)}, or a value of a newer version")],
    records.Origin: Origin,
    Mapping[str, int]: Annotated[
        dict[str, int],
        Field(
            description="Bytes of fields that are too large for a list, by field; fetch the item to get them"
        ),
    ],
}


_PLAIN: Final[Mapping[tuple[type[Record], str], Any]] = {(records.Promise, "data"): PROMISED}
"""The types of JSON fields, where known."""


class Wrong(TypedDict):
    """One problem in a request."""

    field: Annotated[str, Field(description="The field; `` for the request as a whole")]
    message: str


@cache
def shape_of(kind: type[Record]) -> Any:
    """Return the wire format of a record, as ``to_wire`` writes it, as a type for pydantic."""
    return _typed_dict(kind.__name__, _members(kind), kind.__doc__)


@cache
def more_than(kind: type[Record], name: str, texts: tuple[str, ...]) -> Any:
    """Return the wire format of a record with further string members, such as secrets that are returned once."""
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
            Annotated[
                list[Wrong], Field(description="The unreadable parts, if the stored record is malformed")
            ]
        ]
    return members


@cache
def page_of(shape: Any, after: type[str] | type[int] = str) -> Any:
    """Return the wire format of a page of a list, whose cursor is a string or a number."""
    name = shape.__name__
    next_page = Annotated[after | None, Field(description="The `after` of the next page; null at the end")]
    members = {"items": Required[list[shape]], "next": Required[next_page]}
    return _typed_dict(f"{name}Page", members, f"A page of a list: {name}")


@cache
def problem_of(kind: type[SignoffError]) -> Any:
    """Return the format of the problem that ``to_problem`` makes from an error."""
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
    """A plain HTTP error."""

    type: Annotated[str, Field(json_schema_extra={"const": "about:blank"})]
    title: str
    status: int
    detail: str


def _typed_dict(name: str, members: dict[str, Any], doc: str | None) -> Any:
    made: Any = TypedDict(name, members)  # pyright: ignore[reportArgumentType]
    made.__doc__ = (doc or name).splitlines()[0]
    return made


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was part of it: None values are left out on the wire."""
    if get_origin(hint) not in (Union, UnionType) or NoneType not in get_args(hint):
        return hint, False
    [only] = [each for each in get_args(hint) if each is not NoneType]
    return only, True
