"""What a turn has come to: it is finished, or it waits for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_ai.messages import ModelMessage

from signoff.people.questions import Question
from signoff.records import Promise

QUEUED = "queued"


@dataclass(frozen=True, slots=True)
class Pending:
    """An open question of a turn.

    Attributes:
        id: What it is answered by.
        text: What people read.
        reason: ``approval_required``, ``await_input``, ``external_event``, or what the tool has said.
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
        question = Question.from_json(promise.data or "null")
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
    said = question.metadata.get("reason")
    if isinstance(said, str):
        return said
    match question.input_type:
        case "approval":
            return "approval_required"
        case "external":
            return "external_event"
        case _:
            return "await_input"


def result_parts(result: str | None) -> Mapping[str, Any]:
    """Read what a turn's run has returned."""
    return cast("Mapping[str, Any]", json.loads(result or "{}"))
