"""The controls of a page on which a question is answered without a script: one for each value that is asked for.

What a JSON Schema describes is shown flat as far as a page can: scalars, choices, lists of scalars, and objects within
an object. Anything beyond, and text that a page cannot show as it is, is written as JSON.
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
"""Where there is no value, which is another thing than null."""

APPROVE, EDIT, REJECT = "approve", "edit", "reject"
"""The decisions."""

LONG_TEXT: Final = 80
"""From so many characters on a text gets more than a line."""

MOST_REFERENCES: Final = 20
"""How many references in a row are followed."""

LONGEST_EXAMPLE: Final = 300
"""How long an example of JSON may be, in characters."""

_COMPOSED: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "if", "not", "patternProperties", "$dynamicRef", "dependentSchemas"}
)
_ABOUT: Final = frozenset({"$id", "$schema", "$comment", "title", "description"})
"""What a schema that describes nothing may have."""
_NATIVE: Final[Mapping[str, tuple[str, str]]] = {
    "date": ("date", r"\d{4}-\d\d-\d\d"),
    "email": ("email", r"\S+"),
    "uri": ("url", r"[!-~]+"),
}
"""Formats that browsers have an input for, and what such an input leaves as it is."""
_HINTS: Final[Mapping[str, str]] = {
    "date": "Such as 2026-11-30.",
    "date-time": "Such as 2026-11-30T16:00+01:00.",
    "time": "Such as 16:00.",
    "uuid": "Such as 123e4567-e89b-12d3-a456-426614174000.",
}


_TRIMMED: Final = frozenset({*_HINTS, "duration", "email", "uri"})
"""Formats of which a space before or after is no part: keyboards of phones add them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the values of a control."""

    value: Any
    label: str
    help: str | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """Where a person says one value.

    Attributes:
        name: By which the page sends it back.
        path: Where its value is in the answer, as problems name it.
        kind: How it is shown and read.
        label: What it is called.
        help: What else is said of it.
        hint: How it is written.
        is_required: Whether the value must be there.
        is_nullable: Whether it may be null.
        choices: What can be chosen.
        other: The label of a text of one's own, where one may be written instead.
        items: What the lines of a list are.
        initial: What it begins with.
        input_type: What kind of input a browser shows for a line.
        has_format: Whether its text is of a format, in which spaces around it mean nothing.
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
        """Whether nobody need say anything: what was shown and taken away is not what its default would put back."""
        return self.is_nullable or not (self.is_required or (self.falls_back and self.initial is not MISSING))


@dataclass(frozen=True, slots=True)
class Group:
    """Controls whose values are fields of one object.

    Attributes:
        path: Where the object is in what the controls make; empty: it is that itself.
        legend: What it is called, if it is a part of something.
        controls: In this order.
        is_required: Whether the object must be there.
        is_nullable: Whether it may be null.
        is_whole: Whether the only control's value is the answer itself, and no field of it.
    """

    path: tuple[str, ...]
    legend: str | None
    controls: tuple[Control, ...]
    is_required: bool = True
    is_nullable: bool = False
    is_whole: bool = False


def controls_of(question: Question) -> tuple[Group, ...]:
    """Return what a question is answered by; for an approval, what its proposal is edited by."""
    default = MISSING if question.default is None else question.default
    match question.input_type:
        case "approval":
            if question.proposal is None:
                return ()
            return _Maker(question.proposal_schema, ("edited",)).groups(question.proposal)
        case "text":
            kind: Kind = "long" if is_plain(default) else "json"
            hint = None if kind == "long" else _why_json(default)
            return (_whole(Control("f0", (), kind, "Your answer", hint=hint, initial=default)),)
        case "select" | "multiselect":
            choices = tuple(
                Choice(each["value"], each["label"], each.get("help")) for each in question.options
            )
            kind = "one" if question.input_type == "select" else "some"
            if not _can_begin(default):
                default = MISSING
            control = Control(
                "f0", (), kind, "Your answer", choices=choices, other=question.other, initial=default
            )
            return (_whole(control),)
        case "form" | "external":
            return _Maker(question.answer_schema, ()).groups(default)


def decision_of(question: Question, *, can_edit: bool) -> Control:
    """Return what an approval is decided by; nothing is chosen at first."""
    choices = [Choice(APPROVE, "Approve"), Choice(REJECT, "Reject")]
    if question.proposal is not None and can_edit:
        choices[:1] = [Choice(APPROVE, "Approve as it is proposed"), Choice(EDIT, "Approve with my changes")]
    return Control("decision", ("approved",), "one", "Your decision", choices=tuple(choices))


def note_of() -> Control:
    """Return where a person adds words. Its path is no field's name, so that nothing wrong with one is taken for it."""
    return Control("note", ("signoff:note",), "long", "Note", is_required=False)


