"""Asking the person at the terminal for an answer, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from signoff.cli.values import parse_json
from signoff.cli.wording import one_line
from signoff.people.questions import Question

Schema = Mapping[str, Any]

_SKIP = "empty to skip"


def ask(question: Question) -> Any:
    """Prompt for an answer to a question. What comes back is not checked yet; None means to skip."""
    match question.input_type:
        case "approval":
            return _approval(question.skippable)
        case "text":
            return _line("Answer", required=not question.skippable)
        case "select":
            return _option(question.options, required=not question.skippable)
        case "multiselect":
            return _options(question.options, skippable=question.skippable)
        case "form":
            if question.skippable and not click.confirm(
                "Fill in the form? (no skips it)", default=True, err=True
            ):
                return None
            return _value("Answer", question.answer_schema, question.answer_schema, required=True)


def _approval(skippable: bool) -> bool | None:
    choices = {"a": True, "r": False} | ({"s": None} if skippable else {})
    words = "[a]pprove, [r]eject" + (" or [s]kip" if skippable else "")
    letter = click.prompt(words, type=click.Choice(list(choices)), show_choices=False, err=True)
    return choices[letter]


def _line(label: str, *, required: bool, default: Any = None) -> str | None:
    while True:
        text: str = click.prompt(label, default=default or "", show_default=bool(default), err=True)
        if text.strip() or not required:
            return text if text.strip() else None
        click.echo("it needs a text", err=True)


def _option(options: Sequence[Mapping[str, Any]], *, required: bool) -> Any:
    _list(options)
    while True:
        text = _line("Number", required=required)
        if text is None:
            return None
        chosen = _numbered(text, options)
        if chosen is not None:
            return chosen["value"]
        click.echo(f"{one_line(text)} is none of 1 to {len(options)}", err=True)


def _options(options: Sequence[Mapping[str, Any]], *, skippable: bool) -> list[Any] | None:
    _list(options)
    while True:
        text = _line(f"Numbers, with commas between{', ' + _SKIP if skippable else ''}", required=False)
        if text is None:
            return None if skippable else []
        chosen = [_numbered(part.strip(), options) for part in text.split(",")]
        if all(option is not None for option in chosen):
            return [option["value"] for option in chosen if option is not None]
        click.echo(f"{one_line(text)} is not a list of numbers from 1 to {len(options)}", err=True)


def _list(options: Sequence[Mapping[str, Any]]) -> None:
    for number, option in enumerate(options, start=1):
        click.echo(f"  {number}  {one_line(str(option['label']))}", err=True)


def _numbered(text: str, options: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if text.isdecimal() and 0 < int(text) <= len(options):
        return options[int(text) - 1]
    return next((option for option in options if text in (option["value"], option["label"])), None)


# Forms


def _value(label: str, schema: Schema, whole: Schema, *, required: bool) -> Any:
    """Prompt for what a schema describes. Returns None where nothing was given."""
    schema = _resolved(schema, whole)
    if "enum" in schema:
        return _choice(label, schema["enum"], required=required)
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _fields(schema, whole)
        case "boolean":
            return _boolean(label, schema, required=required)
        case "string":
            return _line(label, required=required, default=schema.get("default"))
        case _:
            return _json(label, schema, required=required)


def _resolved(schema: Schema, whole: Schema) -> Schema:
    """Follow a reference within the form, and pass by the null of an optional field."""
    if "$ref" in schema:
        found: Any = whole
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            found = found[part]
        return _resolved(cast(Schema, found), whole)
    branches: list[Schema] = [each for each in schema.get("anyOf", []) if each.get("type") != "null"]
    if len(branches) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return {**_resolved(branches[0], whole), **rest}
    return schema


def _fields(schema: Schema, whole: Schema) -> dict[str, Any]:
    needed = schema.get("required", [])
    filled: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if text := field.get("description"):
            click.echo(f"  {one_line(text)}", err=True)
        label = name if name in needed else f"{name} (optional)"
        value = _value(label, field, whole, required=name in needed)
        if value is not None:
            filled[name] = value
    return filled


def _choice(label: str, values: Sequence[Any], *, required: bool) -> Any:
    options = [
        {"value": value, "label": value if isinstance(value, str) else json.dumps(value)} for value in values
    ]
    click.echo(f"{label}:", err=True)
    return _option(options, required=required)


def _boolean(label: str, schema: Schema, *, required: bool) -> bool | None:
    letters = {"y": True, "n": False, "yes": True, "no": False}
    default = {"true": "y", "false": "n"}.get(json.dumps(schema.get("default")))
    while True:
        text = _line(f"{label} [y/n]", required=required, default=default)
        if text is None or text.lower() in letters:
            return None if text is None else letters[text.lower()]
        click.echo("y or n", err=True)


def _json(label: str, schema: Schema, *, required: bool) -> Any:
    kind = str(schema.get("type", "JSON"))
    shown = json.dumps(schema["default"]) if schema.get("default") is not None else None
    while True:
        text = _line(f"{label} [{kind}]", required=required, default=shown)
        if text is None:
            return None
        try:
            return parse_json(text)
        except click.BadParameter as error:
            click.echo(error.format_message(), err=True)
