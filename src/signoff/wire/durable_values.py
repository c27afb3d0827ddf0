"""Values of the durable promise protocol as the store keeps them.

A value is ``{"headers": {...}, "data": "..."}``. One that is JSON in base64, as the SDKs write it, is kept as that
JSON, so that workflows and people see the value itself. resonate-sdk 0.6.7 repeats the JSON in a header: then a space
follows the kept JSON, from which the header is restored. Any other value is kept as
``{"resonate:value": {"headers": ..., "data": ...}}``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, cast

from signoff.codec.strict_json import read_exactly, read_kept, read_object

PICKLED: Final = "resonate:format-py"
"""The header in which resonate-sdk 0.6.7 repeats a value as ``jsonpickle`` writes it: as its JSON, if it is plain."""

REPEATED: Final = " "
"""Follows the JSON of a value that the header repeats. Values of Signoff do not end so."""

WRAPPED: Final = "resonate:value"
"""The key of a value that is not JSON in base64."""

PROTOCOL: Final = "resonate"
"""The key of a promise's data that has its parameter, tags and timeout."""

QUESTION: Final = "signoff:question"
"""The tag of a promise that a person settles, and the function that asks a question."""

Value = Mapping[str, Any]
"""``{"headers": {...}, "data": "..."}``; both may be missing."""


_NONE: Final = {PICKLED: "null"}
"""The headers of None, which has no data."""


def to_text(value: Value) -> str | None:
    """Return the JSON that the store keeps for a value of the protocol. Empty headers and data are dropped."""
    headers, data = value.get("headers"), value.get("data")
    if not headers and not data:
        return None
    if headers == _NONE and not data:
        return "null" + REPEATED
    text = decoded(data or "")
    if text is not None and not headers:
        return text
    if text is not None and headers == {PICKLED: text} != _NONE:
        return text + REPEATED
    kept = {"headers": headers, "data": data}
    return json.dumps({WRAPPED: {name: part for name, part in kept.items() if part}})


def to_value(text: str | None) -> dict[str, Any]:
    """Return a value of the protocol from the JSON that the store keeps."""
    if text is None:
        return {}
    if text.startswith(f'{{"{WRAPPED}"'):
        return json.loads(text)[WRAPPED]
    if not text.endswith(REPEATED):
        return {"data": encoded(text)}
    text = text.removesuffix(REPEATED)
    headers = {PICKLED: text}
    return {"headers": headers} if headers == _NONE else {"headers": headers, "data": encoded(text)}


def unwrapped(value: Any) -> Value | None:
    """Return the headers and the data of a kept value that is not JSON in base64; None for any other value."""
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    inner = fields.get(WRAPPED)
    return cast("dict[str, Any]", inner) if len(fields) == 1 and isinstance(inner, dict) else None


def called_by(param: Value) -> dict[str, Any] | None:
    """Return the call of a promise: ``{"func": ..., "args": [...], "kwargs": {...}}``; None if it is no call."""
    call = read_object(decoded(param.get("data") or ""))
    args, named = call.get("args", []), call.get("kwargs", {})
    if isinstance(call.get("func"), str) and isinstance(args, list) and isinstance(named, dict):
        return call
    return None


def function_of(data: str | None) -> str | None:
    """Return the name of the function that a promise calls, from its data."""
    known = read_object(data).get(PROTOCOL)
    param = cast("dict[str, Any]", known).get("param") if isinstance(known, dict) else None
    call = called_by(cast("dict[str, Any]", param)) if isinstance(param, dict) else None
    return None if call is None else call["func"]


def encoded(text: str) -> str:
    """Return a text in base64."""
    return base64.b64encode(text.encode()).decode()


def decoded(data: str) -> str | None:
    """Return the JSON text that this is the base64 of, if encoding it gives the same again."""
    try:
        text = base64.b64decode(data, validate=True).decode()
        value = read_kept(text)
        if isinstance(value, dict | list):
            read_exactly(text)  # of two equal keys, another reader may take the other
    except (binascii.Error, ValueError, TypeError, RecursionError):  # stored data may be anything
        return None
    if encoded(text) != data or text.endswith(REPEATED) or (isinstance(value, dict) and WRAPPED in value):
        return None
    return text
