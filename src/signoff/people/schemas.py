"""Checking values and schemas with jsonschema, which takes a fifth of Signoff's import time and so comes late."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema import ValidationError


def schema_problem(schema: dict[str, Any]) -> str | None:
    """Say what is wrong with a JSON Schema, or None."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return error.message
    return None


def problems(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """Say what is wrong with a value: ``(field, message)`` each, the field ``""`` for the whole."""
    from jsonschema import Draft202012Validator

    errors: Iterable[ValidationError] = Draft202012Validator(schema).iter_errors(value)  # pyright: ignore[reportUnknownMemberType]
    return [(_field(error), error.message) for error in errors]


def _field(error: ValidationError) -> str:
    """Name the field that is wrong: the missing one, where one is missing."""
    path = [str(part) for part in error.absolute_path]
    if error.validator == "required":
        required = cast(list[str], error.validator_value)
        path += [name for name in required if error.message.startswith(f"{name!r} ")]
    return ".".join(path)
