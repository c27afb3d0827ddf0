"""The JSON Schemas of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import (
    DataclassSchema,
    DatetimeSchema,
    DecimalSchema,
    ModelSchema,
    TaggedUnionSchema,
    TypedDictSchema,
)

from signoff import codec
from signoff.codec.annotations import readable
from signoff.errors import RegistrationError
from signoff.people.schemas.patterns import AWARE, decimal_pattern
from signoff.people.schemas.validation import schema_problem

Form = dict[str, Any]

_DECISION: Final[Form] = {"type": "boolean"}


def approval_form(proposed: Form | None = None) -> Form:
    """Return the schema of a decision; for a proposal with the schema of an edited value.

    Args:
        proposed: The schema of the proposal. It stands alone: its references are resolved within it.
    """
    form: Form = {
        "type": "object",
        "properties": {"approved": _DECISION},
        "required": ["approved"],
        "additionalProperties": False,
    }
    if proposed is not None:
        form["properties"] = {"approved": _DECISION, "edited": {"$id": "urn:signoff:proposal", **proposed}}
        form["if"] = {"properties": {"approved": {"const": False}}, "required": ["approved"]}
        form["then"] = {"properties": {"edited": False}}
    return form


def text_form(min_length: int | None, max_length: int | None) -> Form:
    """Return the schema of a text. An empty text is never an answer."""
    form: Form = {"type": "string", "minLength": max(1, min_length or 1)}
    return form if max_length is None else {**form, "maxLength": max_length}


def select_form(values: Sequence[str], *, with_other: bool) -> Form:
    """Return the schema of one of ``values``, or of ``{"other": text}`` where free text is allowed."""
    return _with_other(values) if with_other else {"enum": list(values)}


def multiselect_form(
    values: Sequence[str], *, with_other: bool, min_choices: int | None, max_choices: int | None
) -> Form:
    """Return the schema of a list of options."""
    items: Form = {"$ref": "#/$defs/choice"} if with_other else {"enum": list(values)}
    form: Form = {"type": "array", "items": items, "uniqueItems": True}
    if min_choices is not None:
        form["minItems"] = min_choices
    if max_choices is not None:
        form["maxItems"] = max_choices
    if with_other:
        choice = _with_other(values)
        form["$defs"] = {**choice.pop("$defs"), "choice": choice}
    return form


def _with_other(values: Sequence[str]) -> Form:
    """A plain string must be one of the values, so a misspelt option is not taken for free text."""
    option: Form = {"$ref": "#/$defs/option"}
    return {
        "if": {"type": "object"},
        "then": {
            "properties": {"other": {"type": "string", "minLength": 1, "not": option}},
            "required": ["other"],
            "additionalProperties": False,
        },
        "else": option,
        "$defs": {"option": {"enum": list(values)}},
    }


def form_of(text: str, what: str, annotation: Any, *, is_closed: bool = False) -> Form:
    """Return the JSON Schema of a type, or a given schema itself, checked.

    Args:
        text: The question's text, for error messages.
        what: Name of the type, for error messages.
        annotation: A type, or a JSON Schema.
        is_closed: Whether to refuse unknown fields. The type would drop them silently, unless its config says otherwise
            (``extra``).

    Raises:
        RegistrationError: The type has no schema, or the schema is invalid or refers to something outside of it.
        NotSerializable: The schema is not JSON.
    """
    if isinstance(annotation, dict):
        schema = json.loads(codec.encode(cast("object", annotation), path=what))
    else:
        try:
            generator = _Closed if is_closed else _Generator
            schema = TypeAdapter(readable(annotation)).json_schema(schema_generator=generator)
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise RegistrationError(f"question {text!r}: {what} has no JSON Schema: {error}") from None
        except RecursionError:
            raise RegistrationError(
                f"question {text!r}: {what} is nested too deep; make it flatter"
            ) from None
    problem = schema_problem(schema)
    if problem is not None:
        raise RegistrationError(f"question {text!r}: {what} is not a JSON Schema: {problem}")
    return schema


class _Generator(GenerateJsonSchema):
    """Adds the constraints that pydantic's schemas leave out, so that the type can read every accepted answer."""

    def decimal_schema(self, schema: DecimalSchema) -> JsonSchemaValue:
        written = super().decimal_schema(schema)
        places, digits = schema.get("decimal_places"), schema.get("max_digits")
        for branch in written.get("anyOf", ()):
            if branch.get("type") == "string":
                branch["format"] = "decimal"
                if places is not None:
                    before = None if digits is None else max(digits - places, 0)
                    branch["pattern"] = decimal_pattern(places, before)
        return written

    def datetime_schema(self, schema: DatetimeSchema) -> JsonSchemaValue:
        written = super().datetime_schema(schema)
        if schema.get("tz_constraint") == "aware":
            written["pattern"] = AWARE
        return written

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> JsonSchemaValue:
        written = super().tagged_union_schema(schema)
        tag = written.get("discriminator", {}).get("propertyName")
        if tag is not None and "oneOf" in written:  # required even if a kind has a default for it
            written.setdefault("required", [tag])
        return written


class _Closed(_Generator):
    """Refuses fields that a type does not have: a misspelt one would be lost."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        config = cast("dict[str, Any]", getattr(schema["cls"], "model_config", {}))
        return self._closed(super().model_schema(schema), config)

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        config = cast("dict[str, Any]", getattr(schema["cls"], "__pydantic_config__", {}))
        return self._closed(super().dataclass_schema(schema), config)

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        return self._closed(
            super().typed_dict_schema(schema), cast("dict[str, Any]", schema.get("config", {}))
        )

    def _closed(self, written: JsonSchemaValue, config: Mapping[str, Any]) -> JsonSchemaValue:
        if "extra" not in config and "properties" in written:
            written.setdefault("additionalProperties", False)
        return written
