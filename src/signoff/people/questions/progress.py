"""The progress of a question: its votes, claim, escalations and reminders so far. Stored as JSON with its promise."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from signoff.codec.strict_json import read_kept, why_unreadable_json
from signoff.errors import QuestionTooNew, UnreadableRecord
from signoff.people.questions.question_schema import Seconds


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote on a question with a quorum.

    Attributes:
        user_id: The voter.
        approved: Whether they approve.
        note: Their note.
        at: Time of the vote, in unix seconds.
        request_id: Identifies a repeated request.
    """

    user_id: str
    approved: bool
    note: str | None
    at: float
    request_id: str | None = None

    @classmethod
    def of(cls, data: dict[str, Any]) -> Vote:
        """Read a vote from JSON. Ignores fields added by newer versions."""
        return cls(**{name: value for name, value in data.items() if name in cls.__slots__})


@with_config(ConfigDict(extra="forbid"))
class _WrittenVote(TypedDict):
    user_id: str
    approved: bool
    note: NotRequired[str | None]
    at: Seconds
    request_id: NotRequired[str | None]


@with_config(ConfigDict(extra="forbid"))
class _WrittenProgress(TypedDict, total=False):
    votes: list[_WrittenVote]
    claimed_by: str | None
    escalated: int
    reminders: int
    looked: bool
    deadline: Seconds | None


@cache
def _progress() -> TypeAdapter[_WrittenProgress]:
    return TypeAdapter(_WrittenProgress)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a question.

    Attributes:
        votes: Votes so far, on a question with a quorum.
        claimed_by: The claimant. No one else can answer meanwhile.
        escalated: Number of escalations so far.
        reminders: Number of reminders so far.
        looked: Whether standing approvals were searched.
        deadline: Seconds until the ``timeout_answer`` applies, if the deadline was moved.
    """

    votes: tuple[Vote, ...] = ()
    claimed_by: str | None = None
    escalated: int = 0
    reminders: int = 0
    looked: bool = False
    deadline: float | None = None

    @classmethod
    def from_json(cls, question_id: str, text: str | None) -> Progress:
        """Read the result of ``to_json``.

        Raises:
            QuestionTooNew: A newer version wrote it.
            UnreadableRecord: It is not a known format.
        """
        if text is None:
            return cls()
        try:
            read = _progress().validate_python(read_kept(text), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            if first["type"] == "extra_forbidden":
                raise QuestionTooNew(question_id, "progress of an unknown kind") from None
            where = ".".join(map(str, ("progress", *first["loc"])))
            raise UnreadableRecord("question", question_id, f"{where}: {first['msg']}") from None
        except ValueError as error:
            raise UnreadableRecord(
                "question", question_id, f"progress: {why_unreadable_json(error)}"
            ) from None
        facts: dict[str, Any] = dict(read)
        votes: list[dict[str, Any]] = facts.pop("votes", [])
        return cls(tuple(Vote.of({"note": None, **vote}) for vote in votes), **facts)

    def to_json(self) -> str:
        """Write the fields that are set. Older versions can then read it as long as it has no new fields."""
        known = {name: value for name, value in asdict(self).items() if value}
        return json.dumps(known)
