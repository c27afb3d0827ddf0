"""Asking the person at the terminal for an answer, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from signoff.cli.values import parse_json
from signoff.cli.wording import one_line
from signoff.people.kinds import KindOfForm, kinds_of
from signoff.people.questions import Question

Schema = Mapping[str, Any]

_SKIP = "empty to skip"


def ask(question: Question) -> Any:
    """Prompt for an answer to a question. What comes back is not checked yet; None means to skip."""
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
            return _value("Answer", schema, schema, required=True, default=default)


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
    edited = _value("Instead", schema, schema, required=True, default=question.proposal)
    return {"approved": True, "edited": edited}


def _line(label: str, *, required: bool, default: str | None = None) -> str | None:
    """Prompt for a line; an empty one is the default. Returns None for nothing."""
    shown = f"{label} [{one_line(default)}]" if default else label
    while True:
        text: str = click.prompt(shown, default=default or "", show_default=False, err=True)
        if text.strip() or not required:
            return text if text.strip() else None
        click.echo("it needs a text", err=True)


# Options

Options = Sequence[Mapping[str, Any]]


def _option(options: Options, *, required: bool, default: Any = None, other: str | None = None) -> Any:
    _list(options, other)
    shown = _shown(default, options)
    while True:
        text = _line("Number", required=required, default=shown)
        if text is None:
            return None
        if text == shown:
            return default
        found, value = _chosen(text, options, other)
        if found:
            return value
        click.echo(f"{one_line(text)} is none of 1 to {_last(options, other)}", err=True)


def _options(options: Options, *, required: bool, default: Any, other: str | None) -> list[Any] | None:
    _list(options, other)
    shown = ", ".join(str(_shown(each, options)) for each in default) if default else None
    hint = ", 0 for none" if shown else "" if required else f", {_SKIP}"
    while True:
        text = _line(f"Numbers, with commas between{hint}", required=False, default=shown)
        if text is None:
            return [] if required else None
        if text == shown:
            return default
        if text.strip() == "0":
            return []
        chosen = [_chosen(part.strip(), options, other) for part in text.split(",")]
        if all(found for found, _ in chosen):
            return [value for _, value in chosen]
        click.echo(f"{one_line(text)} is not a list of numbers from 1 to {_last(options, other)}", err=True)


def _list(options: Options, other: str | None) -> None:
    for number, option in enumerate(options, start=1):
        click.echo(f"  {number}  {one_line(str(option['label']))}", err=True)
        if option.get("help"):
            click.echo(f"     {one_line(option['help'])}", err=True)
    if other is not None:
        click.echo(f"  {len(options) + 1}  {one_line(other)} (you are asked for it)", err=True)


def _last(options: Options, other: str | None) -> int:
    return len(options) + (other is not None)


def _shown(default: Any, options: Options) -> str | None:
    """Return what stands for a default in a prompt: its number, or the text of one's own."""
    if default is None:
        return None
    if isinstance(default, dict):
        return str(cast("dict[str, Any]", default)["other"])
    return next(str(number) for number, option in enumerate(options, start=1) if option["value"] == default)


def _chosen(text: str, options: Options, other: str | None) -> tuple[bool, Any]:
    """Return whether something was chosen by its number, value or label, and its value."""
    if text.isdecimal() and 0 < int(text) <= len(options):
        return True, options[int(text) - 1]["value"]
    if other is not None and text in (str(len(options) + 1), other):
        return True, {"other": _line(one_line(other), required=True)}
    for option in options:
        if text in (option["value"], option["label"]):
            return True, option["value"]
    return False, None


# Forms


def _value(label: str, schema: Schema, whole: Schema, *, required: bool, default: Any = None) -> Any:
    """Prompt for what a schema describes. Returns None where nothing was given."""
    schema = _resolved(schema, whole)
    if default is None:
        default = schema.get("default")
    if kinds := kinds_of(schema, lambda each: _resolved(dict(each), whole)):
        return _kind(label, kinds, whole, required=required, default=default)
    if "enum" in schema:
        return _choice(label, schema["enum"], required=required, default=default)
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _fields(schema, whole, cast("Schema", default if isinstance(default, dict) else {}))
        case "boolean":
            return _boolean(label, required=required, default=default)
        case "string":
            return _line(label, required=required, default=default if isinstance(default, str) else None)
        case _:
            return _json(label, schema, required=required, default=default)


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


def _kind(
    label: str, kinds: Sequence[KindOfForm], whole: Schema, *, required: bool, default: Any
) -> dict[str, Any] | None:
    """Prompt for one of several kinds, then for its fields."""
    begun = cast("Schema", default if isinstance(default, dict) else {})
    tag = kinds[0].tag
    values = [kind.value for kind in kinds]
    chosen = _choice(f"{label}: {tag}", values, required=required, default=begun.get(tag))
    if chosen is None:
        return None
    kind = next(each for each in kinds if each.value == chosen)
    fields = {name: field for name, field in kind.schema["properties"].items() if name != tag}
    return {tag: chosen, **_fields({**kind.schema, "properties": fields}, whole, begun)}


def _fields(schema: Schema, whole: Schema, defaults: Schema) -> dict[str, Any]:
    needed = schema.get("required", [])
    filled: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if text := field.get("description"):
            click.echo(f"  {one_line(text)}", err=True)
        label = name if name in needed else f"{name} (optional)"
        value = _value(label, field, whole, required=name in needed, default=defaults.get(name))
        if value is not None:
            filled[name] = value
    return filled


def _choice(label: str, values: Sequence[Any], *, required: bool, default: Any) -> Any:
    options = [
        {"value": value, "label": value if isinstance(value, str) else json.dumps(value)} for value in values
    ]
    click.echo(f"{label}:", err=True)
    return _option(options, required=required, default=default if default in values else None)


def _boolean(label: str, *, required: bool, default: Any) -> bool | None:
    letters = {"y": True, "n": False, "yes": True, "no": False}
    shown = {"true": "y", "false": "n"}.get(json.dumps(default))
    while True:
        text = _line(f"{label} [y/n]", required=required, default=shown)
        if text is None or text.lower() in letters:
            return None if text is None else letters[text.lower()]
        click.echo("y or n", err=True)


def _json(label: str, schema: Schema, *, required: bool, default: Any) -> Any:
    kind = str(schema.get("type", "JSON"))
    shown = None if default is None else json.dumps(default, ensure_ascii=False)
    while True:
        text = _line(f"{label} [{kind}]", required=required, default=shown)
        if text is None:
            return None
        try:
            return parse_json(text)
        except click.BadParameter as error:
            click.echo(error.format_message(), err=True)
