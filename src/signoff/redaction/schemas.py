"""Redaction of JSON Schemas: their defaults, examples and texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from signoff.redaction.hidden_values import Hidden
from signoff.redaction.paths import Place

_EXAMPLES: Final = ("default", "examples")

_VALUE_KEYWORDS: Final = frozenset(
    {"title", "description", "default", "examples", "const", "enum", "$comment", "pattern"}
)
"""Keywords with values or texts. The others describe the structure."""


def without_examples(schema: Any, place: Place | None, hidden: Hidden) -> Any:
    """Return a schema without the defaults and examples of hidden values.

    Args:
        schema: A JSON Schema.
        place: The place of the described value; None: any place, as for a shared definition, which loses them all.
        hidden: Collects the hidden values.
    """
    if isinstance(schema, list):
        return [without_examples(each, place, hidden) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, part in cast("dict[str, Any]", schema).items():
        if keyword in _EXAMPLES:
            shown = hidden.note(part) if place is None else place.shown(part, hidden)
            if shown is part:
                made[keyword] = part
        elif keyword == "properties":
            made[keyword] = {
                name: without_examples(each, None if place is None else place.under(name), hidden)
                for name, each in part.items()
            }
        elif keyword == "$defs":
            made[keyword] = {name: without_examples(each, None, hidden) for name, each in part.items()}
        elif keyword in ("items", "prefixItems", "additionalProperties"):
            made[keyword] = without_examples(part, None, hidden)
        else:
            made[keyword] = without_examples(part, place, hidden)
    return made


def without_secrets(schema: Any, hidden: Hidden, choices: Mapping[str, str]) -> Any:
    """Return the schema of an answer without texts that are hidden elsewhere.

    Args:
        schema: A JSON Schema.
        hidden: The hidden texts.
        choices: The shown values of options, by the original ones.
    """
    if isinstance(schema, list):
        return [without_secrets(each, hidden, choices) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, part in cast("dict[str, Any]", schema).items():
        if keyword in ("properties", "$defs", "patternProperties") and isinstance(part, dict):
            named = cast("dict[str, Any]", part)
            made[keyword] = {name: without_secrets(each, hidden, choices) for name, each in named.items()}
        elif keyword in _VALUE_KEYWORDS:
            made[keyword] = _chosen(part, hidden, choices)
        else:
            made[keyword] = without_secrets(part, hidden, choices)
    return cast("Any", schema) if made == schema else made


def _chosen(value: Any, hidden: Hidden, choices: Mapping[str, str]) -> Any:
    if isinstance(value, str) and value in choices:
        return choices[value]
    if isinstance(value, list):
        return [_chosen(each, hidden, choices) for each in cast("list[Any]", value)]
    return hidden.masked_in(value)
