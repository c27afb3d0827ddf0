"""Paths and JSON bodies of the client's requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json

from signoff.people.links.resume_tokens import Response
from signoff.people.questions.answer_checks import written_answer
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.records import (
    AuditEvent,
    PromiseState,
    Seal,
)
from signoff.records.names import check_text
from signoff.records.responders import Responder
from signoff.wire.records import from_wire

SETTLE_VERBS = {
    PromiseState.RESOLVED: "resolve",
    PromiseState.REJECTED: "reject",
    PromiseState.CANCELLED: "cancel",
}
"""The last part of the path that settles a promise."""


def path_to(noun: str, id: str, verb: str | None = None) -> str:
    """Return a path for any id. ``.`` and ``..`` are quoted, or they would change the path."""
    check_text("id", id)
    quoted = quote(id, safe="").replace(".", "%2E") if id in (".", "..") else quote(id, safe="")
    return f"/v1/{noun}/{quoted}" + (f"/{verb}" if verb else "")


def chain_links(answer: Any) -> list[tuple[Seal, AuditEvent | None]]:
    """Return the links of an audit chain in a response."""
    return [
        (
            Seal(link["seq"], link["event_id"], link["hash"]),
            None if link["event"] is None else from_wire(AuditEvent, link["event"]),
        )
        for link in answer["items"]
    ]


def given_answer(given: GivenAnswer) -> dict[str, Any]:
    """Return one of several answers."""
    details = {"note": given.note, "request_id": given.request_id, "digest": given.digest}
    value = from_json(written_answer(given.value))
    return {"question_id": given.question_id, "value": value, **without_none(details)}


def given_responses(
    session_id: str, secret: str, responses: Mapping[str, Response], responder: Responder
) -> dict[str, Any]:
    """Return the answers that go with a resume token."""
    answers = [
        {
            "question_id": id,
            "value": from_json(written_answer(each.value)),
            **without_none(
                {"note": each.note, "alike": None if each.alike is None else without_none(asdict(each.alike))}
            ),
        }
        for id, each in responses.items()
    ]
    return {
        "session_id": session_id,
        "resume_token": secret,
        "answers": answers,
        **given_responder(responder),
    }


def given_responder(responder: Responder) -> dict[str, Any]:
    """Return a responder, without empty groups and roles."""
    user: dict[str, Any] = {"user_id": responder.user_id}
    if responder.groups:
        user["groups"] = sorted(responder.groups)
    if responder.roles:
        user["roles"] = sorted(responder.roles)
    return user


def without_none(values: Mapping[str, Any], *nullable: str) -> dict[str, Any]:
    """Return the values that are not None, and those of the ``nullable`` names."""
    return {name: value for name, value in values.items() if value is not None or name in nullable}
