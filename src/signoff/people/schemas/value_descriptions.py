"""Descriptions of values entered as JSON: the kinds of a union, and the parts of lists and objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]

_MOST: Final = 20
_LONGEST: Final = 1_000
_MOST_LEVELS: Final = 4
"""Maximum nesting of an example."""


@dataclass(frozen=True, slots=True)
class KindOfForm:
    """One kind of a union.

    Attributes:
        tag: The field that distinguishes the kinds.
        value: The field's value for this kind.
        schema: The schema of the kind.
    """

    tag: str
    value: Any
    schema: Schema


def kinds_of(schema: Schema, resolve: Resolve) -> list[KindOfForm]:
    """Return the kinds of a union of objects with a distinguishing field; empty if it is not such a union.

    Args:
        schema: The union.
        resolve: Resolves a reference.
    """
    objects = _objects(schema, resolve)
    tag = _tag(schema, objects)
    if tag is None:
        return []
    return [KindOfForm(tag, value, each) for each in objects for value in _value(each, tag)]


def kinds_in_words(schema: Schema, resolve: Resolve) -> str | None:
    """Describe the parts of a value entered as JSON; None if the schema does not define them.

    Lists the kinds of a union, also for items of a list and values of an object.

    Example::

        'One of: kind "card" with number (text); kind "cash" with cents (whole number, optional).'
    """
    said = _parts(schema, resolve)
    return None if said is None else said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def sample_of(schema: Schema, resolve: Resolve) -> Any:
    """Return an example value of a schema."""
    return _sample(schema, resolve, _MOST_LEVELS)


def _parts(schema: Schema, resolve: Resolve) -> str | None:
    schema = resolve(schema)
    if (union := _union(schema, resolve)) is not None:
        return f"One of: {union}."
    inner = schema.get("items") if schema.get("type") == "array" else schema.get("additionalProperties")
    if isinstance(inner, Mapping) and inner:
        whole = "A list" if schema.get("type") == "array" else "Values by name"
        said = _each(resolve(cast("Schema", inner)), resolve)
        return None if said is None else f"{whole}. Each is {said}."
    if isinstance(schema.get("properties"), Mapping) and schema["properties"]:
        return f"An object with {', '.join(_fields(schema, resolve))}."
    return None


def _each(schema: Schema, resolve: Resolve) -> str | None:
    """Describe an item of a list, or a value of an object."""
    if (union := _union(schema, resolve)) is not None:
        return f"one of: {union}"
    if isinstance(schema.get("properties"), Mapping) and schema["properties"]:
        return f"an object with {', '.join(_fields(schema, resolve))}"
    return None


def _union(schema: Schema, resolve: Resolve) -> str | None:
    """Describe the kinds of a union of objects, by their distinguishing field or else by their titles."""
    objects = _objects(schema, resolve)
    if kinds := kinds_of(schema, resolve):
        return "; ".join(_in_words(kind, resolve) for kind in kinds)
    if not objects:
        return None
    return "; ".join(_named(each, resolve) for each in objects)


def _objects(schema: Schema, resolve: Resolve, levels: int = 1) -> list[Schema]:
    """Return the branches of a union of objects, including nested unions; empty if it is not one."""
    branches = schema.get("oneOf", schema.get("anyOf"))
    if not isinstance(branches, list) or len(cast("list[Any]", branches)) > _MOST:
        return []
    listed = [cast("Schema", each) for each in cast("list[Any]", branches) if isinstance(each, Mapping)]
    objects = [each for each in (resolve(each) for each in listed) if each.get("type") != "null"]
    if levels:
        objects = [branch for each in objects for branch in (_objects(each, resolve, levels - 1) or [each])]
    if not 2 <= len(objects) <= _MOST:
        return []
    return objects if all(isinstance(each.get("properties"), Mapping) for each in objects) else []


def _tag(schema: Schema, objects: list[Schema]) -> str | None:
    """Return the field with distinct values in each kind; the declared one, if it qualifies."""
    if not objects:
        return None
    declared: Any = schema.get("discriminator")
    name = cast("Schema", declared).get("propertyName") if isinstance(declared, Mapping) else None
    names = [name] if isinstance(name, str) else []
    return next((each for each in (*names, *objects[0]["properties"]) if _tells_apart(each, objects)), None)


def _tells_apart(name: str, objects: list[Schema]) -> bool:
    values = [_value(each, name) for each in objects]
    written = [json.dumps(value) for each in values for value in each]
    return all(values) and len(written) == len(set(written))


def _value(branch: Schema, name: str) -> list[Any]:
    """Return the values that a kind allows for a field, if they are fixed."""
    field = branch["properties"].get(name)
    if not isinstance(field, Mapping):
        return []
    fixed = cast("Schema", field)
    return [fixed["const"]] if "const" in fixed else list(fixed.get("enum", ()))


def _in_words(kind: KindOfForm, resolve: Resolve) -> str:
    fields = _fields(kind.schema, resolve, but=kind.tag)
    what = f"{kind.tag} {json.dumps(kind.value, ensure_ascii=False)}"
    return f"{what} with {', '.join(fields)}" if fields else what


def _named(schema: Schema, resolve: Resolve) -> str:
    title, fields = schema.get("title"), _fields(schema, resolve)
    what = title if isinstance(title, str) and title else "an object"
    return f"{what} with {', '.join(fields)}" if fields else what


def _fields(schema: Schema, resolve: Resolve, but: str | None = None) -> list[str]:
    required = schema.get("required", ())
    return [
        f"{name} ({type_in_words(resolve(_schema(field)))}{'' if name in required else ', optional'})"
        for name, field in schema["properties"].items()
        if name != but
    ]


def _schema(found: Any) -> Schema:
    return cast("Schema", found) if isinstance(found, Mapping) else {}


def type_in_words(schema: Schema) -> str:
    """Return a type's name for people, such as ``"whole number"`` or ``"text or list"``."""
    if "enum" in schema:
        return " or ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    branches = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(branches, list):
        listed = [_schema(each) for each in cast("list[Any]", branches)]
        if is_decimal(listed):
            return "number"
        names = dict.fromkeys(type_in_words(each) for each in listed)
        return " or ".join(name for name in names if name != "nothing")
    return _NAMES.get(str(schema.get("format")), _NAMES.get(str(schema.get("type")), "JSON"))


