"""What a turn has come to: it is finished, or it waits for people."""

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
        id: What it is answered by.
        text: What people read.
        reason: ``approval_required``, ``await_input``, ``external_event``, or what the tool's ``pause`` has said.
        input_type: What answers it: ``approval``, ``text``, ``select``, ``multiselect``, ``form`` or ``external``.
        tool: Which tool it is about, if any.
        arguments: With which arguments.
        metadata: What else is shown.
        run_id: Which run asks it: the turn, or one of a sub-agent.
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
        """What it is about, as plain data."""
        shown = {"question_id": self.id, "question": self.text, "input_type": self.input_type}
        about = {} if self.tool is None else {"tool": self.tool, "arguments": self.arguments}
        return {**shown, **about, "metadata": dict(self.metadata)}


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn that has its answer.

    Attributes:
        output: What the agent has returned, as JSON has it.
        messages: What the turn has added to the history.
        usage: Requests, tokens and so on.
        run_id: The turn's run.
    """

    output: Any
    messages: Sequence[ModelMessage]
    usage: Mapping[str, Any]
    run_id: str


@dataclass(frozen=True, slots=True)
class Paused:
    """A turn that waits for people, and uses nothing meanwhile.

    Attributes:
        reason: Why: that of its first open question, or ``queued``: an earlier turn of the session waits.
        payload: What the first open question is about.
        pending: All open questions of the turn.
        resume_token: A secret by which they are answered once.
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
    """Return the answer to a question which says no more than that something has happened; UNSET: it takes more."""
    if _reason_of(question) != "external_event":
        return UNSET
    if question.skippable:
        return None
    nothing = {"result": None}
    return nothing if _is_for_result(question) and not problems(question.answer_schema, nothing) else UNSET


def _is_of_pause(question: Question) -> bool:
    """Whether a tool's ``pause`` asks. Before such questions were marked, their metadata alone told them."""
    metadata = question.metadata
    if metadata.get("reason") not in REASONS:
        return False
    looks_so = metadata.keys() >= {"payload", *_OF_CALL} and question.proposal is None
    return MARK in metadata or (looks_so and not _is_for_result(question))


def _is_for_result(question: Question) -> bool:
    """Whether the result of a call that is made elsewhere is asked for."""
    fields = question.answer_schema.get("properties", {})
    return (
        question.input_type == "form" and fields.keys() == {"result"} and question.metadata.keys() >= _OF_CALL
    )


_OF_CALL: Final = frozenset({"tool", "arguments", "tool_call_id"})


def result_parts(result: str | None) -> Mapping[str, Any]:
    """Read what a turn's run has returned."""
    return cast("Mapping[str, Any]", json.loads(result or "{}"))
