"""Answers that exceed the limits of schemas and values, and are costly to check."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def doubling(levels: int, keyword: str) -> Schema:
    """Each part has two branches, which are both the next part."""
    parts: Schema = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**parts, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def fractions(options: int, answers: int) -> tuple[Schema, Any]:
    """A list of numbers, each of which is compared with all options: about a microsecond for each."""
    return {"items": {"enum": [n + 0.5 for n in range(options)]}}, [options - 0.5] * answers


COSTLY: dict[str, tuple[Schema, Any]] = {
    "fractions": fractions(1_000, 9_000),
    "small fractions": ({"items": {"enum": [n * 1e-300 for n in range(1, 80)]}}, [1e-300] * 40_000),
    "fractions and integers": ({"items": {"enum": list(range(2_000))}}, [0.5] * 20_000),
    "long integers and short ones": ({"items": {"enum": list(range(1_000))}}, [10**4000] * 250),
    "bounds of long integers": ({"items": {"allOf": [{"minimum": 1}] * 50}}, [10**4000] * 250),
    "multiples of long integers": ({"items": {"allOf": [{"multipleOf": 0.5}] * 30}}, [10**4000] * 250),
    "different long integers": ({"uniqueItems": True}, [2**64 + n for n in range(20_000)]),
    "different lists of them": ({"uniqueItems": True}, [[2**64 + n] for n in range(10_000)]),
    "a long constant": ({"items": {"const": [0.5] * 1_000}}, [[0.5] * 999] * 250),
    "all branches": (doubling(14, "allOf"), 1),
    "any branch": (doubling(14, "anyOf"), 1),
    "bounds": ({"items": {"allOf": [{"minimum": 0}] * 500}}, list(range(30_000))),
    "dependent names": (
        {"items": {"dependentRequired": {f"{n}": ["x"] for n in range(50_000)}}},
        [{}] * 250_000,
    ),
}
