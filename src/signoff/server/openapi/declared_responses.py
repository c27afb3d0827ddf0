"""Declares the responses of a route: ``responses=gives(Run, NotFound)``. ``document`` adds those of every route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel

from signoff.errors import SignoffError
from signoff.server.http.problems import status_of, to_body
from signoff.server.openapi.examples import PROBLEMS, RECORDS
from signoff.server.openapi.record_schemas import more_than, page_of, problem_of, shape_of
from signoff.wire.records import Record, to_wire

Responses = dict[int | str, dict[str, Any]]

PROBLEM: Final = "application/problem+json"
_REF: Final = "#/components/schemas/"


def gives(
    what: type[Record] | type[BaseModel],
    *errors: type[SignoffError],
    statuses: Mapping[int, str] | None = None,
) -> Responses:
    """Describe a route that replies with a record, or with a model that has an example.

    Args:
        what: The class of the reply.
        errors: The errors of this route, besides those of every route. ``openapi/examples.py`` has an example of each.
        statuses: The descriptions of its statuses, if it has others than 200.
    """
    if issubclass(what, BaseModel):
        return _described(what, _first_example(what), errors, statuses)
    return _described(shape_of(what), to_wire(RECORDS[what]), errors, statuses)


def gives_more(
    what: type[Record],
    name: str,
    more: Mapping[str, str],
    *errors: type[SignoffError],
    statuses: Mapping[int, str] | None = None,
) -> Responses:
    """Describe a route that replies with a record and further string members, given by name with an example."""
    example = {**to_wire(RECORDS[what]), **more}
    return _described(more_than(what, name, tuple(more)), example, errors, statuses)


def gives_page(
    what: type[Record] | type[BaseModel],
    *errors: type[SignoffError],
    after: type[str] | type[int] = str,
) -> Responses:
    """Describe a route that replies with a page of a list. Its cursor is a string or a number."""
    if issubclass(what, BaseModel):
        shape, example = what, _first_example(what)
    else:
        shape, example = shape_of(what), to_wire(RECORDS[what])
    return _described(page_of(shape, after), {"items": [example], "next": after("17")}, errors)


def gives_text(media_types: Sequence[str], example: str, *errors: type[SignoffError]) -> Responses:
    """Describe a route whose reply is not a JSON document: an event stream, JSON lines, metrics."""
    content = {media_type: {"schema": {"type": "string"}, "example": example} for media_type in media_types}
    return _with_problems({200: {"description": "Successful Response", "content": content}}, errors)


def add_problem(responses: dict[Any, dict[str, Any]], status: int | str, kind: type[SignoffError]) -> None:
    """Add a problem to an operation's responses with a status."""
    described = responses.setdefault(status, {"description": HTTPStatus(int(status)).phrase})
    content = described.setdefault("content", {}).setdefault(
        PROBLEM, {"schema": {"anyOf": []}, "examples": {}}
    )
    ref = {"$ref": f"{_REF}{problem_of(kind).__name__}"}
    if ref not in content["schema"]["anyOf"]:
        content["schema"]["anyOf"].append(ref)
        content["examples"][kind.__name__] = {"value": to_body(int(status), PROBLEMS[kind])}


def _described(
    shape: Any,
    example: Any,
    errors: tuple[type[SignoffError], ...],
    statuses: Mapping[int, str] | None = None,
) -> Responses:
    content = {"application/json": {"example": example}}
    meanings = statuses or {200: "Successful Response"}
    replies: Responses = {
        status: {"model": shape, "description": meaning, "content": content}
        for status, meaning in meanings.items()
    }
    return _with_problems(replies, errors)


def _with_problems(responses: Responses, errors: tuple[type[SignoffError], ...]) -> Responses:
    for kind in errors:
        add_problem(responses, status_of(kind), kind)
    return responses


def _first_example(model: type[BaseModel]) -> Any:
    extra: Any = model.model_config.get("json_schema_extra")
    return extra["examples"][0]
