"""A question: its text, the JSON Schema of its answer, and a digest of everything shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import inf
from typing import Any, Final, cast, get_args

from signoff import codec
from signoff.codec.strict_json import read_kept, read_object, why_unreadable_json
from signoff.errors import InvalidValue, QuestionTooNew, RegistrationError, UnreadableRecord
from signoff.people.questions.actions import Action, is_same
from signoff.people.questions.attachments import Attachment, check_attachments
from signoff.people.questions.callback_terms import Callback, Terms
from signoff.people.questions.policies import Policy
from signoff.people.questions.proposals import Proposal, full_json
from signoff.people.questions.question_schema import InputType, problem_in_question
from signoff.people.schemas import answer_schemas
from signoff.people.schemas.validation import listed, problems
from signoff.records import Promise
from signoff.records.question_text import packed, unpacked
from signoff.records.start_options import check_flag

FindProblems = Callable[[Mapping[str, Any], Any], list[tuple[str, str]]]

_INPUT_TYPES: Final = get_args(InputType)

_BELONGS: Final[Mapping[str, tuple[InputType, ...]]] = {
    "default": ("text", "select", "multiselect", "form"),  # a decision has no default
    "other": ("select", "multiselect"),
    "min_choices": ("multiselect",),
    "max_choices": ("multiselect",),
    "min_length": ("text",),
    "max_length": ("text",),
    "proposal": ("approval",),
    "proposal_type": ("approval",),
    "action": ("approval",),
    "callback": ("external",),
}
"""The input types that allow a part. Parts not listed here are allowed for all."""

_LATER: Final = ("help", "default", "attachments", "other", "proposal", "action", "callback")
"""Parts added later. They are written only if set, so that digests of questions without them stay the same."""


@dataclass(frozen=True)
class Question:
    """A question for a person.

    Attributes:
        text: The question's text.
        input_type: The kind of form.
        answer_schema: The JSON Schema of the answer's value.
        options: The options as ``{"value": ..., "label": ..., "help": ...}``; ``help`` may be missing.
        metadata: Additional facts to show.
        skippable: Whether it may be skipped.
        help: A longer text beside the question.
        default: Initial content of the form; it is not an answer. None: empty.
        attachments: Files to look at.
        other: Label of the free-text option, if free text is allowed.
        proposal: The proposed value as plain data; None: there is none.
        action: The action that runs if it is approved: ``{"tool": ..., "arguments": {...}}``; None: there is none.
        callback: The terms of its callback (``Terms`` as plain data); None: it has no callback.
        proposed: The proposed value itself, in the process that asks. It is not written.
    """

    text: str
    input_type: InputType
    answer_schema: dict[str, Any]
    options: Sequence[dict[str, Any]] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    skippable: bool = False
    help: str | None = None
    default: Any = None
    attachments: Sequence[Attachment] = ()
    other: str | None = None
    proposal: Any = None
    action: dict[str, Any] | None = None
    callback: dict[str, Any] | None = None
    proposed: Proposal | None = field(default=None, compare=False, repr=False)

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
        help: str | None = None,
        default: Any = None,
        attachments: Sequence[Attachment] = (),
        other: str | None = None,
        min_choices: int | None = None,
        max_choices: int | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        proposal: Any = None,
        proposal_type: Any = None,
        action: Action | None = None,
        callback: Terms | None = None,
        find_problems: FindProblems = problems,
    ) -> Question:
        """Check and complete a workflow's question. ``Context.wait_for_user`` documents the parts.

        ``callback`` has the terms given to ``Context.callback``. ``find_problems`` checks the default and the proposal.

        Raises:
            RegistrationError: The parts do not fit together.
            NotSerializable: The metadata, the default or the proposal is not JSON.
        """
        _check_text(text)
        if input_type not in _INPUT_TYPES:
            raise RegistrationError(f"input_type {input_type!r} is not one of {', '.join(_INPUT_TYPES)}")
        options = _listed(text, options)
        _check_kinds(text, metadata, action)
        check_flag("skippable", skippable)
        _check_words(text, help=help, other=other)
        if bool(options) != (input_type in ("select", "multiselect")):
            raise RegistrationError(
                f"question {text!r}: options are required for select and multiselect, and not allowed otherwise"
            )
        if (callback is not None) != (input_type == "external"):
            raise RegistrationError(
                f"question {text!r}: external questions are asked with ctx.callback(...), which creates the URL"
            )
        if input_type != "external" and (answer_type is not None) != (input_type == "form"):
            raise RegistrationError(
                f"question {text!r}: answer_type is required for input_type='form', and not allowed otherwise"
            )
        given = {
            "default": default,
            "other": other,
            "min_choices": min_choices,
            "max_choices": max_choices,
            "min_length": min_length,
            "max_length": max_length,
            "proposal": proposal,
            "proposal_type": proposal_type,
            "action": action,
            "callback": callback,
        }
        for name, kinds in _BELONGS.items():
            if given[name] is not None and input_type not in kinds:
                raise RegistrationError(f"question {text!r}: {name} belongs to {' and '.join(kinds)}")
        if other is not None and not other.strip():
            raise RegistrationError(
                f"question {text!r}: other must not be empty: it labels the free-text option"
            )
        _check_range(text, "length", min_length, max_length)
        _check_range(text, "choices", min_choices, max_choices, inf if other else len(options))

        does = None if action is None else action.to_data(text)
        proposed: Proposal | None = None
        choices = _choices(text, options)
        values = [choice["value"] for choice in choices]
        with_other = other is not None
        match input_type:
            case "approval":
                proposed, schema = _proposed(text, proposal, proposal_type, find_problems)
            case "text":
                schema = answer_schemas.text_form(min_length, max_length)
            case "select":
                schema = answer_schemas.select_form(values, with_other=with_other)
            case "multiselect":
                schema = answer_schemas.multiselect_form(
                    values, with_other=with_other, min_choices=min_choices, max_choices=max_choices
                )
            case "form":
                schema = answer_schemas.form_of(text, "answer_type", answer_type, is_closed=True)
            case "external":
                schema = answer_schemas.form_of(
                    text, "answer_type", Callback if answer_type is None else answer_type
                )
        if callback is not None:
            callback.check(text)
        return cls(
            text=text,
            input_type=input_type,
            answer_schema=schema,
            options=choices,
            metadata=full_json(dict(metadata or {}), "metadata"),
            skippable=skippable,
            help=help,
            default=_fitting(text, "default", default, schema, find_problems),
            attachments=tuple(check_attachments(text, attachments)),
            other=other,
            proposal=None if proposed is None else _same_as_done(text, proposed.shown, does),
            action=does,
            callback=None if callback is None else callback.to_data(),
            proposed=proposed,
        )

    @classmethod
    def from_json(cls, text: str) -> Question:
        """Read the result of ``to_json``."""
        parts = json.loads(unpacked(text))
        return cls(**{name: part for name, part in parts.items() if name not in _BESIDES})

    @classmethod
    def of(cls, question: Promise) -> Question:
        """Read a question from its row.

        Raises:
            UnreadableRecord: It is not a known format.
            QuestionTooNew: A newer version wrote it.
        """
        try:
            parts = read_kept(unpacked(question.data or "null"))
        except ValueError as error:
            raise UnreadableRecord("question", question.id, f"data: {why_unreadable_json(error)}") from None
        wrong = problem_in_question(parts)
        if wrong is not None:
            raise UnreadableRecord("question", question.id, f"data: {wrong}")
        parts = {name: part for name, part in parts.items() if name not in _BESIDES}
        unknown = parts.keys() - _PARTS
        if unknown:
            raise QuestionTooNew(question.id, f"a part {min(unknown)!r}")
        if parts["input_type"] not in _INPUT_TYPES:
            raise QuestionTooNew(question.id, f"an input type {parts['input_type'][:100]!r}")
        return cls(**parts)

    def to_json(self, policy: Policy | None = None, *, terms: str | None = None) -> str:
        """Write the question with its digest and policy, and the digest of its terms if it belongs to no run."""
        rules = "" if policy is None or policy.is_plain else f',"policy":{policy.to_json()}'
        known_by = "" if terms is None else f',"{TERMS}":"{terms}"'
        return packed(f'{self._text[:-1]},"digest":"{self.digest}"{rules}{known_by}}}')

    @property
    def compared(self) -> dict[str, Any]:
        """The parts whose change makes it another question. Explanatory parts may change while it waits.

        Of a form's schema, only the field names are compared: the rest differs between versions of pydantic.
        """
        parts: dict[str, Any] = {name: getattr(self, name) for name in _COMPARED}
        parts["metadata"] = self.metadata
        parts["options"] = [choice["value"] for choice in self.options]
        if self.input_type != "approval":
            parts["input_type"] = self.input_type
        if self.input_type in ("form", "external"):
            parts["fields"] = sorted(self.answer_schema.get("properties", ()))
        return {name: part for name, part in parts.items() if part}

    @cached_property
    def digest(self) -> str:
        """Hash of everything asked and shown. An answer may carry the digest that its user saw."""
        return codec.digest(self._text)

    @property
    def proposal_schema(self) -> dict[str, Any]:
        """The JSON Schema of values that may be approved instead of the proposal."""
        return self.answer_schema["properties"]["edited"]

    @cached_property
    def _text(self) -> str:
        parts: dict[str, Any] = {
            "text": self.text,
            "input_type": self.input_type,
            "answer_schema": self.answer_schema,
            "options": list(self.options),
            "metadata": self.metadata,
            "skippable": self.skippable,
        }
        later = {name: getattr(self, name) for name in _LATER}
        parts |= {name: part for name, part in later.items() if part is not None and part != ()}
        # an action's arguments equal its proposal, and count once
        again = (
            0 if self.action is None or self.proposal is None else len(codec.encode(self.proposal).encode())
        )
        return codec.encode(parts, path="question", limit=codec.MAX_BYTES + again)


TERMS: Final = "terms"

_BESIDES: Final = ("policy", "digest", TERMS, "resonate")
"""Parts of a question's row that are not the question: ``resonate`` is written by ``server/resonate``."""

