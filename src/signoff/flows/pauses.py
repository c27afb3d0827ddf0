"""Pauses of chunks: validated at ``pause_for``, then asked as questions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast, get_args

from signoff import codec
from signoff.errors import RegistrationError
from signoff.people.questions import policy_options
from signoff.people.questions.actions import Action
from signoff.people.questions.policy_options import TYPES as TYPES_OF_POLICY
from signoff.people.questions.policy_options import check_policy_options
from signoff.people.questions.proposals import Proposal, full_json
from signoff.people.questions.question import InputType, Question
from signoff.people.schemas.answer_schemas import form_of
from signoff.records.flow_records import INTERRUPT

TYPES: Final = tuple(kind for kind in get_args(InputType) if kind != "external")

OPTIONS: Final[Mapping[str, Any]] = {
    **TYPES_OF_POLICY,
    "options": list[Any],
    "skippable": bool,
    "help": str,
    "default": Any,
    "attachments": list[dict[str, Any]],
    "other": str,
    "min_choices": int,
    "max_choices": int,
    "min_length": int,
    "max_length": int,
    "proposal": Any,
    "proposal_type": Any,
    "action": Action,
}
"""Further options of a question, with the types they are decoded as; see ``Context.wait_for_user``."""


@dataclass(frozen=True)
class Pause:
    """A pause of a chunk.

    Attributes:
        type: The kind of answer: one of ``Context.wait_for_user``, or any other word.
        payload: The data shown to people.
        resume_to: ``next``, ``self`` or ``{"event": name}``.
        interrupt_id: A chosen id.
        max_resumes: How often the chunk may run again; None: unlimited.
        schema: The schema that the answer must match.
        options: Further options of the question.
    """

    type: str
    payload: Any
    resume_to: str | dict[str, str]
    interrupt_id: str | None
    max_resumes: int | None
    schema: dict[str, Any] | None
    options: dict[str, Any]

    @property
    def event(self) -> str | None:
        """The event that the answer becomes, if any."""
        return self.resume_to["event"] if isinstance(self.resume_to, dict) else None

    def question(self, flow: str, place: str, resumes: int) -> dict[str, Any]:
        """Return the arguments of ``Context.wait_for_user`` for its question.

        Args:
            flow: The flow's name.
            place: The chunk's place in the graph.
            resumes: How often the chunk was resumed before.
        """
        options = {name: _option_of(name, value) for name, value in self.options.items()}
        is_object = isinstance(cast("object", self.payload), dict)
        payload: dict[str, Any] = self.payload if is_object else {"question": self.payload}
        text = payload.get("question", payload.get("prompt"))
        kind: str = self.type if self.type in TYPES else "form"
        if kind in ("select", "multiselect") and "options" not in options and "options" in payload:
            options["options"] = payload["options"]
        if kind == "form":
            options["answer_type"] = {} if self.schema is None else self.schema
        shown: dict[str, Any] = self.payload if is_object else {"payload": self.payload}
        about = {
            "id": self.interrupt_id,
            "type": self.type,
            "chunk": place,
            "resume_to": self.resume_to,
            "is_wrapped": not is_object,
            "resumes": resumes,
            "max_resumes": self.max_resumes,
        }
        return {
            "question": text
            if isinstance(text, str) and text.strip()
            else f"{flow}: {place} waits ({self.type})",
            "input_type": kind,
            **options,
            "metadata": {**shown, INTERRUPT: about},
        }


def plain_option(name: str, value: Any, options: Mapping[str, Any]) -> Any:
    """Return an option as plain data, which ``Pause.question`` reads.

    Args:
        name: Its name.
        value: Its value.
        options: All options of the pause.

    Raises:
        InvalidValue: A proposal does not match its type.
        NotSerializable: It cannot be represented in JSON without loss.
        RegistrationError: It is not a valid option.
    """
    if name == "proposal_type" and value is not None:
        return form_of("pause_for", name, value)
    if name == "default":
        return full_json(value, name)
    if name == "proposal":
        return Proposal.of(value, options.get("proposal_type")).shown
    if name == "action" and isinstance(value, Action):
        about = full_json(value.about, "action.about")
        return plain(
            replace(value, arguments=full_json(value.arguments, "action.arguments"), about=about), name
        )
    return policy_options.plain_option(name, value) if name in TYPES_OF_POLICY else plain(value, name)


def _option_of(name: str, value: Any) -> Any:
    if name in TYPES_OF_POLICY:
        return policy_options.read_option(name, value)
    return codec.decode(codec.encode(value), OPTIONS[name])


def plain(value: Any, path: str) -> Any:
    """Return a value as plain data.

    Raises:
        NotSerializable, PayloadTooLarge: It cannot be stored.
    """
    return json.loads(codec.encode(value, path=path))


def unchanged(value: Any, path: str) -> Any:
    """Return a value as plain data that equals it, since its readers declare no type.

    Raises:
        NotSerializable: It would come back changed.
        PayloadTooLarge: It is over the limit.
    """
    return json.loads(codec.normalize(value, path=path)[0])


def given(reader: str, value: Any, path: str) -> Any:
    """Return a value as plain data, for chunks that may declare its type.

    Raises:
        NotSerializable, PayloadTooLarge: It cannot be stored.
    """
    return json.loads(codec.encode_for(reader, value, path=path))


def checked(name: object, what: str) -> str:
    """Return a valid name.

    Raises:
        RegistrationError: It is not a text, or empty.
    """
    if not isinstance(name, str) or not name.strip():
        raise RegistrationError(f"a flow's {what} must be a text that is not empty, not {name!r}")
    return name


def check_target(target: object, listened: Collection[str], chunk: str) -> None:
    """Check the target of an answer.

    Raises:
        RegistrationError: It is not valid, or no line begins with the event.
    """
    if target in ("next", "self"):
        return
    if isinstance(target, dict) and set(cast("dict[str, object]", target)) == {"event"}:
        event = checked(cast("dict[str, object]", target)["event"], "event")
        if event not in listened:
            there = ", ".join(sorted(listened)) or "none"
            raise RegistrationError(
                f"chunk {chunk!r} resumes to event {event!r}, which no line begins with (flow.when); there are: {there}"
            )
        return
    raise RegistrationError(f"resume_to is 'next', 'self' or {{'event': name}}, not {target!r}")


_OF_THE_QUESTION: Final = (
    "input_type", "answer_type", "metadata", "options", "skippable", "help", "default", "attachments", "other",
    "min_choices", "max_choices", "min_length", "max_length", "proposal", "action",
)  # fmt: skip


def check_question(asked: Mapping[str, Any], started_by: str | None) -> None:
    """Check a question while its chunk still runs: later, the code could no longer be corrected.

    Args:
        asked: The value of ``Pause.question``.
        started_by: The user who started the execution, if known.

    Raises:
        RegistrationError: Its parts contradict each other, too few people can answer, or the requester is unknown.
        InvalidValue: A name, a number or a time is not valid.
        PayloadTooLarge: It is over the limit.
    """
    parts = {name: asked[name] for name in _OF_THE_QUESTION if name in asked}
    question = Question.make(asked["question"], **parts)
    rules = {name: asked[name] for name in TYPES_OF_POLICY if name in asked}
    if rules.get("exclude_requester") and not (rules.get("requester") or started_by):
        raise RegistrationError(
            "pause_for: exclude_requester needs to know the requester: start the execution with started_by=..., or "
            "pass requester="
        )
    check_policy_options(question.text, question.input_type, rules, question=question)
    question.to_json()
