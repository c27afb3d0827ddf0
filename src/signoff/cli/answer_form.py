"""Prompts the user at the terminal for an answer, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import click

from signoff.cli.formatting import one_line
from signoff.cli.values import parse_json
from signoff.people.links.html_fields import MISSING, same
from signoff.people.questions.question import Question
from signoff.people.schemas.value_descriptions import (
    KindOfForm,
    is_decimal,
    kinds_in_words,
    kinds_of,
    sample_of,
    type_in_words,
)

Schema = Mapping[str, Any]

_SKIP = "empty to skip"


def ask(question: Question) -> Any:
    """Prompt for an answer to a question. The answer is not validated; None means to skip."""
    required, default = not question.skippable, question.default
    match question.input_type:
        case "approval":
            return _approval(question)
        case "text":
            return _line("Answer", required=required, default=default)
        case "select":
            return _option(question.options, required=required, default=default, other=question.other)
        case "multiselect":
            return _options(question.options, required=required, default=default, other=question.other)
        case "form" | "external":
            if question.skippable and not click.confirm(
                "Fill in the form? (no skips it)", default=True, err=True
            ):
                return None
            schema = question.answer_schema
            return _value(
                "Answer", schema, schema, required=True, default=MISSING if default is None else default
            )


def _approval(question: Question) -> Any:
    choices: dict[str, Any] = {"a": True, "e": ..., "r": False, "s": None}
    words = {"a": "[a]pprove", "e": "[e]dit and approve", "r": "[r]eject", "s": "[s]kip"}
    left_out = {"e"} if question.proposal is None else set[str]()
    left_out |= set[str]() if question.skippable else {"s"}
    letters = [letter for letter in choices if letter not in left_out]
    asked = ", ".join(words[letter] for letter in letters)
    letter = click.prompt(asked, type=click.Choice(letters), show_choices=False, err=True)
    if letter != "e":
        return choices[letter]
    schema = question.proposal_schema
    edited = _value("Instead", schema, schema, required=True, default=question.proposal, edits=True)
    return {"approved": True, "edited": edited}


def _line(label: str, *, required: bool, default: str | None = None) -> str | None:
    """Prompt for a line. An empty line means the default, or None without a default."""
    shown = f"{label} [{one_line(default)}]" if default else label
    while True:
        text: str = click.prompt(shown, default=default or "", show_default=False, err=True)
        if text.strip() or not required:
            return text if text.strip() else None
        click.echo("it must not be empty", err=True)


# Options

Options = Sequence[Mapping[str, Any]]


def _option(options: Options, *, required: bool, default: Any = None, other: str | None = None) -> Any:
    marks = _list(options, other)
    shown = _shown(default, options, marks)
    while True:
        text = _line(f"Number{_such_as(marks)}", required=required, default=shown)
        if text is None:
            return None
        if text == shown:
            return default
        found, value = _chosen(text, options, marks, other)
        if found:
            return value
        click.echo(f"{one_line(text)} is not one of {marks[0]} to {marks[-1]}", err=True)


def _options(options: Options, *, required: bool, default: Any, other: str | None) -> list[Any] | None:
    marks = _list(options, other)
    shown = ", ".join(str(_shown(each, options, marks)) for each in default) if default else None
    none = marks[0].replace("1", "0")
    hint = f", {none} for none" if shown else "" if required else f", {_SKIP}"
    while True:
        text = _line(f"Numbers{_such_as(marks)}, with commas between{hint}", required=False, default=shown)
        if text is None:
            return [] if required else None
        if text == shown:
            return default
        if text.strip() == none:
            return []
        chosen = [_chosen(part.strip(), options, marks, other) for part in text.split(",")]
        if all(found for found, _ in chosen):
            return [value for _, value in chosen]
        click.echo(f"{one_line(text)} is not a list of numbers from {marks[0]} to {marks[-1]}", err=True)


def _list(options: Options, other: str | None) -> list[str]:
    """Print the options. Return the mark of each: its number, or ``#1`` if options are numbers themselves."""
    numbers = [str(number) for number in range(1, len(options) + 1 + (other is not None))]
    named = {
        str(each) for option in options for each in (option["value"], option.get("label", option["value"]))
    }
    marks = [f"#{number}" for number in numbers] if named.intersection({"0", *numbers}) else numbers
    for mark, option in zip(marks, options, strict=False):
        click.echo(f"  {mark}  {one_line(str(option.get('label', option['value'])))}", err=True)
        if option.get("help"):
            click.echo(f"     {one_line(option['help'])}", err=True)
    if other is not None:
        click.echo(f"  {marks[-1]}  {one_line(other)} (you are asked for it)", err=True)
    return marks