_COMPARED: Final = ("skippable", "other", "proposal", "action", "callback")

_PARTS: Final = frozenset(each.name for each in fields(Question)) - {"proposed"}


def digest_of(question: Promise) -> str | None:
    """Return the digest stored with a question.

    It is the digest of the unredacted question: a server may have hidden parts of what users see.
    """
    return read_object(question.data).get("digest")


def _check_text(text: str) -> None:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RegistrationError(f"a question must be a text, not {type(text).__name__}")
    if not text.strip():
        raise RegistrationError("a question needs a text")
    if "\0" in text:
        raise RegistrationError(
            f"question {text!r}: its text has a NUL character, which Postgres cannot keep"
        )


def _check_range(text: str, what: str, low: int | None, high: int | None, most: float = inf) -> None:
    """Refuse bounds that are not whole numbers, or that leave no valid answer."""
    for name, bound in ((f"min_{what}", low), (f"max_{what}", high)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(cast("object", bound), int)):
            raise RegistrationError(f"question {text!r}: {name} must be a whole number, not {bound!r}")
    first = low or 0
    if first < 0 or first > most or (high is not None and high < max(first, 1)):
        raise RegistrationError(
            f"question {text!r}: no answer fits between min_{what}={low} and max_{what}={high}"
        )


def _listed(text: str, options: object) -> list[Any]:
    """Return options as a list; those of a set sorted, since its order differs between processes."""
    if isinstance(options, str | Mapping) or not isinstance(options, Iterable):
        raise RegistrationError(f"question {text!r}: pass a list of options, such as ['yes', 'later']")
    given = list(cast("Iterable[object]", options))
    return sorted(given, key=str) if isinstance(options, set | frozenset) else given


