"""Whether what workers send can be read by everybody else: a row that cannot would break the lists that it is in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from pydantic_core import from_json

from signoff.errors import InvalidValue
from signoff.people.attachments import is_web
from signoff.records import (
    Amendment,
    Entry,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewSignal,
    PromiseKind,
    Settlement,
)
from signoff.stores.base import Outcome, Write

_TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    NewRun: ("arguments",),
    NewPromise: ("data",),
    Entry: ("value", "error", "details"),
    Settlement: ("value",),
    Outcome: ("result", "error"),
    Amendment: ("progress",),
    NewAuditEvent: ("details",),
    NewRule: ("arguments",),
    NewSchedule: ("arguments",),
    NewSignal: ("value",),
}
"""The fields of each record that hold JSON."""

_PARTS: Final[Mapping[type, tuple[str, ...]]] = {
    Write: ("entries", "opens", "starts"),
    Amendment: ("settlement", "events", "rule", "signal"),
}
"""The fields of each record that hold other records."""

_VALUES: Final = frozenset({"value", "error"})
"""Arguments of operations that hold JSON themselves."""


def check_payloads(arguments: Mapping[str, Any]) -> None:
    """Check what comes with an operation.

    Raises:
        InvalidValue: A payload is no JSON, or not of the shape that everybody reads.
    """
    for name, value in arguments.items():
        if name in _VALUES and isinstance(value, str):
            _json(name, value)
        else:
            _check(name, value)


def _check(path: str, value: object) -> None:
    if isinstance(value, list | tuple):
        for number, item in enumerate(cast("Iterable[object]", value)):
            _check(f"{path}.{number}", item)
        return
    for field in _TEXTS.get(type(value), ()):
        text: str | None = getattr(value, field)
        if text is not None:
            _check_shape(value, f"{path}.{field}", _json(f"{path}.{field}", text))
    for field in _PARTS.get(type(value), ()):
        _check(f"{path}.{field}", getattr(value, field))


def _json(path: str, text: str) -> object:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidValue(path, f"it is no JSON: {error}") from None


def _check_shape(record: object, path: str, value: object) -> None:
    is_question = isinstance(record, NewPromise) and record.kind is PromiseKind.QUESTION
    if not is_question:
        return
    if not isinstance(value, dict):
        raise InvalidValue(path, "a question is an object")
    _check_attachments(path, cast("dict[str, object]", value).get("attachments"))


def _check_attachments(path: str, attachments: object) -> None:
    """Refuse links that would run in the page that shows them, as a workflow that asks is refused them."""
    if not isinstance(attachments, list):
        return
    for number, each in enumerate(cast("list[object]", attachments)):
        if not isinstance(each, dict) or not is_web(cast("dict[str, object]", each).get("url")):
            raise InvalidValue(f"{path}.attachments.{number}.url", "it is not an http or https address")