def is_plain(value: Any) -> bool:
    """Whether a page gives a text back as it is: without characters that nobody sees or that turn others around."""
    if not isinstance(value, str):
        return True
    text = value.replace("\r\n", "\n")
    return visible(text) == text


def visible(text: str) -> str:
    """Show what nobody would see, or what turns the direction of writing, as an escape such as ``\\u202e``."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")  # lines end so on Windows and in mails
    return "".join(letter if _is_seen(letter) else ascii(letter)[1:-1] for letter in text)


def visible_json(value: Any, indent: int | None = 2) -> str:
    """Write JSON for people, in which everything is seen. It is read back as the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(letter if _is_seen(letter) else json.dumps(letter)[1:-1] for letter in text)


def _can_begin(default: Any) -> bool:
    """Whether texts of one's own, which an answer begins with, are shown as they are, and one on a line."""
    chosen = cast("list[Any]", default) if isinstance(default, list) else [default]
    own = [cast("Schema", each)["other"] for each in chosen if isinstance(each, dict)]
    return all("\n" not in text and is_plain(text) for text in own)


def _is_seen(letter: str) -> bool:
    return letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _whole(control: Control) -> Group:
    return Group((), None, (control,), is_whole=True)


class _Maker:
    """Makes the controls of a schema.

    Args:
        root: The schema; references in it stay in it.
        prefix: Where its value is in the answer.
    """

    def __init__(self, root: Schema, prefix: tuple[str, ...]) -> None:
        self._root = root
        self._prefix = prefix
        self._made = 0

    def groups(self, initial: Any) -> tuple[Group, ...]:
        """Return the controls, which begin with a value."""
        schema, _ = self._resolved(self._root)
        if isinstance(initial, dict) and not schema.get("properties"):
            schema = cast("Schema", {"type": "object", "properties": {}})
        if not self._is_flat(schema):
            control = self._control((), self._root, initial, label="Your answer", is_required=True)
            return (_whole(control),)
        top: list[Control] = []
        nested: list[Group] = []
        for name, field, value, is_required in self._fields(schema, initial):
            inner, is_nullable = self._resolved(field)
            is_absent = value is MISSING or value is None
            if self._is_flat(inner) and inner["properties"] and (is_absent or isinstance(value, dict)):
                if is_absent and (is_nullable or not is_required):
                    value = {}  # nothing in it is begun with, so that nobody says something by saying nothing
                group = self._nested(name, inner, value, is_required, is_nullable)
                nested.append(group)
            else:
                top.append(self._control((name,), field, value, label=name, is_required=is_required))
        first = (Group((), None, tuple(top)),) if top else ()
        return (*first, *nested)

    def _nested(self, name: str, schema: Schema, initial: Any, is_required: bool, is_nullable: bool) -> Group:
        controls = tuple(
            self._control((name, inner), field, value, label=inner, is_required=needed)
            for inner, field, value, needed in self._fields(schema, initial)
        )
        legend = schema.get("title")
        return Group((name,), legend if isinstance(legend, str) else name, controls, is_required, is_nullable)

    def _fields(self, schema: Schema, initial: Any) -> list[tuple[str, Schema, Any, bool]]:
        """Return the name, the schema, the initial value and the need of each field, also of those only a value has."""
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
        """Whether it describes an object by its fields alone."""
        is_object = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
        return is_object and _COMPOSED.isdisjoint(schema)

    def _control(
        self, path: tuple[str, ...], field: Schema, initial: Any, *, label: str, is_required: bool
    ) -> Control:
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
        return Control(
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
        """Say what to write: the kinds of a union and the parts of a list or an object in words, and an example."""

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
        if is_nullable or resolved.get("type") == "array":  # also of itself
            return False
        return bool(_choices(resolved)) or self._kind(resolved, MISSING) in (
            "line",
            "long",
            "integer",
            "number",
            "decimal",
        )

    def _resolved(self, schema: Schema) -> tuple[Schema, bool]:
        """Return a schema with its references followed and without null, and whether null fits it."""
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
        """Follow a reference into the root; None if it is of another kind."""
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
    """Return what stands where a schema should; None if it is none, or only ``true`` or ``false``."""
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
    """Whether a control of a kind can show what it begins with, and give it back."""
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
    """Whether two values are the same in JSON, where ``true`` is not ``1``."""
    return type(one) is type(other) and one == other


def _begins_empty(initial: Any) -> bool:
    return initial is MISSING or initial in (None, [], {})


def _why_json(initial: Any, schema: Schema | None = None) -> str:
    if isinstance(initial, str):
        return "It has characters that are not seen, so it is written as JSON, in quotes, with escapes for these."
    if (
        schema is not None
        and schema.get("type") not in ("object", "array")
        and "text" in type_in_words(schema)
    ):
        return (
            "It may be of several types, so it is written as JSON: a text in quotes, anything else without."
        )
    return "It has more parts than this page has fields for, so it is written as JSON."


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