def _check_kinds(text: str, metadata: object, action: object) -> None:
    if not isinstance(metadata, Mapping | None):
        raise RegistrationError(
            f"question {text!r}: metadata must be an object such as {{'customer': 'bob'}}"
        )
    if not isinstance(action, Action | None):
        raise RegistrationError(
            f"question {text!r}: pass an Action, such as Action('send_mail', {{'to': 'bob'}})"
        )


def _check_words(text: str, **said: object) -> None:
    for name, words in said.items():
        if not isinstance(words, str | None):
            raise RegistrationError(f"question {text!r}: {name} must be a text, not {words!r}")


def _choices(text: str, options: Sequence[str | dict[str, Any]]) -> list[dict[str, Any]]:
    choices = [_choice(text, option) for option in options]
    if len({choice["value"] for choice in choices}) != len(choices):
        raise RegistrationError(f"question {text!r}: two options have the same value")
    return choices


def _choice(text: str, option: object) -> dict[str, Any]:
    given = cast("dict[str, Any]", option) if isinstance(option, dict) else {}
    choice = {"value": option} if isinstance(option, str) else given
    if not isinstance(choice.get("value"), str):
        raise RegistrationError(
            f"question {text!r}: an option must be a text, or have a text 'value', not {option!r}"
        )
    if not choice["value"].strip():
        raise RegistrationError(
            f"question {text!r}: the value of an option is empty; give it one, such as "
            "{'value': 'none', 'label': 'None of these'}"
        )
    choice = {"label": choice["value"], **choice}
    for name in ("label", "help"):
        if not isinstance(choice.get(name, ""), str):
            raise RegistrationError(
                f"question {text!r}: the {name!r} of option {choice['value']!r} must be a text"
            )
    return choice


