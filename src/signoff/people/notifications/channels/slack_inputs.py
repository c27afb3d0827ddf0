"""Slack's inputs: the form of a question in a modal, and the values that a submitted modal has.

The fields are those of the page of an answer link. A field that Slack cannot show unchanged has no input, and neither
has the question then: its page is where it is answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from pydantic import BaseModel, Field

from signoff.people.links.html_fields import (
    MISSING,
    Choice,
    FieldGroup,
    HtmlField,
    decision_field,
    html_fields_of,
    note_field,
    visible,
)
from signoff.people.links.html_values import OTHER, SubmittedForm, begin
from signoff.people.notifications.channels.slack_text import LONGEST_PART, length, plain, section
from signoff.people.questions.question import Question

VALUE: Final = "value"
"""The action id of each input. Its block has the field's name as id."""

LONGEST_INITIAL: Final = 3_000
LONGEST_LABEL: Final = 2_000
LONGEST_OPTION: Final = 75
MOST_OPTIONS: Final = 100  # of a menu, or of a group of its options
MOST_GROUPS: Final = 100
MOST_RADIOS: Final = 10
MOST_INPUTS: Final = 80
"""A modal has 100 blocks; the others show the question."""

_PLAIN_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
"""Numbers that Slack's input shows unchanged."""

Block = dict[str, Any]


class NoInput(Exception):
    """Slack has no input that shows a field unchanged."""


class _Option(BaseModel):
    value: str = Field(max_length=150)


class _Entered(BaseModel):
    value: str | None = None
    selected_date: str | None = None
    selected_option: _Option | None = None
    selected_options: list[_Option] | None = None


class Entered(BaseModel):
    """The state of a submitted modal: its values by block id and action id."""

    values: dict[str, dict[str, _Entered]] = Field(default_factory=dict[str, dict[str, _Entered]])


def can_edit_in_slack(question: Question, *, can_edit: bool) -> bool:
    """Whether a proposal may be edited, and Slack has inputs for all of its fields."""
    if not can_edit or question.proposal is None:
        return False
    try:
        _groups(html_fields_of(question))
    except NoInput:
        return False
    return True


def inputs_of(question: Question, *, can_edit: bool) -> list[Block]:
    """Return the inputs of a question.

    Args:
        question: The question, redacted.
        can_edit: Whether a proposal may be edited, from ``can_edit_in_slack``.

    Raises:
        NoInput: Slack has no input for a field.
    """
    is_approval = question.input_type == "approval"
    blocks: list[Block] = []
    if is_approval:
        decision = decision_field(question, can_edit=can_edit)
        blocks.append(_input(decision, _radios(decision), is_optional=question.skippable))
    if not is_approval or can_edit:
        blocks += _groups(html_fields_of(question), is_optional=question.skippable or is_approval)
    if question.skippable:
        skip = HtmlField("skip", (), "some", "Skip this question", choices=(Choice(True, "Skip"),))
        blocks.append(_input(skip, {"type": "checkboxes", "options": _options(skip)}, is_optional=True))
    note = note_field()
    blocks.append(_input(note, _text(note), is_optional=True))
    if len(blocks) > MOST_INPUTS:
        raise NoInput(question.text)
    return blocks


def submitted(question: Question, entered: Entered) -> SubmittedForm:
    """Return a submitted modal's values as those of the page's form."""
    form: dict[str, list[str]] = {}
    for name, elements in entered.values.items():
        form[name] = [text for each in elements.values() for text in _texts(each)]
    for group in html_fields_of(question):
        for field in group.fields:
            own = "".join(form.get(f"{field.name}.{OTHER}", ()))
            if own.strip() and (field.kind == "some" or not form.get(field.name)):
                form[field.name] = [*form.get(field.name, ()), OTHER]
    return form


def errors_by_block(
    question: Question, problems: Sequence[tuple[str, str]], blocks: Mapping[str, Any] | Sequence[str]
) -> dict[str, str]:
    """Return the problems of an answer by the block that shows them, each with the part that it concerns.

    Args:
        question: The question, redacted.
        problems: The problems, as ``(field, message)``.
        blocks: The ids of the submitted blocks. A problem without a block of its own is shown at the first.
    """
    fields = [field for group in html_fields_of(question) for field in group.fields]
    paths = {field.name: ".".join(field.path) for field in (*fields, note_field())}
    paths["decision"] = "approved"
    said: dict[str, list[str]] = {}
    for field, message in problems:
        found = [
            name
            for name, path in paths.items()
            if name in blocks and path and (field == path or field.startswith(f"{path}."))
        ]
        name = max(found, key=lambda each: len(paths[each])) if found else next(iter(blocks), "note")
        part = field.removeprefix(paths.get(name, "")).removeprefix(".") if found else field
        said.setdefault(name, []).append(f"{part}: {message}" if part else message)
    return {name: "; ".join(messages) for name, messages in said.items()}