def is_decimal(branches: Sequence[Schema]) -> bool:
    """Whether the alternatives are a number and a text of a number: pydantic's schema of a Decimal."""
    types = sorted(str(each.get("type")) for each in branches)
    return types == ["number", "string"] and any(each.get("format") == "decimal" for each in branches)


def _sample(schema: Schema, resolve: Resolve, levels: int) -> Any:
    if levels < 0:
        return None
    schema = resolve(schema)
    for fixed in ("const", "default"):
        if schema.get(fixed) not in (None, [], {}, ""):
            return schema[fixed]
    if schema.get("enum"):
        return schema["enum"][0]
    branches: Any = schema.get("oneOf", schema.get("anyOf"))
    if isinstance(branches, list) and branches:
        listed = [_schema(each) for each in cast("list[Any]", branches)]
        return "12.50" if is_decimal(listed) else _sample(listed[0], resolve, levels - 1)
    properties, required = schema.get("properties"), schema.get("required", ())
    match schema.get("type"):
        case "object" if isinstance(properties, Mapping):
            named = cast("Schema", properties)
            return {
                name: _sample(_schema(field), resolve, levels - 1)
                for name, field in named.items()
                if name in required or "const" in _schema(field)
            }
        case "object":
            inner = schema.get("additionalProperties")
            return (
                {"name": _sample(cast("Schema", inner), resolve, levels - 1)}
                if isinstance(inner, Mapping)
                else {}
            )
        case "array":
            first: Any = schema.get("prefixItems")
            items = cast("list[Any]", first) if isinstance(first, list) else [schema.get("items")]
            return [
                _sample(_schema(each), resolve, levels - 1) for each in items if isinstance(each, Mapping)
            ]
        case kind:
            return _SAMPLES.get(str(schema.get("format")), _SAMPLES.get(str(kind)))


_NAMES: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "array": "list",
    "object": "object",
    "null": "nothing",
    "date": "date",
    "date-time": "date and time",
}

_SAMPLES: Final[Mapping[str, Any]] = {
    "string": "text",
    "integer": 1,
    "number": 12.5,
    "boolean": True,
    "date": "2026-11-30",
    "date-time": "2026-11-30T16:00+01:00",
    "time": "16:00",
    "duration": "PT1H",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "email": "ana@example.com",
    "uri": "https://example.com",
}
