"""Tasks: runs, their open questions and their results as the protocol has them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from a2a.helpers.proto_helpers import new_text_part
from a2a.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus

from signoff import AsyncClient, Promise, Question, Run, RunState
from signoff.errors import NotFound
from signoff.integrations.a2a.agent import A2AAgent, Caller, context_of
from signoff.integrations.a2a.parts import part_of
from signoff.people.questions.question import digest_of

MOST_SHOWN: Final = 20
"""Open questions in a task. The oldest come first."""

_ENDED: Final = {
    RunState.SUCCEEDED: TaskState.TASK_STATE_COMPLETED,
    RunState.FAILED: TaskState.TASK_STATE_FAILED,
    RunState.CANCELLED: TaskState.TASK_STATE_CANCELED,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A task's run and its open questions, as they are now."""

    run: Run
    questions: Sequence[Promise]

    @property
    def is_stopped(self) -> bool:
        """Whether it has ended or waits for an answer."""
        return self.run.state.is_final or bool(self.questions)


async def find(client: AsyncClient, agent: A2AAgent, caller: Caller, task_id: str) -> Found:
    """Read a task of a caller. Raises NotFound, also for tasks of others."""
    run = await client.backend.get_run(task_id)
    if not agent.owns(run, caller):
        raise NotFound("task", task_id)
    if run.state.is_final:
        return Found(run, ())
    page = await client.questions(run_id=task_id, limit=MOST_SHOWN)
    while not page.items and page.next is not None:  # a page may be empty, and not the last one
        page = await client.questions(run_id=task_id, after=page.next, limit=MOST_SHOWN)
    whole = [await client.promises.get(each.id) if each.left_out else each for each in page.items]
    return Found(run, whole)


def task_of(
    agent: A2AAgent, caller: Caller, found: Found, problems: Sequence[str] = (), *, has_artifacts: bool = True
) -> Task:
    """Return a task as its caller sees it.

    Args:
        agent: The agent.
        caller: The caller.
        found: Its run and open questions.
        problems: Why an answer was refused, for the status message.
        has_artifacts: Whether to add the result.
    """
    run = found.run
    return Task(
        id=run.id,
        context_id=context_of(run.id),
        status=status_of(agent, caller, found, problems),
        artifacts=artifacts_of(run) if has_artifacts else [],
    )


def artifacts_of(run: Run) -> list[Artifact]:
    """Return the result of a run that has succeeded; a run without a result has no artifact."""
    value = json.loads(run.result) if run.state is RunState.SUCCEEDED and run.result else None
    return [] if value is None else [Artifact(artifact_id="result", name="result", parts=[part_of(value)])]


def status_of(agent: A2AAgent, caller: Caller, found: Found, problems: Sequence[str] = ()) -> TaskStatus:
    """Return the status of a task."""
    run, parts = found.run, [new_text_part(each) for each in problems]
    at = run.ended_at
    if run.state.is_final:
        state = _ENDED[run.state]
        if (reason := _reason(run)) is not None:
            parts.append(new_text_part(reason))
    elif found.questions:
        state = TaskState.TASK_STATE_INPUT_REQUIRED
        at = max(each.created_at for each in found.questions)
        for each in found.questions:
            parts += _shown(agent, caller, each)
    elif run.is_delayed or (run.state is RunState.READY and run.epoch == 0):
        state, at = TaskState.TASK_STATE_SUBMITTED, run.created_at
    else:
        state = TaskState.TASK_STATE_WORKING
    status = TaskStatus(state=state)
    if at is not None:
        status.timestamp.FromDatetime(datetime.fromtimestamp(at, UTC))
    if parts:
        status.message.CopyFrom(_message(run.id, parts))
    return status


def _message(task_id: str, parts: list[Part]) -> Message:
    content = b"".join(part.SerializeToString(deterministic=True) for part in parts)
    return Message(
        message_id=f"{task_id[:60]}-{hashlib.sha256(content).hexdigest()[:16]}",
        task_id=task_id,
        context_id=context_of(task_id),
        role=Role.ROLE_AGENT,
        parts=parts,
    )


def _reason(run: Run) -> str | None:
    """Say how a run ended, without the message of its error, which may hold secrets."""
    if run.state is RunState.FAILED:
        kind = str(json.loads(run.error or "{}").get("type", "")).rpartition(":")[2]
        return f"The run failed ({kind or 'unknown error'}). Its operators can see why."
    return "The run was cancelled." if run.state is RunState.CANCELLED else None


def _shown(agent: A2AAgent, caller: Caller, promise: Promise) -> list[Part]:
    question = Question.of(promise)
    is_callers = agent.may_answer(caller, promise)
    about: dict[str, Any] = {"question_id": promise.id, "text": question.text, "answered_by": "people"}
    if promise.assignees:
        about["assignees"] = list(promise.assignees)
    if promise.due_at is not None:
        about["expires_at"] = datetime.fromtimestamp(promise.due_at, UTC).isoformat()
    if not is_callers:
        who = ", ".join(promise.assignees) or "a person"
        text = f"{question.text}\n\n{who} must answer this in the inbox. A message cannot answer it."
        return [part_of_text(text), part_of({"question": about})]
    digest = digest_of(promise)
    optional = {
        "options": list(question.options),
        "help": question.help,
        "default": question.default,
        "attachments": list(question.attachments),
        "metadata": question.metadata,
        "proposal": question.proposal,
        "action": question.action,
    }
    about |= {
        "answered_by": "caller",
        "input_type": question.input_type,
        "schema": question.answer_schema,
        "digest": digest,
        "skippable": question.skippable,
        "answer_with": {
            "question_id": promise.id,
            "digest": digest,
            "value": "a value that matches the schema",
        },
    }
    about |= {name: value for name, value in optional.items() if value}
    return [part_of_text(question.text), part_of({"question": about})]


def part_of_text(text: str) -> Part:
    """Return a text part; characters that the protocol cannot carry are escaped."""
    return new_text_part(text.encode("utf-8", "backslashreplace").decode())
