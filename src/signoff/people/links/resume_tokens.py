"""Resume tokens: secrets by which whoever has started a turn answers what it asks, once.

A token is bound to its namespace, its session, its run and the questions that were open when it was made; only its hash
is kept. That it was used is known by its questions, too, since their answers bear a request id that is made of its id:
a crash leaves no token that was used half.

A context for the run goes with the first answer, in its transaction: it counts if that does. It is a part of the
request id, so that of two who use one token at once with different contexts one is refused.
"""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from signoff import codec
from signoff.errors import (
    AlreadySettled,
    NotFound,
    RequestConflict,
    ResumeRefused,
    SignoffError,
    StoreError,
)
from signoff.people.audit.trail import record_refusal
from signoff.people.questions.answer_checks import check_received, read_value
from signoff.people.questions.answers import answer, get_question
from signoff.people.questions.question import Question, digest_of
from signoff.people.questions.question_state import QuestionState
from signoff.people.questions.standing_approvals import Alike
from signoff.records import NewSignal, Promise, PromiseState, TokenKind
from signoff.records.responders import Responder
from signoff.records.start_options import positive_seconds
from signoff.stores.contract.store import Store
from signoff.stores.tokens import find_token, new_token

LIFETIME_SECONDS: Final = 7 * 24 * 3600.0

CONTEXT: Final = "signoff.context"
"""The signal that has a run's context from now on."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a resume token is good for.

    Attributes:
        token_id: By which it is known; no secret.
        run_id: The run that goes on.
        questions: Which questions it answers: their ids, and the digests of what was shown.
    """

    token_id: str
    run_id: str
    questions: Mapping[str, str]

    @property
    def request_id(self) -> str:
        """How the request ids of its answers begin."""
        return f"resume:{self.token_id}"

    def answer_id(self, question_id: str, attempt: Attempt) -> str:
        """Return the request id of an attempt's answer to one of its questions."""
        return f"{self._begin_of(question_id, attempt)}{attempt.nonce}"

    def has_given(self, promise: Promise, attempt: Attempt) -> bool:
        """Whether the same person has answered a question by this token before, with the same context."""
        known, by = promise.request_id or "", attempt.responder.user_id
        return known.startswith(self._begin_of(promise.id, attempt)) and promise.settled_by == by

    def _begin_of(self, question_id: str, attempt: Attempt) -> str:
        parts = [self.request_id, *([] if attempt.fingerprint is None else [attempt.fingerprint])]
        return ":".join([*parts, str(list(self.questions).index(question_id)), ""])

    def has_settled(self, promise: Promise) -> bool:
        """Whether a question was answered by this token, with whatever context."""
        known = promise.request_id
        return known is not None and (known == self.request_id or known.startswith(f"{self.request_id}:"))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One use of a token. Those of several people are told apart, also if all of them say the same.

    Attributes:
        responder: Who answers.
        fingerprint: Tells its context from others.
        nonce: Tells it from others.
    """

    responder: Responder
    fingerprint: str | None = None
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer to one of the questions of a resume token."""

    value: Any
    note: str | None = None
    alike: Alike | None = None


class ResumptionBackend(Protocol):
    """What knows resume tokens: a store in this process, or a server."""

    async def create_resumption(
        self, session_id: str, run_id: str, questions: Collection[Promise], *, lifetime_seconds: float
    ) -> str: ...
    async def find_resumption(self, session_id: str, secret: str) -> Resumption: ...
    async def check_responses(
        self, session_id: str, secret: str, responses: Mapping[str, Response], responder: Responder
    ) -> None: ...
    async def resume(
        self,
        session_id: str,
        secret: str,
        responses: Mapping[str, Response],
        responder: Responder,
        context: Mapping[str, Any] | None = None,
    ) -> None: ...


async def create_resumption(
    store: Store,
    session_id: str,
    run_id: str,
    questions: Collection[Promise],
    *,
    lifetime_seconds: float = LIFETIME_SECONDS,
) -> str:
    """Make a token by which open questions are answered once; returns the secret, which nobody can be told again.

    Args:
        store: Where the questions are.
        session_id: The session it is good in.
        run_id: The run that goes on.
        questions: The questions.
        lifetime_seconds: How long it is good.

    Raises:
        InvalidValue: The lifetime is not a number of seconds above 0.
    """
    positive_seconds("lifetime_seconds", lifetime_seconds)
    shown = {each.id: digest_of(each) for each in questions}
    data = {"session": session_id, "run": run_id, "questions": shown}
    expires_at = store.clock.now() + lifetime_seconds
    secret, new = new_token(TokenKind.RESUME, f"run:{run_id}", data=json.dumps(data), expires_at=expires_at)
    await store.create_token(new)
    return secret


async def find_resumption(store: Store, session_id: str, secret: str) -> Resumption:
    """Return what a token is good for. Nothing is changed.

    Raises:
        ResumeRefused: It is unknown, used, too old, or of another session or namespace.
    """
    token = await find_token(store, TokenKind.RESUME, secret)
    if token is None or token.namespace != store.namespace:
        raise ResumeRefused("unknown")
    data: dict[str, Any] = json.loads(token.data or "{}")
    found = Resumption(token.id, data["run"], data["questions"])
    reason: str | None = None
    by: str | None = None
    if data["session"] != session_id:
        reason = "foreign"
    elif token.revoked_at is not None:
        reason = "used"
        by = await _user_of(store, found)
    elif not token.is_open(store.clock.now()):
        reason = "expired"
    if reason is not None:
        refusal = ResumeRefused(reason, by=by)
        await _record(store, found, refusal)
        raise refusal
    return found