def _texts(entered: _Entered) -> list[str]:
    if entered.selected_options is not None:
        return [each.value for each in entered.selected_options]
    if entered.selected_option is not None:
        return [entered.selected_option.value]
    text = entered.value if entered.value is not None else entered.selected_date
    return [] if text is None else [text]


def _groups(groups: Sequence[FieldGroup], *, is_optional: bool = False) -> list[Block]:
    blocks: list[Block] = []
    for group in groups:
        if group.legend is not None:
            blocks.append(section(_whole(group.legend, LONGEST_PART)))
        is_free = is_optional or not group.is_required or group.is_nullable
        for field in group.fields:
            blocks.append(_input(field, _element(field), is_optional=is_free or _may_be_empty(field)))
            if field.other is not None:
                own = HtmlField(f"{field.name}.{OTHER}", (), "line", field.other)
                blocks.append(
                    _input(own, _text(own, begin(field).other, field.kind == "some"), is_optional=True)
                )
    return blocks


def _may_be_empty(field: HtmlField) -> bool:
    """Whether Slack must let the input empty. The answer itself is checked when it is submitted."""
    return (
        field.may_be_empty
        or field.kind in ("some", "lines")
        or field.other is not None
        or field.initial is not MISSING
    )


def _input(field: HtmlField, element: Block, *, is_optional: bool) -> Block:
    label = _whole(field.label if field.label.strip() else repr(field.label), LONGEST_LABEL)
    block = {
        "type": "input",
        "block_id": field.name,
        "label": plain(label),
        "element": {**element, "action_id": VALUE},
        "optional": is_optional,
    }
    hint = " ".join(each for each in (field.help, field.hint) if each and each.strip())
    return {**block, "hint": plain(_whole(hint, LONGEST_LABEL))} if hint else block


def _element(field: HtmlField) -> Block:
    text = begin(field).text
    match field.kind:
        case "one" | "some":
            return _menu(field)
        case "line" if field.input_type == "date":
            return _date(text)
        case "line" if field.input_type == "email" and (not text or "@" in text):
            return _initial({"type": "email_text_input"}, text)
        case "line" if field.input_type == "url":
            return _initial({"type": "url_text_input"}, text)
        case "integer" | "number" if not text or _PLAIN_NUMBER.fullmatch(text):
            decimal = field.kind == "number"
            return _initial({"type": "number_input", "is_decimal_allowed": decimal}, text)
        case "json":
            raise NoInput(field.label)
        case _:
            return _text(field, text, field.kind in ("long", "lines"))


def _text(field: HtmlField, text: str = "", is_long: bool | None = None) -> Block:
    is_multiline = field.kind == "long" if is_long is None else is_long
    return _initial({"type": "plain_text_input", "multiline": is_multiline}, text)


def _initial(element: Block, text: str) -> Block:
    return {**element, "initial_value": _whole(text, LONGEST_INITIAL)} if text else element


def _date(text: str) -> Block:
    if not text:
        return {"type": "datepicker"}
    try:
        return {"type": "datepicker", "initial_date": date.fromisoformat(text).isoformat()}
    except ValueError:  # such as the 31st of February
        return _initial({"type": "plain_text_input"}, text)


def _menu(field: HtmlField) -> Block:
    """Return a menu, with groups of options if there are many."""
    options = _options(field)
    chosen = [options[int(number)] for number in sorted(begin(field).chosen - {OTHER}, key=int)]
    is_one = field.kind == "one"
    if is_one and len(options) <= MOST_RADIOS and not _may_be_empty(field):
        return _radios(field)
    element: Block = {"type": "static_select" if is_one else "multi_static_select"}
    if len(options) <= MOST_OPTIONS:
        element["options"] = options
    else:
        starts = range(0, len(options), MOST_OPTIONS)
        if len(starts) > MOST_GROUPS:
            raise NoInput(field.label)
        element["option_groups"] = [
            {
                "label": plain(f"{start + 1} to {min(start + MOST_OPTIONS, len(options))}"),
                "options": options[start : start + MOST_OPTIONS],
            }
            for start in starts
        ]
    if chosen:
        element |= {"initial_option": chosen[0]} if is_one else {"initial_options": chosen}
    return element


def _radios(field: HtmlField) -> Block:
    return {"type": "radio_buttons", "options": _options(field)}


def _options(field: HtmlField) -> list[Block]:
    made: list[Block] = []
    for number, choice in enumerate(field.choices):
        option = {"text": plain(_whole(choice.label, LONGEST_OPTION)), "value": str(number)}
        if choice.help:
            option["description"] = plain(_whole(choice.help, LONGEST_OPTION))
        made.append(option)
    if not made:
        raise NoInput(field.label)
    return made


def _whole(text: str, most: int) -> str:
    """Return a text that Slack shows whole. Raises NoInput for others."""
    if not text.strip() or visible(text) != text or length(text) > most:
        raise NoInput(text[:LONGEST_OPTION])
    return text
