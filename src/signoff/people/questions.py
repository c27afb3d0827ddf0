"""A question: its text, the form of its answer as a JSON Schema, and a digest of what is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast, get_args

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from signoff import codec
from signoff.errors import RegistrationError
from signoff.people.schemas import schema_problem

InputType = Literal["approval", "text", "select", "multiselect", "form"]
_INPUT_TYPES = get_args(InputType)


@dataclass(frozen=True)
class Question:
    """What a person is asked.

    Attributes:
        text: What they read.
        input_type: Which kind of form they fill in.
        answer_schema: The JSON Schema that the answer's value must fit.
        options: ``{"value": ..., "label": ...}`` of what can be selected.
        metadata: What else they are shown.
        skippable: Whether they may skip it.
    """

    text: str
    input_type: InputType
    answer_schema: dict[str, Any]
    options: Sequence[dict[str, Any]] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    skippable: bool = False

    @classmethod
    def make(
        cls,
        text: str,
        *,
        input_type: InputType = "approval",
        options: Sequence[str | dict[str, Any]] = (),
        answer_type: Any = None,
        metadata: dict[str, Any] | None = None,
        skippable: bool = False,
    ) -> Question:
        """Check and complete what a workflow asks.

        Raises:
            RegistrationError: The parts do not fit together.
            NotSerializable: The metadata is not JSON.
        """
        if not text.strip():
            raise RegistrationError("a question needs a text")
        if input_type not in _INPUT_TYPES:
            raise RegistrationError(f"input_type {input_type!r} is not one of {', '.join(_INPUT_TYPES)}")
        if bool(options) != (input_type in ("select", "multiselect")):
            raise RegistrationError(
                f"question {text!r}: options belong to select and multiselect, and they need some"
            )
        if (answer_type is not None) != (input_type == "form"):
            raise RegistrationError(
                f"question {text!r}: answer_type belongs to input_type='form', which needs one"
            )
        listed = [_option(text, option) for option in options]
        return cls(
            text=text,
            input_type=input_type,
            answer_schema=_answer_schema(text, input_type, listed, answer_type),
            options=listed,
            metadata=json.loads(codec.encode(metadata or {}, path="metadata")),
            skippable=skippable,
        )

    @classmethod
    def from_json(cls, text: str) -> Question:
        """Read a question as ``to_json`` wrote it."""
        parts = json.loads(text)
        del parts["digest"]
        return cls(**parts)

    def to_json(self) -> str:
        """Write the question, with its digest."""
        return f'{self._text[:-1]},"digest":"{self.digest}"}}'

    @cached_property
    def digest(self) -> str:
        """A hash of all that is asked and shown. An answer may say which digest it saw."""
        return codec.digest(self._text)

    @cached_property
    def _text(self) -> str:
        parts = {
            "text": self.text,
            "input_type": self.input_type,
            "answer_schema": self.answer_schema,
            "options": list(self.options),
            "metadata": self.metadata,
            "skippable": self.skippable,
        }
        return codec.encode(parts, path="question")


def _option(text: str, option: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(option, str):
        return {"value": option, "label": option}
    if not isinstance(option.get("value"), str):
        raise RegistrationError(
            f"question {text!r}: an option is a text or has a text 'value', not {option!r}"
        )
    return {"label": option["value"], **option}


def _answer_schema(
    text: str, input_type: InputType, options: Sequence[dict[str, Any]], answer_type: Any
) -> dict[str, Any]:
    values = [option["value"] for option in options]
    if len(set(values)) != len(values):
        raise RegistrationError(f"question {text!r}: two options have the same value")
    match input_type:
        case "approval":
            return {
                "type": "object",
                "properties": {"approved": {"type": "boolean"}},
                "required": ["approved"],
                "additionalProperties": False,
            }
        case "text":
            return {"type": "string", "minLength": 1}
        case "select":
            return {"enum": values}
        case "multiselect":
            return {"type": "array", "items": {"enum": values}, "uniqueItems": True}
        case "form":
            return form_schema(text, answer_type)


def form_schema(text: str, answer_type: Any) -> dict[str, Any]:
    """Return the JSON Schema of a form's answer type, or the schema itself if it is one."""
    if isinstance(answer_type, dict):
        schema = cast("dict[str, Any]", answer_type)
    else:
        try:
            schema = TypeAdapter(answer_type).json_schema()
        except PydanticUserError as error:
            raise RegistrationError(f"question {text!r}: answer_type has no JSON Schema: {error}") from None
    problem = schema_problem(schema)
    if problem is not None:
        raise RegistrationError(f"question {text!r}: answer_type is not a JSON Schema: {problem}")
    return schema
