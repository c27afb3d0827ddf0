"""HTML fields: the form of a question on a page without scripts, with one field for each value.

A JSON Schema is shown flat as far as possible: scalars, choices, lists of scalars, and objects within an object.
Everything else, and text that a page cannot show unchanged, is entered as JSON.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from signoff.people.questions.question import Question
from signoff.people.schemas.value_descriptions import is_decimal, kinds_in_words, sample_of, type_in_words

Schema = Mapping[str, Any]
Kind = Literal["line", "long", "integer", "number", "decimal", "one", "some", "lines", "json"]

MISSING: Final[Any] = object()
"""No value, as distinct from null."""

APPROVE, EDIT, REJECT = "approve", "edit", "reject"
"""The decisions."""

LONG_TEXT: Final = 80
"""Texts of this length or more get a multi-line field."""

MOST_REFERENCES: Final = 20
"""How many references in a row are followed."""

LONGEST_EXAMPLE: Final = 300
"""Maximum length of a JSON example in characters."""

_COMPOSED: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "if", "not", "patternProperties", "$dynamicRef", "dependentSchemas"}
)
_ABOUT: Final = frozenset({"$id", "$schema", "$comment", "title", "description"})
"""Keywords of a schema that allows any value."""
_NATIVE: Final[Mapping[str, tuple[str, str]]] = {
    "date": ("date", r"\d{4}-\d\d-\d\d"),
    "email": ("email", r"\S+"),
    "uri": ("url", r"[!-~]+"),
}
"""Formats with a native browser input, and the pattern of values that this input leaves unchanged."""
_HINTS: Final[Mapping[str, str]] = {
    "date": "Such as 2026-11-30.",
    "date-time": "Such as 2026-11-30T16:00+01:00.",
    "time": "Such as 16:00.",
    "uuid": "Such as 123e4567-e89b-12d3-a456-426614174000.",
}


_TRIMMED: Final = frozenset({*_HINTS, "duration", "email", "uri"})
"""Formats that spaces before or after are not part of; phone keyboards add them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the options of a field."""

    value: Any
    label: str
    help: str | None = None


@dataclass(frozen=True, slots=True)
class HtmlField:
    """A field for one value.

    Attributes:
        name: Its name in the submitted form.
        path: The path of its value in the answer, as used in error messages.
        kind: How it is shown and read.
        label: Its label.
        help: A description.
        hint: The expected notation.
        is_required: Whether the value is required.
        is_nullable: Whether it may be null.
        choices: The options.
        other: The label of the free-text option, if free text is allowed.
        items: The kind of a list's lines.
        initial: The initial value.
        input_type: The HTML input type of a line.
        has_format: Whether its text has a format in which surrounding spaces have no meaning.
        falls_back: Whether its type has a default that would replace an empty value.
    """

    name: str
    path: tuple[str, ...]
    kind: Kind
    label: str
    help: str | None = None
    hint: str | None = None
    is_required: bool = True
    is_nullable: bool = False
    choices: tuple[Choice, ...] = ()
    other: str | None = None
    items: Kind = "line"
    initial: Any = MISSING
    input_type: str = "text"
    has_format: bool = False
    falls_back: bool = False

    @property
    def may_be_empty(self) -> bool:
        """Whether it may be left empty. A cleared value must not be replaced by its type's default."""
        return self.is_nullable or not (self.is_required or (self.falls_back and self.initial is not MISSING))


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Fields of one object.

    Attributes:
        path: Path of the object in the value; empty: it is the value itself.
        legend: Its heading, if it is a nested object.
        fields: The fields in order.
        is_required: Whether the object is required.
        is_nullable: Whether it may be null.
        is_whole: Whether the only field's value is the answer itself, not a part of it.
    """

    path: tuple[str, ...]
    legend: str | None
    fields: tuple[HtmlField, ...]
    is_required: bool = True
    is_nullable: bool = False
    is_whole: bool = False


def html_fields_of(question: Question) -> tuple[FieldGroup, ...]:
    """Return the fields of a question; for an approval, those that edit its proposal."""
    default = MISSING if question.default is None else question.default
    match question.input_type:
        case "approval":
            if question.proposal is None:
                return ()
            return _FieldMaker(question.proposal_schema, ("edited",)).groups(question.proposal)
        case "text":
            kind: Kind = "long" if is_plain(default) else "json"
            hint = None if kind == "long" else _why_json(default)
            return (_whole(HtmlField("f0", (), kind, "Your answer", hint=hint, initial=default)),)
        case "select" | "multiselect":
            choices = tuple(
                Choice(each["value"], each.get("label", each["value"]), each.get("help"))
                for each in question.options
            )
            kind = "one" if question.input_type == "select" else "some"
            if not _can_begin(default):
                default = MISSING
            html_field = HtmlField(
                "f0", (), kind, "Your answer", choices=choices, other=question.other, initial=default
            )
            return (_whole(html_field),)
        case "form" | "external":
            return _FieldMaker(question.answer_schema, ()).groups(default)


def decision_field(question: Question, *, can_edit: bool) -> HtmlField:
    """Return the field for an approval's decision. Nothing is chosen at first."""
    choices = [Choice(APPROVE, "Approve"), Choice(REJECT, "Reject")]
    if question.proposal is not None and can_edit:
        choices[:1] = [Choice(APPROVE, "Approve as proposed"), Choice(EDIT, "Approve with my changes")]
    return HtmlField("decision", ("approved",), "one", "Your decision", choices=tuple(choices))


