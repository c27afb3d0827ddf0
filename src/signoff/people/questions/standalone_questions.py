"""Questions of no run: a program of any kind asks them under an id of its choice, and comes back for the answer.

A question is asked again with its id after a crash, a time-out of the caller or by a second process: with the same
terms it is the same question. Its row keeps a digest of its terms beside what other questions keep.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

from signoff import codec
from signoff.codec.strict_json import read_object
from signoff.errors import IdConflict, InvalidValue, RegistrationError
from signoff.people.questions.actions import Action
from signoff.people.questions.answer_checks import checked_default
from signoff.people.questions.attachments import Attachment
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.policies import Policy
from signoff.people.questions.policy_options import TYPES, PolicyOptions, plain_option, read_options
from signoff.people.questions.question import TERMS, FindProblems, Question
from signoff.people.questions.question_schema import InputType
from signoff.people.questions.question_state import excluded_users
from signoff.people.schemas.validation import problems, problems_if_light
from signoff.people.schemas.validation_process import problems_apart, schema_problem_apart
from signoff.records import NewPromise, Promise, PromiseKind
from signoff.records.names import check_user
from signoff.records.start_options import check_flag, check_id, check_timeout

SCHEMAS: Final[Mapping[str, str]] = {"answer_schema": "answer_type", "proposal_schema": "proposal_type"}
"""The JSON Schemas of plain terms, and the arguments that they are given as."""


_AS_GIVEN: Final = ("skippable", "help", "other", "min_choices", "max_choices", "min_length", "max_length")


class QuestionTerms(PolicyOptions, total=False):
    """The arguments of ``Context.wait_for_user`` beside the question's text."""

    input_type: InputType
    options: Sequence[str | dict[str, Any]]
    answer_type: Any
    metadata: dict[str, Any] | None
    skippable: bool
    help: str | None
    default: Any
    attachments: Sequence[Attachment]
    other: str | None
    min_choices: int | None
    max_choices: int | None
    min_length: int | None
    max_length: int | None
    proposal: Any
    proposal_type: Any
    action: Action | None


PARTS: Final = QuestionTerms.__annotations__.keys() - TYPES.keys()


@dataclass(frozen=True, slots=True)
class StandaloneQuestion:
    """A question to be asked.

    Attributes:
        question: The question.
        policy: Its policy, as declared: in seconds of working time if there are business hours.
        given: Its terms, without those that are None.
    """

    question: Question
    policy: Policy
    given: Mapping[str, Any]

    @classmethod
    def make(
        cls, text: str, terms: QuestionTerms, *, find_problems: FindProblems = problems
    ) -> StandaloneQuestion:
        """Check the terms of a question. ``Context.wait_for_user`` documents them.

        Args:
            text: The question's text.
            terms: Its terms.
            find_problems: Checks the default, the proposal and the answer at the deadline.

        Raises:
            RegistrationError: They contradict each other, or one is unknown.
            InvalidValue: A name, a number or a time is not valid.
            NotSerializable: A part is not JSON.
        """
        given: dict[str, Any] = {
            name: value
            for name, value in cast("Mapping[str, Any]", terms).items()
            if value is not None or name == "timeout_answer"  # which None may be: skipped
        }
        unknown = given.keys() - PARTS - TYPES.keys()
        if unknown:
            raise RegistrationError(f"question {text!r}: {min(unknown)!r} is not an argument of a question")
        check_timeout("timeout_seconds", given.get("timeout_seconds"))
        parts: dict[str, Any] = {name: given[name] for name in PARTS & given.keys()}
        question = Question.make(text, **parts, find_problems=find_problems)
        options = {name: given[name] for name in TYPES.keys() & given.keys()}
        asked = cls(question, policy_of(question, options, find_problems), given)
        if asked.hours is not None:
            asked.policy.in_hours(
                asked.hours, time.time(), asked.timeout_seconds
            )  # raises here, before it is sent
        return asked

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> StandaloneQuestion:
        """Read the result of ``to_plain``, or the terms that an HTTP caller has written. Blocks: values and schemas are
        checked in another process.

        Raises:
            InvalidValue: A term is not valid, or they contradict each other.
            NotSerializable: A part is not JSON.
        """
        terms = {SCHEMAS.get(name, name): value for name, value in plain.items() if name != "text"}
        for name in SCHEMAS.keys() & plain.keys():
            wrong = schema_problem_apart(plain[name])
            if wrong is not None:
                raise InvalidValue(name, wrong)
        options = read_options({name: terms[name] for name in TYPES.keys() & terms.keys()})
        if terms.get("action") is not None:
            terms["action"] = _to_action(terms["action"])
        try:
            return cls.make(plain["text"], cast("QuestionTerms", {**terms, **options}), find_problems=_apart)
        except RegistrationError as error:
            raise InvalidValue("question", str(error)) from None

    def to_plain(self) -> dict[str, Any]:
        """Return the terms as plain data: types as JSON Schemas, the proposal as people see it."""
        asked, given = self.question, self.given
        plain = {
            "text": asked.text,
            "input_type": asked.input_type,
            "metadata": asked.metadata,
            "default": asked.default,
            "attachments": list(asked.attachments),
            "proposal": asked.proposal,
            **{name: given[name] for name in _AS_GIVEN if name in given},
            **{name: plain_option(name, given[name]) for name in TYPES if name in given},
        }
        if asked.options:
            plain["options"] = list(asked.options)
        if asked.input_type == "form":
            plain["answer_schema"] = asked.answer_schema
        if "proposal_type" in given:
            plain["proposal_schema"] = asked.proposal_schema
        if "action" in given:
            plain["action"] = json.loads(codec.encode(asdict(given["action"]), path="action"))
        return {name: part for name, part in plain.items() if part is not None or name == "timeout_answer"}

    @property
    def hours(self) -> BusinessHours | None:
        """The business hours."""
        return self.given.get("hours")

    @property
    def timeout_seconds(self) -> float | None:
        """The deadline, in seconds of working time if there are business hours."""
        return self.given.get("timeout_seconds")

    @property
    def declared(self) -> Any:
        """The type of the form or of the proposal."""
        return self.given.get("proposal_type", self.given.get("answer_type"))

    def new_promise(self, id: str, now: float) -> NewPromise:
        """Return the promise to be created.

        Args:
            id: The chosen id.
            now: The time, in unix seconds.

        Raises:
            InvalidValue: The id is not valid, or there is too little working time.
        """
        policy, closes_after = self.policy, self.timeout_seconds
        if self.hours is not None:
            policy = policy.in_hours(self.hours, now, closes_after)
            closes_after = None if closes_after is None else self.hours.after(now, closes_after) - now
        due_at = None if closes_after is None else now + closes_after
        new = opened(
            NewPromise(check_id(id), PromiseKind.QUESTION, due_at=due_at), self.question, policy, now
        )
        return replace(new, data=self.question.to_json(replace(policy, asked_at=now), terms=self.digest))

    def check_same(self, promise: Promise) -> None:
        """Check that a promise with the id is this question.

        Raises:
            IdConflict: It asks something else, or with other terms.
        """
        kept = read_object(promise.data).get(TERMS)
        if kept != self.digest:
            raise IdConflict(promise.id, "it is a question with other terms")

    @property
    def digest(self) -> str:
        """Hash of the terms that make it the same question: explanatory parts and fields' descriptions may change."""
        rules = {
            "policy": json.loads(self.policy.to_json()),
            "assignees": self.policy.assignees,
            "hours": plain_option("hours", self.hours),
            "timeout_seconds": self.timeout_seconds,
        }
        # 60 and 60.0 are the same seconds
        written = json.loads(json.dumps(rules), parse_int=float)
        return codec.digest(
            json.dumps({"text": self.question.text, **self.question.compared, "rules": written})
        )


