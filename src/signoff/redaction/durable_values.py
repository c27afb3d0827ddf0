"""Redaction of the durable promise protocol, whose parameters and values are JSON in base64: no path matches that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from signoff.redaction.hidden_values import Hidden
from signoff.wire.durable_values import QUESTION, WRAPPED, decoded, encoded

PICKLE: Final = "__py_pickle"
"""The member of an error in which the Python SDK keeps the exception, with all its attributes."""

Show = Callable[[Any], Any]
"""Redacts plain data by the paths."""


def shown_value(value: Any, show: Show, hidden: Hidden) -> Any:
    """Return a promise's value, redacted. A value of the protocol is decoded first, and encoded again."""
    if not isinstance(value, dict):
        return show(value)
    fields = cast("dict[str, Any]", value)
    if isinstance(wrapped := fields.get(WRAPPED), dict):
        return {**fields, WRAPPED: _shown_parts(cast("dict[str, Any]", wrapped), show, hidden)}
    if PICKLE in fields:
        return show({**fields, PICKLE: hidden.note(None)})
    return show(value)


def shown_protocol(
    known: Any,
    hidden: Hidden,
    show: Callable[[Any, Hidden], Any],
    show_question: Callable[[Any, Hidden], Any],
    show_arguments: Callable[[Any, Hidden, str | None], Any],
) -> Any:
    """Return the parameter and the tags of a promise, redacted.

    Args:
        known: What the data of a promise has under ``PROTOCOL``.
        hidden: The hidden texts.
        show: Redacts plain data.
        show_question: Redacts the terms of a question.
        show_arguments: Redacts the arguments of a call of a function.
    """
    if not isinstance(known, dict):
        return show(known, hidden)

    def show_call(param: Any) -> Any:
        call = cast("dict[str, Any]", param) if isinstance(param, dict) else {}
        function = call.get("func")
        if not isinstance(function, str):
            return show(param, hidden)
        if function == QUESTION and isinstance(call.get("args"), list):
            return {**call, "args": [show_question(each, hidden) for each in call["args"]]}
        shown: dict[str, Any] = show_arguments(call, hidden, function)
        return {name: each for name, each in shown.items() if name in call}

    shown = dict(cast("dict[str, Any]", known))
    if isinstance(param := shown.get("param"), dict):
        shown["param"] = _shown_parts(cast("dict[str, Any]", param), show_call, hidden)
    if isinstance(tags := shown.get("tags"), dict):
        tags = dict(cast("dict[str, Any]", tags))
        if QUESTION in tags:
            tags[QUESTION] = _shown_text(tags[QUESTION], lambda each: show_question(each, hidden), hidden)
        shown["tags"] = show(tags, hidden)
    return shown


def _shown_parts(parts: Mapping[str, Any], show: Show, hidden: Hidden) -> dict[str, Any]:
    """Return the headers and the data of a parameter or a value, redacted.

    Headers, and data of another encoding, are hidden: an SDK may repeat the value there in a form of its own.
    """
    shown = dict(parts)
    if headers := shown.get("headers"):
        shown["headers"] = {name: hidden.note(None) for name in cast("dict[str, Any]", headers)}
    if data := shown.get("data"):
        text = decoded(data) if isinstance(data, str) else None
        shown["data"] = hidden.note(None) if text is None else encoded(_shown_text(text, show, hidden))
    return shown


def _shown_text(text: str, show: Show, hidden: Hidden) -> str:
    plain = from_json(text)
    shown = hidden.masked_in(show(plain))
    return text if shown == plain else to_json(shown).decode()