def note_field() -> HtmlField:
    """Return the field for a note. Its path cannot be a field of the answer, so errors are not mixed up."""
    return HtmlField("note", ("signoff:note",), "long", "Note", is_required=False)


def is_plain(value: Any) -> bool:
    """Whether a page returns a text unchanged: without invisible characters or changes of direction."""
    if not isinstance(value, str):
        return True
    text = value.replace("\r\n", "\n")
    return visible(text) == text


def visible(text: str) -> str:
    """Show invisible characters and changes of the writing direction as escapes such as ``\\u202e``."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")  # line ends of Windows and of mails
    return "".join(letter if _is_seen(letter) else ascii(letter)[1:-1] for letter in text)


def visible_json(value: Any, indent: int | None = 2) -> str:
    """Write JSON with all characters visible. It is read back as the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(letter if _is_seen(letter) else json.dumps(letter)[1:-1] for letter in text)


def _can_begin(default: Any) -> bool:
    """Whether the free texts in a default can be shown unchanged, one per line."""
    chosen = cast("list[Any]", default) if isinstance(default, list) else [default]
    own = [cast("Schema", each)["other"] for each in chosen if isinstance(each, dict)]
    return all("\n" not in text and is_plain(text) for text in own)


def _is_seen(letter: str) -> bool:
    return letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _whole(html_field: HtmlField) -> FieldGroup:
    return FieldGroup((), None, (html_field,), is_whole=True)


