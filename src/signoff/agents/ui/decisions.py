"""Questions as a chat shows them, and the decisions that a chat sends back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from signoff import codec
from signoff.agents.conversations.conversation import Conversation
from signoff.agents.conversations.outcomes import Pending
from signoff.agents.conversations.replies import Approve, Decision, Deny, Edit, Reply
from signoff.agents.conversations.resumed_answers import question_of
from signoff.agents.conversations.session_turns import SessionTurns
from signoff.agents.ui.chats import Caller
from signoff.client.async_client import AsyncClient
from signoff.errors import AlreadySettled, InvalidValue, NotFound, WrongAnswer
from signoff.people.questions.question import Question, digest_of
from signoff.records import Promise

MOST_ANSWERS: Final = 100
"""Answers in a request."""

_SEPARATOR: Final = "~"


class ApprovalPayload(BaseModel):
    """The answer to an approval. A decision that is missing, or no bool, is refused."""

    model_config = ConfigDict(extra="forbid")

    approved: StrictBool
    edited_args: Annotated[dict[str, Any] | None, Field(alias="editedArgs")] = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """An open question.

    Attributes:
        id: Its id in the chat: it carries the digest of the question, so an answer states what the person saw.
        pending: The question.
        tool_call_id: The turn's call that it is about, if any; a sub-agent's calls are none of the turn's.
        response_schema: The JSON Schema of the answer.
        expires_at: Its deadline as ISO 8601, if any.
        assignees: The people who may answer; empty: anyone.
    """

    id: str
    pending: Pending
    tool_call_id: str | None
    response_schema: Mapping[str, Any]
    expires_at: str | None
    assignees: tuple[str, ...]

    @classmethod
    def of(cls, promise: Promise, turn: str) -> Shown:
        """Read an open question of a turn, or of its sub-agents."""
        question = Question.of(promise)
        due = promise.due_at
        return cls(
            id=f"{promise.id}{_SEPARATOR}{digest_of(promise) or ''}",
            pending=Pending.of(promise),
            tool_call_id=question.metadata.get("tool_call_id") if promise.run_id == turn else None,
            response_schema=_schema_of(question),
            expires_at=None if due is None else datetime.fromtimestamp(due, UTC).isoformat(),
            assignees=promise.assignees,
        )

    @property
    def is_approval(self) -> bool:
        """Whether it asks to allow a call."""
        return self.pending.input_type == "approval"


@dataclass(frozen=True, slots=True)
class Said:
    """A chat's answer to a question.

    Attributes:
        shown_id: The question's id in the chat.
        payload: The answer; None for a cancelled question.
        is_cancelled: Whether the person has dismissed the question instead of answering it.
    """

    shown_id: str
    payload: Any
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that came too late: another one counts.

    Attributes:
        shown_id: The question's id in the chat.
        reason: Why it was refused.
        by: The user who answered first, if known.
    """

    shown_id: str
    reason: str
    by: str | None


async def give(
    client: AsyncClient, chat: Conversation, caller: Caller, answers: list[Said]
) -> tuple[str | None, list[Refused]]:
    """Give answers in the name of a caller, once all of them have been read.

    Returns:
        The turn of the last answered question, and the answers that came too late.

    Raises:
        InvalidValue: There are too many. Nothing is answered.
        WrongAnswer: An answer is not one. Nothing is answered.
        NotFound: The session has no such question.
        NotAllowed, RequestConflict: An answer is refused. Those before it stand.
    """
    if len(answers) > MOST_ANSWERS:
        raise InvalidValue("answers", f"a request answers at most {MOST_ANSWERS} questions")
    meant: list[tuple[Said, str, str, Decision]] = []
    turns = SessionTurns(client, chat.agent, chat.session_id)
    for said in answers:
        id, _, digest = said.shown_id.rpartition(_SEPARATOR)
        if not digest:
            raise NotFound("question", said.shown_id)
        question = await question_of(client, id)
        await turns.that_asked(question)  # before the reply says anything about the question
        meant.append((said, id, digest, _decision(question, said)))
    turn: str | None = None
    late: list[Refused] = []
    for said, id, digest, decision in meant:
        try:
            turn = await chat.answer(
                id,
                decision,
                user_id=caller.user_id,
                groups=caller.groups,
                roles=caller.roles,
                request_id=_request_of(caller, said),
                digest=digest,
            )
        except AlreadySettled as error:
            late.append(Refused(said.shown_id, str(error), error.settled_by))
    return turn, late


def _request_of(caller: Caller, said: Said) -> str:
    """Return the request id of an answer: the same answer of the same person, sent again, has no further effect."""
    text = codec.encode([caller.user_id, said.shown_id, said.payload, said.is_cancelled])
    return f"chat-{codec.digest(text)[:40]}"


def _decision(promise: Promise, said: Said) -> Decision:
    question = Question.of(promise)
    if said.is_cancelled:
        if question.input_type == "approval":
            return Deny("Cancelled by the user.")
        if question.skippable:
            return Reply(None)
        raise WrongAnswer(promise.id, [("", "this question cannot be skipped: answer it, or abort the turn")])
    if question.input_type != "approval":
        payload = said.payload
        if not isinstance(payload, dict) or payload.keys() != {"value"}:  # pyright: ignore[reportUnknownMemberType]
            raise WrongAnswer(promise.id, [("", 'expected {"value": ...}')])
        return Reply(payload["value"])
    try:
        read = ApprovalPayload.model_validate(said.payload)
    except ValidationError as error:
        problems = [
            (".".join(map(str, each["loc"])), each["msg"]) for each in error.errors(include_url=False)
        ]
        raise WrongAnswer(promise.id, problems) from None
    if not read.approved:
        return Deny(read.reason)
    if read.edited_args is not None:
        return Edit(read.edited_args, read.reason)
    return Approve(read.reason)


def _schema_of(question: Question) -> Mapping[str, Any]:
    if question.input_type != "approval":
        schema = dict(question.answer_schema)
        definitions = schema.pop("$defs", None)
        form = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
        return form if definitions is None else {**form, "$defs": definitions}
    edited = question.answer_schema.get("properties", {}).get("edited")
    return {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            **({} if edited is None else {"editedArgs": edited}),
            "reason": {"type": "string"},
        },
        "required": ["approved"],
        "additionalProperties": False,
    }
