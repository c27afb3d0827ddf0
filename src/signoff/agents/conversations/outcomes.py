"""The outcome of a turn: it is finished, or it waits for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic_ai.messages import ModelMessage

from signoff.agents.pausing.pause import MARK, REASONS
from signoff.people.questions.policies import UNSET
from signoff.people.questions.question import Question
from signoff.people.schemas.validation import problems
from signoff.records import Promise

QUEUED = "queued"


@dataclass(frozen=True, slots=True)
class Pending:
    """An open question of a turn.

    Attributes:
        id: The question's id, used to answer it.
        text: The question's text.
        reason: ``approval_required``, ``await_input``, ``external_event``, or the reason of the tool's ``pause``.
        input_type: The form of the answer: ``approval``, ``text``, ``select``, ``multiselect``, ``form`` or
            ``external``.
        tool: The tool it is about, if any.
        arguments: The arguments of the tool's call.
        metadata: Further data that is shown.
        run_id: The run that asks it: the turn's, or a sub-agent's.
    """

    id: str
    text: str
    reason: str
    input_type: str
    tool: str | None
    arguments: Mapping[str, Any] | None
    metadata: Mapping[str, Any]
    run_id: str

    @classmethod
    def of(cls, promise: Promise) -> Pending:
        """Read an open question."""
        question = Question.of(promise)
        action: Mapping[str, Any] = question.action or question.metadata
        return cls(
            id=promise.id,
            text=question.text,
            reason=_reason_of(question),
            input_type=question.input_type,
            tool=cast("str | None", action.get("tool")),
            arguments=cast("Mapping[str, Any] | None", action.get("arguments")),
            metadata=question.metadata,
            run_id=promise.run_id or "",
        )

    @property
    def payload(self) -> dict[str, Any]:
        """The question's content, as plain data."""
        shown = {"question_id": self.id, "question": self.text, "input_type": self.input_type}
        about = {} if self.tool is None else {"tool": self.tool, "arguments": self.arguments}
        return {**shown, **about, "metadata": dict(self.metadata)}


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished turn.

    Attributes:
        output: The agent's output, as JSON data.
        messages: The messages that the turn added to the history.
        usage: Requests, tokens and so on.
        run_id: The turn's run.
    """

    output: Any
    messages: Sequence[ModelMessage]
    usage: Mapping[str, Any]
    run_id: str


@dataclass(frozen=True, slots=True)
class Paused:
    """A turn that waits for people. It uses no resources meanwhile.

    Attributes:
        reason: The reason of its first open question; ``queued`` if an earlier turn of the session waits.
        payload: The content of the first open question.
        pending: All open questions of the turn.
        resume_token: A secret that answers them once.
        run_id: The turn's run.
    """

    reason: str
    payload: Mapping[str, Any]
    pending: Sequence[Pending]
    resume_token: str = field(repr=False)
    run_id: str


Outcome = Finished | Paused


def _reason_of(question: Question) -> str:
    if _is_of_pause(question):
        return question.metadata["reason"]
    if question.input_type == "approval":
        return "approval_required"
    return (
        "external_event" if question.input_type == "external" or _is_for_result(question) else "await_input"
    )


def said_of_event(question: Question) -> object:
    """Return the answer that only confirms an external event; UNSET if the question needs more than that."""
    if _reason_of(question) != "external_event":
        return UNSET
    if question.skippable:
        return None
    nothing = {"result": None}
    return nothing if _is_for_result(question) and not problems(question.answer_schema, nothing) else UNSET


def _is_of_pause(question: Question) -> bool:
    """Whether a tool's ``pause`` asks. Unmarked questions of older runs are recognized by their metadata."""
    metadata = question.metadata
    if metadata.get("reason") not in REASONS:
        return False
    looks_so = metadata.keys() >= {"payload", *_OF_CALL} and question.proposal is None
    return MARK in metadata or (looks_so and not _is_for_result(question))


def _is_for_result(question: Question) -> bool:
    """Whether a question asks for the result of a call that runs elsewhere."""
    fields = question.answer_schema.get("properties", {})
    return (
        question.input_type == "form" and fields.keys() == {"result"} and question.metadata.keys() >= _OF_CALL
    )


_OF_CALL: Final = frozenset({"tool", "arguments", "tool_call_id"})


def result_parts(result: str | None) -> Mapping[str, Any]:
    """Read the result of a turn's run."""
    return cast("Mapping[str, Any]", json.loads(result or "{}"))
