"""Slack's requests: verifies their signature, and reads clicks and submitted modals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from pydantic import BaseModel, Field
from slack_sdk.signature import SignatureVerifier

from signoff.codec.strict_json import read_exactly
from signoff.errors import AccessDenied, InvalidValue
from signoff.people.notifications.channels.slack import ANSWER, APPROVE, MODAL, REJECT, Answering
from signoff.people.notifications.channels.slack_inputs import Entered
from signoff.records import Origin, OriginWay
from signoff.records.names import check_optional_text

LONGEST_BODY: Final = 256 * 1024
LONGEST_PIECE: Final = 64  # characters of each part of a request id
LONGEST_TRIGGER: Final = 500


class _User(BaseModel):
    id: str = Field(min_length=1, max_length=LONGEST_PIECE)
    team_id: str = Field(default="", max_length=LONGEST_PIECE)


class _Action(BaseModel):
    action_id: str = ""
    value: str = ""
    action_ts: str = Field(default="", max_length=LONGEST_PIECE)


class _View(BaseModel):
    id: str = Field(min_length=1, max_length=LONGEST_PIECE)
    callback_id: str = ""
    private_metadata: str = ""
    state: Entered = Field(default_factory=Entered)


class _Payload(BaseModel):
    type: str
    user: _User
    actions: list[_Action] = Field(default_factory=list[_Action])
    response_url: str = ""
    trigger_id: str = Field(default="", max_length=LONGEST_TRIGGER)
    view: _View | None = None


class Meant(BaseModel):
    """What a button or a modal carries: the question, as the user saw it.

    Attributes:
        id: The question's id.
        digest: Digest of the question that the user saw.
        response_url: URL for replies in the channel of the message; empty: there is none.
    """

    id: str
    digest: str
    response_url: str = ""


@dataclass(frozen=True, kw_only=True)
class SlackRequest:
    """A user's request about a question, signed by Slack.

    Attributes:
        team: Slack id of the user's team.
        user: Slack id of the user.
        question_id: The question's id.
        digest: Digest of the question that the user saw.
        request_id: Stays the same if the request is sent again, by Slack or by anyone who recorded it.
        response_url: URL for the reply.
    """

    team: str
    user: str
    question_id: str
    digest: str
    request_id: str
    response_url: str

    def origin(self, address: str | None) -> Origin:
        """Return the origin of the user's operations, from an IP address."""
        return Origin(OriginWay.SLACK, f"{self.team}:{self.user}", address=address)


@dataclass(frozen=True, kw_only=True)
class Click(SlackRequest):
    """A click on a button that decides. ``approved`` is the decision."""

    approved: bool


@dataclass(frozen=True, kw_only=True)
class Opening(SlackRequest):
    """A click on the button that opens a modal. Slack accepts ``trigger_id`` for 3 seconds, and once."""

    trigger_id: str


@dataclass(frozen=True, kw_only=True)
class Submission(SlackRequest):
    """A submitted modal, and what the user has entered."""

    entered: Entered


def check_signature(
    answering: Answering, body: bytes, timestamp: str | None, signature: str | None, now: float
) -> None:
    """Raise AccessDenied unless Slack has signed these bytes in the last five minutes."""

    class Now:
        def now(self) -> float:
            return now

    verifier = SignatureVerifier(answering.signing_secret, Now())  # pyright: ignore[reportArgumentType]
    try:
        is_valid = verifier.is_valid(body, timestamp, signature)
    except (ValueError, TypeError, OverflowError):  # malformed timestamp or signature
        is_valid = False
    if not is_valid:
        raise AccessDenied(
            "an answer from Slack", "the signature is missing, invalid, or older than 5 minutes"
        )


def read_request(body: bytes) -> Click | Opening | Submission | None:
    """Return the request in a signed body; None for requests about other things. Raises InvalidValue."""
    try:
        form = parse_qs(body.decode(), max_num_fields=10)
        payload = _Payload.model_validate(read_exactly(_only(form["payload"])))
        if payload.type == "view_submission":
            return _submission(payload)
        return _click(payload) if payload.type == "block_actions" else None
    except (ValueError, KeyError, RecursionError):
        raise InvalidValue("payload", "not a valid Slack payload of Signoff's buttons and modals") from None


def _click(payload: _Payload) -> Click | Opening | None:
    clicked = [each for each in payload.actions if each.action_id in (APPROVE, REJECT, ANSWER)]
    if not clicked:
        return None
    action, user = clicked[0], payload.user
    meant = _meant(action.value)
    asked = {
        "team": user.team_id,
        "user": user.id,
        "question_id": meant.id,
        "digest": meant.digest,
        "request_id": f"slack:{user.team_id}:{user.id}:{action.action_ts}",
        "response_url": payload.response_url,
    }
    if action.action_id == ANSWER:
        return Opening(**asked, trigger_id=payload.trigger_id)
    return Click(**asked, approved=action.action_id == APPROVE)


def _submission(payload: _Payload) -> Submission | None:
    view, user = payload.view, payload.user
    if view is None or view.callback_id != MODAL:
        return None
    meant = _meant(view.private_metadata)
    return Submission(
        team=user.team_id,
        user=user.id,
        question_id=meant.id,
        digest=meant.digest,
        request_id=f"slack:{user.team_id}:{user.id}:{view.id}",
        response_url=meant.response_url,
        entered=view.state,
    )


def _meant(text: str) -> Meant:
    meant = Meant.model_validate(read_exactly(text))
    check_optional_text("id", meant.id)
    return meant


def _only(values: list[str]) -> str:
    """Return a field's only value. Raises ValueError if there are several."""
    [value] = values
    return value
