"""JSON Schemas without the defaults and examples of what is hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from signoff.redaction.hidden_values import Hidden
from signoff.redaction.paths import Place

_EXAMPLES: Final = ("default", "examples")

_SAID: Final = frozenset(
    {"title", "description", "default", "examples", "const", "enum", "$comment", "pattern"}
)
"""Keywords that say something of values. The others say what a form has."""


def without_examples(schema: Any, place: Place | None, hidden: Hidden) -> Any:
    """Return the schema of something at a place without what its defaults and examples say of what is hidden.

    Args:
        schema: A JSON Schema.
        place: Where what it describes is; None: anywhere, as what is defined once, so that it keeps none of these.
        hidden: Notes what was left out.
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
    """Return the schema of an answer without what is hidden elsewhere.

    Args:
        schema: A JSON Schema.
        hidden: What is hidden.
        choices: How values are shown that can be chosen.
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
        elif keyword in _SAID:
            made[keyword] = _chosen(part, hidden, choices)
        else:
            made[keyword] = without_secrets(part, hidden, choices)
    return cast("Any", schema) if made == schema else made


def _chosen(said: Any, hidden: Hidden, choices: Mapping[str, str]) -> Any:
    if isinstance(said, str) and said in choices:
        return choices[said]
    if isinstance(said, list):
        return [_chosen(each, hidden, choices) for each in cast("list[Any]", said)]
    return hidden.masked_in(said)
