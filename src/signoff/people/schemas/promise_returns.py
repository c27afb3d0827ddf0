"""Return types of promises: a JSON Schema stored with the promise's data, which the settling value must fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

from signoff import codec
from signoff.errors import InvalidValue
from signoff.people.questions.proposals import full_json
from signoff.people.schemas.validation import listed, schema_problem
from signoff.people.schemas.validation_process import find_problems
from signoff.records import Promise, PromiseState, Settlement
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.promises")

RETURNS: Final = "$returns"
"""The key of the schema in a promise's data."""

DATA: Final = "$data"
"""The key of the creator's own data, if that is not an object."""


def data_of(
    data: Any,
    returns: Any,
    *,
    has_data: bool,
    find_problem: Callable[[dict[str, Any]], str | None] = schema_problem,
) -> str | None:
    """Write a promise's data as JSON, with the schema of its return type.

    Args:
        data: The creator's data.
        returns: A type, or a JSON Schema as a dict; ``Any`` for any value.
        has_data: Whether the creator gave data.
        find_problem: Returns the problem of a schema.

    Raises:
        InvalidValue: The schema is not valid.
        NotSerializable: The data cannot be stored.
        PayloadTooLarge: Data and schema are over the limit together.
    """
    schema = _schema(returns, find_problem)
    plain = full_json(data, "data")
    if schema is None:
        return codec.encode(plain, path="data") if has_data else None
    own: dict[str, Any] = {DATA: plain} if has_data else {}
    shown = cast("dict[str, Any]", plain) if isinstance(plain, dict) else own
    return codec.encode({**shown, RETURNS: schema}, path="data")


def has_returns(promise: Promise) -> bool:
    """Whether a promise may have a return type: False is certain."""
    return f'"{RETURNS}"' in (promise.data or "")


async def check_value(promise: Promise, settlement: Settlement) -> None:
    """Refuse a resolution that does not fit the promise's return type. Rejections may have any reason.

    Raises:
        InvalidValue: It does not fit. The promise stays open.
    """
    if settlement.state is not PromiseState.RESOLVED or not has_returns(promise):
        return
    data = json.loads(promise.data or "null")
    schema = cast("dict[str, Any]", data).get(RETURNS) if isinstance(data, dict) else None
    if not isinstance(schema, dict):
        return
    value = json.loads(settlement.value or "null")
    wrong = await find_problems(cast("dict[str, Any]", schema), value)
    if wrong:
        raise InvalidValue(
            "value",
            f"promise {promise.id!r} does not return this: {listed(wrong, 'value')}{_hint(value)};"
            " nothing was settled",
        )


def warn_of_json_text(what: str, value: object) -> None:
    """Warn about text that is JSON of another type: ``json.dumps(False)`` is the text "false", which is truthy."""
    if isinstance(value, str) and (kind := _kind_in_text(value)) is not None:
        log.warning(
            "%s is settled with the text %.60r, which is JSON of %s: pass the value itself, not json.dumps of it",
            what,
            value,
            kind,
        )


def _schema(returns: Any, find_problem: Callable[[dict[str, Any]], str | None]) -> dict[str, Any] | None:
    if isinstance(returns, dict):
        schema = cast("dict[str, Any]", json.loads(codec.encode(cast(Any, returns), path="returns")))
        if (wrong := find_problem(schema)) is not None:
            raise InvalidValue("returns", f"is not a valid JSON Schema: {wrong}")
        return schema
    codec.check_type("returns", returns)
    return codec.value_schema(returns)


def _hint(value: Any) -> str:
    kind = _kind_in_text(value) if isinstance(value, str) else None
    return (
        ""
        if kind is None
        else f" (a text that is JSON of {kind}: pass the value itself, not json.dumps of it)"
    )


def _kind_in_text(text: str) -> str | None:
    """Name the type that a text is JSON of; None if it is only a text."""
    begin = text.lstrip(" \t\r\n")[:1]
    if not begin or begin not in '{["tfn-0123456789' or len(text) > codec.MAX_BYTES:
        return None
    try:
        value: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return next((name for kind, name in _KINDS if isinstance(value, kind)), None)


def _refuse(name: str) -> None:
    raise ValueError(name)


_KINDS: Final = (
    (bool, "a boolean"),
    (type(None), "null"),
    (dict, "an object"),
    (list, "a list"),
    (int | float, "a number"),
    (str, "a text in quotes"),
)