def policy_of(
    question: Question, options: Mapping[str, Any], find_problems: FindProblems = problems
) -> Policy:
    """Return the policy of a question that belongs to no run.

    Args:
        question: The question.
        options: Policy options. ``hours`` are left out: they follow with ``Policy.in_hours``.
        find_problems: Checks the answer at the deadline.

    Raises:
        RegistrationError: The options do not fit together, or four eyes have no requester.
        InvalidValue: A name, a number or a time is not valid.
        NotSerializable: ``timeout_answer`` is not JSON.
    """
    rest = {name: value for name, value in options.items() if name != "hours"}
    text, requester = question.text, rest.pop("requester", None)
    if requester is not None:
        check_user("requester", requester)
    if check_flag("exclude_requester", rest.pop("exclude_requester", False)):
        if requester is None:
            raise RegistrationError(f"question {text!r}: exclude_requester needs a requester")
        rest["excluded"] = excluded_users(requester)
    if "timeout_answer" in rest:
        rest["timeout_answer"] = checked_default(question, rest["timeout_answer"], find_problems)
    return Policy.make(text, input_type=question.input_type, skippable=question.skippable, **rest)


def opened(new: NewPromise, question: Question, policy: Policy, now: float) -> NewPromise:
    """Return the promise of a question with what its policy needs: assignees, and when it acts first.

    Args:
        new: The promise, with its deadline.
        question: The question.
        policy: Its policy, in seconds of any time.
        now: The time, in unix seconds.
    """
    may_be_approved_by_rule = question.action is not None and policy.quorum is None
    if policy.is_plain and not may_be_approved_by_rule:
        return new
    first_act = 0.0 if may_be_approved_by_rule else policy.first_act
    return replace(
        new,
        data=question.to_json(replace(policy, asked_at=now)),
        due_at=None if policy.deadline is not None else new.due_at,  # then it gets an answer
        assignees=policy.assignees,
        act_at=None if first_act is None else now + first_act,
    )


def _apart(schema: Mapping[str, Any], value: Any) -> list[tuple[str, str]]:
    found = problems_if_light(schema, value)
    return problems_apart(schema, value) if found is None else found


def _to_action(plain: Any) -> Action:
    known = {"tool", "arguments", "about"}
    if not isinstance(plain, dict) or not {"tool", "arguments"} <= plain.keys() <= known:
        raise InvalidValue("action", 'expected {"tool": ..., "arguments": {...}}')
    given = cast("dict[str, Any]", plain)
    if not isinstance(given["tool"], str):
        raise InvalidValue("action.tool", "expected a text")
    return Action(**given)