async def resume(
    store: Store,
    session_id: str,
    secret: str,
    responses: Mapping[str, Response],
    responder: Responder,
    context: Mapping[str, Any] | None = None,
) -> None:
    """Answer the questions of a token, and have it open nothing any more.

    All answers are checked before the first one is given.

    Args:
        store: Where the questions are.
        session_id: The session.
        secret: The token.
        responses: The answers by the questions' ids, to all that are open.
        responder: Who answers.
        context: What the context of the token's run is from the first answer on; None leaves it.

    Raises:
        ResumeRefused: As ``find_resumption`` does; or a question is none of the token's, or one that is open has no
            answer, or it was used meanwhile. Of several people who use it at once, one succeeds; the others learn who.
        SignoffError: What ``answer`` refuses. The token is as good as before.
        NotSerializable, PayloadTooLarge: The context cannot be stored.
    """
    text = None if context is None else codec.encode(dict(context), path="context")
    resumption = await find_resumption(store, session_id, secret)
    fingerprint, signal = None, None
    if text is not None:
        fingerprint = _fingerprint(secret, text)
        signal = NewSignal(resumption.run_id, CONTEXT, text, responder.user_id)
    attempt = Attempt(responder, fingerprint)
    given = await _check(store, resumption, responses, attempt)
    is_mine = False
    for id, response in responses.items():
        request_id = given.get(id) or resumption.answer_id(id, attempt)
        try:
            await answer(
                store,
                id,
                response.value,
                user_id=responder.user_id,
                groups=responder.groups,
                roles=responder.roles,
                note=response.note,
                request_id=request_id,
                digest=resumption.questions[id],
                alike=response.alike,
                signal=signal,
            )
        except (AlreadySettled, RequestConflict):
            promise = await get_question(store, id)
            if resumption.has_settled(promise):
                raise ResumeRefused("used", by=promise.settled_by) from None
            raise
        is_mine |= id not in given or responder.user_id is not None
        signal = None
    if not is_mine:  # somebody unnamed has given all answers: that was another one, as far as can be known
        raise ResumeRefused("used")
    await store.revoke_token(resumption.token_id)


def _fingerprint(secret: str, context: str) -> str:
    """Tell a context from others, and nobody what is in it."""
    return hmac.new(secret.encode(), context.encode(), "sha256").hexdigest()[:32]


async def check_responses(
    store: Store,
    session_id: str,
    secret: str,
    responses: Mapping[str, Response],
    responder: Responder,
) -> Resumption:
    """Say why answers would not be taken, or what their token is good for. No question is changed.

    Raises:
        ResumeRefused, NotAllowed, QuestionClaimed, WrongAnswer, AlreadySettled
    """
    resumption = await find_resumption(store, session_id, secret)
    await _check(store, resumption, responses, Attempt(responder))
    return resumption


async def _check(
    store: Store, resumption: Resumption, responses: Mapping[str, Response], attempt: Attempt
) -> dict[str, str]:
    """Check all answers. Returns the request ids of those that were given before, by a use that was cut off."""
    if unknown := [id for id in responses if id not in resumption.questions]:
        raise ResumeRefused("question", unknown)
    given: dict[str, str] = {}
    for id, response in responses.items():
        promise = await get_question(store, id)
        if promise.state is not PromiseState.PENDING and resumption.has_given(promise, attempt):
            given[id] = promise.request_id or ""
            continue  # ``answer`` knows whether this is the same once more
        try:
            await _check_response(store, resumption, promise, response, attempt.responder)
        except SignoffError as error:
            request_id = resumption.answer_id(id, attempt)
            await record_refusal(store, promise, attempt.responder.user_id, error, request_id=request_id)
            raise
    if missing := [
        each for each in resumption.questions if each not in responses and await _is_open(store, each)
    ]:
        refusal = ResumeRefused("missing", missing)
        await _record(store, resumption, refusal, attempt.responder.user_id)
        raise refusal
    return given


async def _user_of(store: Store, resumption: Resumption) -> str | None:
    """Return who has used a token, if they said."""
    for id in resumption.questions:
        try:
            promise = await get_question(store, id)
        except NotFound:
            continue
        if resumption.has_settled(promise):
            return promise.settled_by
    return None


async def _is_open(store: Store, question_id: str) -> bool:
    try:
        return (await get_question(store, question_id)).state is PromiseState.PENDING
    except NotFound:
        return False


async def _check_response(
    store: Store,
    resumption: Resumption,
    promise: Promise,
    response: Response,
    responder: Responder,
) -> None:
    if promise.state is not PromiseState.PENDING:
        if resumption.has_settled(promise):
            raise ResumeRefused("used", by=promise.settled_by)
        raise AlreadySettled(promise.id, promise.state.value, promise.settled_by, promise.settled_at)
    QuestionState.of(promise, store.clock.now()).check_responder(responder)
    question = Question.of(promise)
    value = read_value(question, response.value)
    await check_received(promise.id, question, value, resumption.questions[promise.id])


async def _record(
    store: Store, resumption: Resumption, refusal: ResumeRefused, by: str | None = None
) -> None:
    """Record with its questions that somebody came with a token and was refused."""
    for id in resumption.questions:
        try:
            question = await get_question(store, id)
        except (NotFound, StoreError):
            continue
        await record_refusal(store, question, by, refusal, request_id=resumption.request_id, attempt="resume")
