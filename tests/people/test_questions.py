"""Valid questions, and the contents of a question's digest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NotRequired

import pytest
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

from signoff.errors import InvalidValue, NotSerializable, PayloadTooLarge, RegistrationError, WrongAnswer
from signoff.people.questions.answer_checks import check_answer
from signoff.people.questions.question import Question
from signoff.people.schemas.answer_schemas import form_of
from signoff.people.schemas.validation import problems


class Mail(BaseModel):
    to: str
    body: str = ""

    @field_validator("to")
    @classmethod
    def has_at(cls, to: str) -> str:
        if "@" not in to:
            raise ValueError("no address")
        return to


REPORT = {"name": "Report", "url": "https://example.com/report.pdf", "media_type": "application/pdf"}
CHOICES = ["red", {"value": "blue", "label": "Blue", "help": "as the sky"}]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"text": " "}, "needs a text"),
        ({"text": "a\0b"}, "NUL"),
        ({"input_type": "banana"}, "is not one of"),
        ({"input_type": "select"}, "required for select"),
        ({"options": ["a"]}, "required for select"),
        ({"input_type": "form"}, "required for input_type"),
        ({"input_type": "select", "options": ["a", "a"]}, "same value"),
        ({"input_type": "select", "options": [1]}, "not 1"),
        ({"input_type": "select", "options": "ab"}, "list of options"),
        ({"input_type": "select", "options": {"a": "A"}}, "list of options"),
        ({"metadata": "bob"}, "metadata must be an object"),
        ({"action": ("send_mail", {})}, "pass an Action"),
        ({"input_type": "select", "options": [{"label": "A"}]}, "text 'value'"),
        ({"input_type": "select", "options": [{"value": "a", "label": 1}]}, "'label' of option 'a'"),
        ({"input_type": "select", "options": [{"value": "a", "help": ["x"]}]}, "'help' of option 'a'"),
        ({"default": True}, "default belongs to text and select"),
        ({"input_type": "text", "default": 7}, "default does not fit"),
        ({"input_type": "text", "default": "long", "max_length": 3}, "default does not fit"),
        ({"input_type": "select", "options": ["a"], "default": "b"}, "default does not fit"),
        ({"input_type": "multiselect", "options": ["a"], "default": "a"}, "default does not fit"),
        ({"input_type": "form", "answer_type": Mail, "default": {"to": 1}}, "to: 1 is not of type"),
        ({"input_type": "form", "answer_type": {"type": "banana"}}, "type: "),
        ({"input_type": "form", "answer_type": {"$ref": "https://example.com/s"}}, "is not a JSON Schema"),
        ({"input_type": "form", "answer_type": {"pattern": "("}}, "is not a JSON Schema"),
        ({"input_type": "text", "other": "Else"}, "other belongs to select"),
        ({"input_type": "select", "options": ["a"], "other": " "}, "other must not be empty"),
        ({"input_type": "select", "options": ["a"], "min_choices": 1}, "min_choices belongs to multiselect"),
        ({"input_type": "multiselect", "options": ["a"], "min_choices": 2}, "no answer fits between"),
        ({"input_type": "multiselect", "options": ["a"], "max_choices": 0}, "no answer fits between"),
        (
            {"input_type": "multiselect", "options": ["a", "b"], "min_choices": 2, "max_choices": 1},
            "no answer",
        ),
        ({"max_length": 3}, "max_length belongs to text"),
        ({"input_type": "text", "min_length": 4, "max_length": 3}, "no answer fits between"),
        ({"input_type": "text", "min_length": -1}, "no answer fits between"),
        ({"input_type": "text", "min_length": "4"}, "min_length must be a whole number, not '4'"),
        ({"input_type": "text", "max_length": 1.5}, "max_length must be a whole number, not 1.5"),
        ({"input_type": "multiselect", "options": ["a"], "max_choices": True}, "max_choices must be a whole"),
        ({"input_type": "select", "options": ["a", ""]}, "the value of an option is empty"),
        ({"input_type": "select", "options": [{"value": " ", "label": "A"}]}, "the value of an option is"),
        ({"input_type": "select", "options": ["a"], "other": True}, "other must be a text, not True"),
        ({"help": 3}, "help must be a text, not 3"),
        ({"input_type": "text", "proposal": 1}, "proposal belongs to approval"),
        ({"proposal_type": Mail}, "needs a proposal"),
        ({"proposal": {"to": 1}, "proposal_type": Mail}, "to: 1 is not of type"),
        ({"proposal": {"to": "nobody"}, "proposal_type": Mail}, "no address"),
        ({"attachments": [{"name": "x", "url": "javascript:alert(1)"}]}, "attachments[0].url"),
        ({"attachments": [REPORT, {"name": "x", "url": "file:///etc/passwd"}]}, "attachments[1].url"),
        ({"attachments": [{"name": "x", "url": "//example.com/x"}]}, "attachments[0].url"),
        ({"attachments": [{"name": "x", "url": "https://bank.com@example.com"}]}, "attachments[0].url"),
        ({"attachments": [{"name": "", "url": "https://example.com"}]}, "attachments[0].name"),
        ({"attachments": [{"name": "x"}]}, "attachments[0].url"),
        ({"attachments": [{**REPORT, "media_type": "pdf"}]}, "attachments[0].media_type"),
        ({"attachments": [{**REPORT, "size": 1}]}, "attachments[0].size"),
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_refused_when_it_is_asked(parts: dict[str, Any], why: str) -> None:
    with pytest.raises(RegistrationError) as refused:
        Question.make(**{"text": "What?", **parts})
    assert why in str(refused.value)
    assert len(str(refused.value)) < 5000


@pytest.mark.parametrize("said", ["false", "no", 0, 1, None])
def test_only_true_and_false_say_whether_it_may_be_skipped(said: Any) -> None:
    with pytest.raises(InvalidValue, match=f"skippable: {said!r} is neither True nor False"):
        Question.make("What?", input_type="text", skippable=said)


@pytest.mark.parametrize("name", ["metadata", "default", "proposal", "answer_type"])
def test_a_part_that_is_no_json_is_refused_by_its_name(name: str) -> None:
    kind = {"default": "text", "answer_type": "form"}.get(name, "approval")
    with pytest.raises(NotSerializable, match=name):
        Question.make("What?", input_type=kind, **{name: {"a": object()}})  # type: ignore[arg-type]


ASKED: dict[str, dict[str, Any]] = {
    "help": {"help": "Think twice.\nThen decide."},
    "metadata": {"metadata": {"a": 1}},
    "skippable": {"skippable": True},
    "attachments": {"attachments": [REPORT]},
    "proposal": {"proposal": {"amount": 7}},
    "another proposal": {"proposal": {"amount": 8}},
    "proposal_type": {"proposal": {"to": "a@b"}, "proposal_type": Mail},
    "text": {"input_type": "text"},
    "default": {"input_type": "text", "default": "x"},
    "length": {"input_type": "text", "max_length": 9},
    "select": {"input_type": "select", "options": CHOICES},
    "other": {"input_type": "select", "options": CHOICES, "other": "Else"},
    "default choice": {"input_type": "select", "options": CHOICES, "default": "blue"},
    "multiselect": {"input_type": "multiselect", "options": CHOICES, "min_choices": 1, "default": ["red"]},
    "form": {"input_type": "form", "answer_type": Mail, "default": Mail(to="a@b")},
}


@pytest.mark.parametrize("name", ASKED)
def test_a_question_is_read_as_written_and_its_digest_covers_every_part(name: str) -> None:
    question = Question.make("What?", **ASKED[name])
    text = question.to_json()
    again = Question.from_json(text)
    assert again.to_json() == text
    assert again.digest == json.loads(text)["digest"] == question.digest
    others = [Question.make("What?", **parts).digest for other, parts in ASKED.items() if other != name]
    assert question.digest not in [*others, Question.make("What?").digest]


def test_a_question_without_the_newer_parts_is_what_it_always_was() -> None:
    """The digest of an open question must not change because Signoff was upgraded."""
    assert json.loads(Question.make("Go on?").to_json()) == {
        "text": "Go on?",
        "input_type": "approval",
        "answer_schema": {
            "type": "object",
            "properties": {"approved": {"type": "boolean"}},
            "required": ["approved"],
            "additionalProperties": False,
        },
        "options": [],
        "metadata": {},
        "skippable": False,
        "digest": "9935b44527e2ad1ce3195e835da0345b87f7c88951fa22127269b60bea2118e9",
    }


@pytest.mark.long
def test_ten_thousand_options_can_be_asked_and_a_million_are_too_much() -> None:
    assert Question.from_json(
        Question.make("Which?", input_type="select", options=[f"option {n}" for n in range(10_000)]).to_json()
    )
    with pytest.raises(PayloadTooLarge, match="question"):
        Question.make("Which?", input_type="select", options=[str(n) for n in range(1_000_000)]).to_json()


def test_an_address_is_shown_in_the_form_in_which_it_was_checked() -> None:
    [shown] = Question.make("?", attachments=[{"name": "x", "url": " https://Bücher.example\n"}]).attachments
    assert shown["url"] == "https://xn--bcher-kva.example/"


class Parcel(BaseModel):
    street: str
    is_express: bool = False
    lines: list[dict[str, int]] = []


@dataclass
class Plain:
    street: str
    is_express: bool = False


class Named(TypedDict):
    street: str
    is_express: NotRequired[bool]


class Lax(BaseModel, extra="ignore"):
    street: str


@pytest.mark.parametrize("kind", [Parcel, Plain, Named])
def test_a_misspelt_field_is_refused_and_not_lost(kind: Any) -> None:
    answer = {"street": "x", "is_expres": True}
    asked = Question.make("Where to?", input_type="form", answer_type=kind)
    with pytest.raises(WrongAnswer, match="is_expres: there is no such field"):
        check_answer("q", asked, answer)
    proposed = Question.make("Send it?", proposal={"street": "x"}, proposal_type=kind)
    with pytest.raises(WrongAnswer, match=r"edited\.is_expres: there is no such field"):
        check_answer("q", proposed, {"approved": True, "edited": answer})


def test_a_type_that_says_what_becomes_of_other_fields_has_its_way() -> None:
    asked = Question.make("Where to?", input_type="form", answer_type=Lax)
    check_answer("q", asked, {"street": "x", "more": 1})
    of_a_callback = form_of("", "answer_type", Parcel)
    assert problems(of_a_callback, {"street": "x", "more": 1}) == [], "others send what they like"
