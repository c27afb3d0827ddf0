"""JSON Schemas without the defaults and examples of what is hidden."""

from __future__ import annotations

from typing import Any, Final, cast

from signoff.redaction.paths import Hidden, Place

_EXAMPLES: Final = ("default", "examples")


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