class _FieldMaker:
    """Makes the fields of a schema.

    Args:
        root: The schema. References are resolved in it.
        prefix: Path of its value in the answer.
    """

    def __init__(self, root: Schema, prefix: tuple[str, ...]) -> None:
        self._root = root
        self._prefix = prefix
        self._made = 0

    def groups(self, initial: Any) -> tuple[FieldGroup, ...]:
        """Return the fields with their initial values."""
        schema, _ = self._resolved(self._root)
        if isinstance(initial, dict) and not schema.get("properties"):
            schema = cast("Schema", {"type": "object", "properties": {}})
        if not self._is_flat(schema):
            html_field = self._field((), self._root, initial, label="Your answer", is_required=True)
            return (_whole(html_field),)
        top: list[HtmlField] = []
        nested: list[FieldGroup] = []
        for name, field, value, is_required in self._fields(schema, initial):
            inner, is_nullable = self._resolved(field)
            is_absent = value is MISSING or value is None
            if self._is_flat(inner) and inner["properties"] and (is_absent or isinstance(value, dict)):
                if is_absent and (is_nullable or not is_required):
                    value = {}  # no defaults: an untouched optional object must stay absent
                group = self._nested(name, inner, value, is_required, is_nullable)
                nested.append(group)
            else:
                top.append(self._field((name,), field, value, label=name, is_required=is_required))
        first = (FieldGroup((), None, tuple(top)),) if top else ()
        return (*first, *nested)

    def _nested(
        self, name: str, schema: Schema, initial: Any, is_required: bool, is_nullable: bool
    ) -> FieldGroup:
        html_fields = tuple(
            self._field((name, inner), field, value, label=inner, is_required=needed)
            for inner, field, value, needed in self._fields(schema, initial)
        )
        legend = schema.get("title")
        return FieldGroup(
            (name,), legend if isinstance(legend, str) else name, html_fields, is_required, is_nullable
        )

    def _fields(self, schema: Schema, initial: Any) -> list[tuple[str, Schema, Any, bool]]:
        """Return name, schema, initial value and need of each field, including fields that only the value has."""
        properties: Schema = schema["properties"]
        required = schema.get("required", [])
        known: Schema = cast("Schema", initial) if isinstance(initial, dict) else {}
        fields: list[tuple[str, Schema, Any, bool]] = []
        for name in dict.fromkeys((*properties, *known)):
            field = _schema(properties.get(name)) or {}
            begins: Any = known.get(name, MISSING)
            if begins is MISSING and not isinstance(initial, dict):
                begins = field.get("default", MISSING)
            fields.append((name, field, begins, name in required or name not in properties))
        return fields

    def _is_flat(self, schema: Schema) -> bool:
        """Whether the schema describes an object by its properties alone."""
        is_object = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
        return is_object and _COMPOSED.isdisjoint(schema)

    def _field(
        self, path: tuple[str, ...], field: Schema, initial: Any, *, label: str, is_required: bool
    ) -> HtmlField:
        schema, is_nullable = self._resolved(field)
        if _ABOUT.issuperset(schema) and (described := _type_of(initial)) is not None:
            schema = cast("Schema", {"type": described})
        name = f"f{self._made}"
        self._made += 1
        title, said = schema.get("title", field.get("title")), schema.get("description")
        choices = _choices(schema)
        kind: Kind = "one" if choices else self._kind(schema, initial)
        items: Kind = "line"
        if kind == "lines":
            item, _ = self._resolved(schema["items"])
            choices = _choices(item)
            kind = "some" if choices else "lines"
            items = "line" if choices else self._kind(item, MISSING)
        if not _fits(kind, items, choices, initial):
            kind, choices = "json", ()
        native, harmless = _NATIVE.get(str(schema.get("format")), ("text", ""))
        is_native = initial is MISSING or re.fullmatch(harmless, str(initial)) is not None
        return HtmlField(
            name=name,
            path=(*self._prefix, *path),
            kind=kind,
            label=title if isinstance(title, str) and title else label,
            help=said if isinstance(said, str) else None,
            hint=self._why_json(schema, initial) if kind == "json" else _hint(kind, schema),
            is_required=is_required,
            is_nullable=is_nullable,
            choices=choices,
            items=items,
            initial=initial,
            input_type=native if kind == "line" and is_native else "text",
            has_format=schema.get("format") in _TRIMMED,
            falls_back=not _begins_empty(field.get("default", schema.get("default"))),
        )

    def _why_json(self, schema: Schema, initial: Any) -> str:
        """Describe the expected JSON in words, with an example."""

        def resolve(each: Schema) -> Schema:
            return self._resolved(dict(each))[0]

        words, said = kinds_in_words(schema, resolve), _why_json(initial, schema)
        if not isinstance(initial, str) and _begins_empty(initial):
            example = visible_json(sample_of(schema, resolve), indent=None)
            if example != "null" and len(example) <= LONGEST_EXAMPLE:
                said = f"{said} Example: {example}"
        return said if words is None else f"{words} {said}"

    def _kind(self, schema: Schema, initial: Any) -> Kind:
        branches = schema.get("anyOf")
        if isinstance(branches, list) and is_decimal(
            [_schema(each) or {} for each in cast("list[Any]", branches)]
        ):
            return "decimal"
        if not _COMPOSED.isdisjoint(schema):
            return "json"
        match schema.get("type"):
            case "string":
                size = schema.get("maxLength")
                is_short = "format" in schema or (isinstance(size, int) and size <= LONG_TEXT)
                is_long = isinstance(initial, str) and (len(initial) > LONG_TEXT or "\n" in initial)
                return "long" if is_long or not (is_short or isinstance(initial, str)) else "line"
            case "integer":
                return "integer"
            case "number":
                return "number"
            case "array":
                return "lines" if self._has_scalars(schema) else "json"
            case _:
                return "json"

    def _has_scalars(self, schema: Schema) -> bool:
        item: Any = schema.get("items")
        if not isinstance(item, dict) or "prefixItems" in schema:
            return False
        resolved, is_nullable = self._resolved(cast("Schema", item))
        if is_nullable or resolved.get("type") == "array":  # also a recursive one
            return False
        return bool(_choices(resolved)) or self._kind(resolved, MISSING) in (
            "line",
            "long",
            "integer",
            "number",
            "decimal",
        )

    def _resolved(self, schema: Schema) -> tuple[Schema, bool]:
        """Return a schema with references resolved and null removed, and whether it allowed null."""
        is_nullable = False
        for _ in range(MOST_REFERENCES):
            reference = schema.get("$ref")
            branches: Any = schema.get("anyOf", schema.get("oneOf"))
            rest = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "oneOf")}
            if isinstance(reference, str):
                found = self._found(reference)
                if found is None:
                    return schema, is_nullable
                schema = {**found, **rest}
            elif isinstance(branches, list) and _has_null(cast("list[Any]", branches)):
                others = [branch for branch in cast("list[Any]", branches) if branch != {"type": "null"}]
                is_nullable = True
                if len(others) != 1 or not isinstance(others[0], dict):
                    return {**rest, "anyOf": others}, True
                schema = {**cast("Schema", others[0]), **rest}
            elif isinstance(schema.get("type"), list) and "null" in schema["type"]:
                others = [each for each in schema["type"] if each != "null"]
                is_nullable = True
                schema = {**schema, "type": others[0] if len(others) == 1 else others}
            else:
                break
        return schema, is_nullable

    def _found(self, reference: str) -> Schema | None:
        """Resolve a reference within the root; None if it points elsewhere."""
        if not reference.startswith("#"):
            return None
        found: Any = self._root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                return None
            found = cast("dict[str, Any]", found)[key]
        return cast("Schema", found) if isinstance(found, dict) else None