def _such_as(marks: Sequence[str]) -> str:
    return "" if marks[0] == "1" else f" such as {marks[0]}, or the option itself"


def _shown(default: Any, options: Options, marks: Sequence[str]) -> str | None:
    """Return the text for a default in a prompt: its mark, or the user's own text."""
    if default is None:
        return None
    if isinstance(default, dict):
        return str(cast("dict[str, Any]", default)["other"])
    return next(mark for mark, option in zip(marks, options, strict=False) if same(option["value"], default))


def _chosen(text: str, options: Options, marks: Sequence[str], other: str | None) -> tuple[bool, Any]:
    """Return whether the text chooses an option by its mark, value or label, and the option's value."""
    mark = text.lstrip("0") if text.isdecimal() else text
    for each, option in zip(marks, options, strict=False):
        if mark == each:
            return True, option["value"]
    if other is not None and (mark == marks[-1] or text == other):
        return True, {"other": _line(one_line(other), required=True)}
    for option in options:
        if text in (option["value"], option.get("label", option["value"])):
            return True, option["value"]
    return False, None


# Forms


def _value(
    label: str, schema: Schema, whole: Schema, *, required: bool, default: Any = MISSING, edits: bool = False
) -> Any:
    """Prompt for the value that a schema describes.

    Args:
        label: The label of the prompt.
        schema: The schema.
        whole: The schema that contains the targets of its references.
        required: Whether a value is required.
        default: The value of an empty line.
        edits: Whether a proposal is edited. Fields that it lacks stay absent.

    Returns:
        The value; ``MISSING`` if the user gave none.
    """
    schema, is_nullable = _resolved(schema, whole)
    is_null = default is None  # an empty line keeps it
    begun = default
    if default is MISSING:
        begun = None if edits else schema.get("default")
    is_needed = required and not is_nullable and not is_null
    given = _given(label, schema, whole, required=is_needed, default=begun, edits=edits)
    if given is not None:
        return given
    return None if is_null or (required and is_nullable) else MISSING


def _given(label: str, schema: Schema, whole: Schema, *, required: bool, default: Any, edits: bool) -> Any:
    """Prompt for a value. Return None if the user gave none."""

    def resolve(each: Schema) -> Schema:
        return _resolved(dict(each), whole)[0]

    if kinds := kinds_of(schema, resolve):
        return _kind(label, kinds, whole, required=required, default=default, edits=edits)
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return _choice(label, values, required=required, default=default)
    branches = schema.get("anyOf")
    if isinstance(branches, list) and is_decimal(cast("list[Schema]", branches)):
        return _decimal(label, required=required, default=default)
    match schema.get("type"):
        case "object" if "properties" in schema:
            if not required and default is None and not click.confirm(f"{label}: fill it in?", err=True):
                return None
            begun = cast("Schema", default) if isinstance(default, dict) else None
            return _fields(schema, whole, begun, edits=edits)
        case "boolean":
            return _boolean(label, required=required, default=default)
        case "string":
            text = _line(label, required=required, default=default if isinstance(default, str) else None)
            return text.strip() if text and "format" in schema else text
        case _:
            if words := kinds_in_words(schema, resolve):
                click.echo(f"  {one_line(words)}", err=True)
            if default is None and schema.get("type") in ("array", "object"):
                example = json.dumps(sample_of(schema, resolve), ensure_ascii=False)
                click.echo(f"  It is written as JSON, such as {one_line(example)}", err=True)
            return _json(label, schema, required=required, default=default)


