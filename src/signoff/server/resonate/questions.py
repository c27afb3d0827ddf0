"""Questions to people in the durable promise protocol: promises whose tag ``signoff:question`` has their terms.

The tag is JSON: a text, or an object with the arguments of ``Context.wait_for_user`` by name. Instead of types it has
JSON Schemas. An SDK whose promises have no tags calls the function ``signoff:question`` with the object as its only
argument. The promise appears in the inbox, is settled with the checked answer, and its timeout is the question's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from signoff.codec.strict_json import read_object
from signoff.errors import InvalidValue, NotSerializable, RegistrationError
from signoff.people.questions.answer_checks import check_containers
from signoff.people.questions.policies import Policy
from signoff.people.questions.policy_options import TYPES, plain_options, read_options
from signoff.people.questions.question import Question
from signoff.people.questions.standalone_questions import PARTS, SCHEMAS, policy_of
from signoff.records import NewPromise, PromiseKind
from signoff.server.resonate.durable_promises import Details, called_by, to_new
from signoff.wire.durable_values import PROTOCOL, QUESTION

TAG: Final = QUESTION

_PARTS: Final = PARTS - {"action", *SCHEMAS.values()}
_POLICY: Final = TYPES.keys() - {"timeout_seconds"}
_KNOWN: Final = {"text", *_PARTS, *SCHEMAS, *_POLICY}


def terms_of(details: Details) -> dict[str, Any] | None:
    """Return the terms of a promise's question, or None if it asks none.

    Raises:
        InvalidValue: The terms are not JSON, or neither a text nor an object.
    """
    if TAG in details.tags:
        check_containers(details.tags[TAG].encode(), path=f"tags.{TAG}")
        try:
            terms = json.loads(details.tags[TAG])
        except (ValueError, RecursionError):
            raise InvalidValue(f"tags.{TAG}", "is not JSON; pass a JSON text or object") from None
        return _object(f"tags.{TAG}", terms)
    called = called_by(details)
    if called is None or called["func"] != TAG:
        return None
    arguments = called.get("args")
    if not isinstance(arguments, list) or len(cast("list[Any]", arguments)) != 1:
        raise InvalidValue(
            "param", f"{TAG} takes one argument: the question's text, or an object with its terms"
        )
    return _object("param", cast("list[Any]", arguments)[0])


def to_new_question(id: str, details: Details, terms: Mapping[str, Any], now: float) -> NewPromise:
    """Return the question to be asked.

    Args:
        id: The promise's id.
        details: Its parameter, tags and timeout.
        terms: Its terms.
        now: The time, in unix seconds.

    Raises:
        InvalidValue: A term is unknown, or the terms do not fit together.
    """
    unknown = terms.keys() - _KNOWN
    if unknown:
        raise InvalidValue(TAG, f"{min(unknown)!r} is not a term of a question; see docs/resonate.md")
    try:
        question, policy = _made(terms, now, details)
    except (RegistrationError, NotSerializable, TypeError) as error:
        raise InvalidValue(TAG, str(error)) from None
    new = to_new(id, details, kind=PromiseKind.QUESTION)
    data = json.loads(question.to_json(replace(policy, asked_at=now)))
    return replace(
        new,
        data=json.dumps({**data, PROTOCOL: read_object(new.data)[PROTOCOL]}, ensure_ascii=False),
        due_at=None if policy.deadline is not None else new.due_at,  # at its deadline it gets an answer
        assignees=policy.assignees,
        act_at=None if policy.is_plain or policy.first_act is None else now + policy.first_act,
    )


def named_people(new: NewPromise) -> tuple[str, ...]:
    """Return the assignees of a new promise, with those of its escalations; none if it is no question."""
    if new.kind is not PromiseKind.QUESTION:
        return ()
    policy = Policy.from_data(new.id, read_object(new.data).get("policy", {}))
    return replace(policy, assignees=new.assignees).everybody_named


def _object(path: str, terms: Any) -> dict[str, Any]:
    if isinstance(terms, str):
        return {"text": terms}
    if not isinstance(terms, dict):
        raise InvalidValue(path, f"expected a text or an object, not {type(terms).__name__}")
    return cast("dict[str, Any]", terms)


def _made(terms: Mapping[str, Any], now: float, details: Details) -> tuple[Question, Policy]:
    """Return the question and its policy. Raises RegistrationError, NotSerializable, InvalidValue, TypeError."""
    parts = {name: terms[name] for name in _PARTS & terms.keys()}
    schemas = {declared: terms[name] for name, declared in SCHEMAS.items() if name in terms}
    text = terms.get("text", "")
    question = Question.make(text, **parts, **schemas)
    options = cast("dict[str, Any]", read_options({name: terms[name] for name in _POLICY & terms.keys()}))
    plain_options(options)  # checks that each is of its type
    timeout = None if to_new("", details).due_at is None else details.timeout_at / 1000 - now
    policy = policy_of(question, {**options, "timeout_seconds": timeout})
    hours = options.get("hours")
    return question, policy if hours is None else policy.in_hours(hours, now, timeout)