def _choices(schema: Schema) -> tuple[Choice, ...]:
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    if schema.get("type") == "boolean" and values is None:
        return (Choice(True, "Yes"), Choice(False, "No"))
    if not isinstance(values, list):
        return ()
    return tuple(Choice(value, _written(value)) for value in cast("list[Any]", values))


def _written(value: Any) -> str:
    return value if isinstance(value, str) and value else visible_json(value)


def _has_null(branches: Sequence[Any]) -> bool:
    return {"type": "null"} in branches


def _schema(found: Any) -> Schema | None:
    """Return a value as a schema; None if it is not an object."""
    return cast("Schema", found) if isinstance(found, dict) else None


def _type_of(value: Any) -> str | None:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return None


def _fits(kind: Kind, items: Kind, choices: Sequence[Choice], initial: Any) -> bool:
    """Whether a field can show the initial value and return it unchanged."""
    if initial is MISSING or initial is None:
        return True
    match kind:
        case "line" | "long":
            return isinstance(initial, str) and is_plain(initial)
        case "decimal":
            return isinstance(initial, str | int | float) and is_plain(initial)
        case "integer" | "number":
            return isinstance(initial, int | float) and not isinstance(initial, bool)
        case "one":
            return any(same(choice.value, initial) for choice in choices)
        case "some":
            values = cast("list[Any]", initial) if isinstance(initial, list) else [MISSING]
            return all(any(same(choice.value, value) for choice in choices) for value in values)
        case "lines":
            return isinstance(initial, list) and all(
                _is_line(items, each) for each in cast("list[Any]", initial)
            )
        case "json":
            return True


def _is_line(items: Kind, value: Any) -> bool:
    if items in ("line", "long"):
        return isinstance(value, str) and bool(value.strip()) and "\n" not in value and is_plain(value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type: ``true`` is not ``1``."""
    return type(one) is type(other) and one == other


def _begins_empty(initial: Any) -> bool:
    return initial is MISSING or initial in (None, [], {})


def _why_json(initial: Any, schema: Schema | None = None) -> str:
    if isinstance(initial, str):
        return "It has invisible characters, so it is entered as JSON, in quotes, with escapes for them."
    if (
        schema is not None
        and schema.get("type") not in ("object", "array")
        and "text" in type_in_words(schema)
    ):
        return (
            "It may be of several types, so it is entered as JSON: text in quotes, everything else without."
        )
    return "It is too complex for separate fields, so it is entered as JSON."


def _hint(kind: Kind, schema: Schema) -> str | None:
    match kind:
        case "lines":
            return "One on each line."
        case "integer":
            return "A whole number."
        case "number" | "decimal":
            return "A number, such as 12.5."
        case _:
            return _HINTS.get(str(schema.get("format")))