def _proposed(
    text: str, proposal: Any, proposal_type: Any, find_problems: FindProblems
) -> tuple[Proposal | None, dict[str, Any]]:
    """Return the proposal and the form of its approval."""
    if proposal is None:
        if proposal_type is not None:
            raise RegistrationError(f"question {text!r}: proposal_type needs a proposal")
        return None, answer_schemas.approval_form()
    schema = (
        {}
        if proposal_type is None
        else answer_schemas.form_of(text, "proposal_type", proposal_type, is_closed=True)
    )
    try:
        proposed = Proposal.of(proposal, proposal_type)
    except InvalidValue as error:
        wrong = find_problems(schema, _plain(proposal, "proposal"))
        problem = f"the proposal does not fit: {listed(wrong, 'proposal')}" if wrong else str(error)
        raise RegistrationError(f"question {text!r}: {problem}") from None
    _fitting(text, "proposal", proposed.shown, schema, find_problems)
    return proposed, answer_schemas.approval_form(schema)


def _same_as_done(text: str, proposal: Any, action: dict[str, Any] | None) -> Any:
    """Return the proposal. Refuse one that differs from the action's arguments."""
    if action is None or proposal is None or is_same(proposal, action["arguments"]):
        return proposal
    raise RegistrationError(
        f"question {text!r}: the proposal differs from the action's arguments; they must be equal"
    )


def _fitting(text: str, what: str, value: Any, schema: dict[str, Any], find_problems: FindProblems) -> Any:
    """Return a value as plain data, if it fits the schema. Raises RegistrationError."""
    if value is None:
        return None
    plain = full_json(value, what)
    wrong = find_problems(schema, plain)
    if wrong:
        raise RegistrationError(f"question {text!r}: the {what} does not fit: {listed(wrong, what)}")
    return plain


def _plain(value: Any, path: str) -> Any:
    return json.loads(codec.encode(value, path=path))
