"""Answers that exceed the limits of schemas and values, and are costly to check."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def doubling(levels: int, keyword: str) -> Schema:
    """Each part has two branches, which are both the next part."""
    parts: Schema = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**parts, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


FRACTIONS: tuple[Schema, Any] = ({"items": {"enum": [n + 0.5 for n in range(2_000)]}}, [1_999.5] * 9_000)
"""It costs more than its estimate: a minute and a half."""

COSTLY: dict[str, tuple[Schema, Any]] = {
    "fractions": FRACTIONS,
    "all branches": (doubling(14, "allOf"), 1),
    "any branch": (doubling(14, "anyOf"), 1),
    "bounds": ({"items": {"allOf": [{"minimum": 0}] * 500}}, list(range(30_000))),
    "dependent names": (
        {"items": {"dependentRequired": {f"{n}": ["x"] for n in range(50_000)}}},
        [{}] * 250_000,
    ),
}