def _resolved(schema: Schema, whole: Schema) -> tuple[Schema, bool]:
    """Resolve a reference within the form, and remove the null of an optional field. Return whether there was one."""
    if "$ref" in schema:
        found: Any = whole
        for part in str(schema["$ref"]).removeprefix("#").split("/")[1:]:
            found = found[part.replace("~1", "/").replace("~0", "~")]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _resolved({**cast("Schema", found), **rest}, whole)
    listed: Any = schema.get("anyOf", [])
    branches: list[Schema] = [each for each in listed if each.get("type") != "null"]
    is_nullable = len(branches) < len(listed)
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if len(branches) == 1:
        return {**_resolved(branches[0], whole)[0], **rest}, is_nullable
    return ({**rest, "anyOf": branches} if is_nullable else schema), is_nullable


def _kind(
    label: str,
    kinds: Sequence[KindOfForm],
    whole: Schema,
    *,
    required: bool,
    default: Any,
    edits: bool,
) -> dict[str, Any] | None:
    """Prompt for one of several object types, then for its fields."""
    begun: Schema = cast("Schema", default) if isinstance(default, dict) else {}
    tag = kinds[0].tag
    values = [kind.value for kind in kinds]
    chosen = _choice(f"{label}: {tag}", values, required=required, default=begun.get(tag))
    if chosen is None:
        return None
    kind = next(each for each in kinds if same(each.value, chosen))
    fields = {name: field for name, field in kind.schema["properties"].items() if name != tag}
    if not same(chosen, begun.get(tag)):  # the fields of another kind do not apply
        begun, edits = {}, False
    known = {name: value for name, value in begun.items() if name != tag}
    return {tag: chosen, **_fields({**kind.schema, "properties": fields}, whole, known or None, edits=edits)}


def _fields(schema: Schema, whole: Schema, begun: Schema | None, *, edits: bool) -> dict[str, Any]:
    """Prompt for the fields of an object. Members outside of the schema are kept."""
    needed, known = schema.get("required", []), begun or {}
    filled = {name: value for name, value in known.items() if name not in schema["properties"]}
    for name, field in schema["properties"].items():
        field = cast("Schema", field if isinstance(field, dict) else {})
        if text := field.get("description"):
            click.echo(f"  {one_line(text)}", err=True)
        label = name if name in needed else f"{name} (optional)"
        value = _value(
            label,
            field,
            whole,
            required=name in needed,
            default=known.get(name, MISSING),
            edits=edits and begun is not None,
        )
        if value is not MISSING:
            filled[name] = value
    return filled


def _choice(label: str, values: Sequence[Any], *, required: bool, default: Any) -> Any:
    options = [
        {"value": value, "label": value if isinstance(value, str) else json.dumps(value)} for value in values
    ]
    click.echo(f"{label}:", err=True)
    is_known = any(same(value, default) for value in values)
    return _option(options, required=required, default=default if is_known else None)


def _decimal(label: str, *, required: bool, default: Any) -> Any:
    """Prompt for a decimal number, and keep all of its digits."""
    shown = None if default is None else str(default)
    while True:
        text = _line(f"{label} [number]", required=required, default=shown)
        if text is None or text == shown:
            return default if text else None
        try:
            if Decimal(text).is_finite():
                return text.strip()
        except ArithmeticError:
            pass
        click.echo(f"{one_line(text)} is not a number; write it as 12.50", err=True)


def _boolean(label: str, *, required: bool, default: Any) -> bool | None:
    letters = {"y": True, "n": False, "yes": True, "no": False}
    shown = {"true": "y", "false": "n"}.get(json.dumps(default))
    while True:
        text = _line(f"{label} [y/n]", required=required, default=shown)
        if text is None or text.lower() in letters:
            return None if text is None else letters[text.lower()]
        click.echo("y or n", err=True)


def _json(label: str, schema: Schema, *, required: bool, default: Any) -> Any:
    kind = type_in_words(schema)
    shown = None if default is None else json.dumps(default, ensure_ascii=False)
    while True:
        text = _line(f"{label} [{kind}]", required=required, default=shown)
        if text is None:
            return None
        try:
            return parse_json(text)
        except click.BadParameter as error:
            click.echo(error.format_message(), err=True)
