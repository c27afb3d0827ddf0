"""Resume tokens: secrets with which the client that started a turn answers its questions, once.

A token is bound to its namespace, its session, its run and the questions open at its creation. Only its hash is stored.
Its use is also recorded by the questions: their answers carry a request id made of the token's id, so a crash cannot
leave a token half used.

A new context for the run is written in the transaction of the first answer, so it takes effect only with that answer.
The context is part of the request id: if two clients use one token with different contexts, one is refused.
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
    StoreError,
)
from signoff.people.audit.refusals import RefusalRecorder, record_refusal
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
"""The signal that carries a run's new context."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The contents of a resume token.

    Attributes:
        token_id: The token's id; not a secret.
        run_id: The run to resume.
        questions: The questions that it answers: their ids, and the digests of what was shown.
    """

    token_id: str
    run_id: str
    questions: Mapping[str, str]

    @property
    def request_id(self) -> str:
        """Prefix of the request ids of its answers."""
        return f"resume:{self.token_id}"

    def answer_id(self, question_id: str, attempt: Attempt) -> str:
        """Return the request id of an attempt's answer to one question."""
        return f"{self._begin_of(question_id, attempt)}{attempt.nonce}"

    def has_given(self, promise: Promise, attempt: Attempt) -> bool:
        """Whether the same person has already answered a question with this token and the same context."""
        known, by = promise.request_id or "", attempt.responder.user_id
        return known.startswith(self._begin_of(promise.id, attempt)) and promise.settled_by == by

    def _begin_of(self, question_id: str, attempt: Attempt) -> str:
        parts = [self.request_id, *([] if attempt.fingerprint is None else [attempt.fingerprint])]
        return ":".join([*parts, str(list(self.questions).index(question_id)), ""])

    def has_settled(self, promise: Promise) -> bool:
        """Whether a question was answered with this token, with any context."""
        known = promise.request_id
        return known is not None and (known == self.request_id or known.startswith(f"{self.request_id}:"))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One use of a token. The nonce distinguishes uses with equal contents.

    Attributes:
        responder: The user who answers.
        fingerprint: Hash of the context.
        nonce: Random id of the attempt.
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
    """Stores and checks resume tokens: a store in this process, or a server."""

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
    """Create a token that answers open questions once. Returns the secret, which cannot be recovered later.

    Args:
        store: The questions' store.
        session_id: The session it is valid in.
        run_id: The run to resume.
        questions: The questions.
        lifetime_seconds: The token's lifetime.

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
    """Return the contents of a token. Nothing is changed.

    Raises:
        ResumeRefused: It is unknown, used, expired, or belongs to another session or namespace.
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
    """Answer the questions of a token, and invalidate it.

    All answers are checked before the first one is given.

    Args:
        store: The questions' store.
        session_id: The session.
        secret: The token.
        responses: The answers by question id, for all questions that are open.
        responder: The user who answers.
        context: New context of the run, in effect from the first answer on; None keeps the old one.

    Raises:
        ResumeRefused: As in ``find_resumption``; or an answer is for a question outside the token, an open question has
            no answer, or the token was used meanwhile. If several people use it at once, one succeeds, and the error
            names that user to the others.
        SignoffError: ``answer`` refused an answer. The token can still be used.
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
    if not is_mine:  # an unnamed user gave all answers before: it cannot be proven to be this one
        raise ResumeRefused("used")
    await store.revoke_token(resumption.token_id)


def _fingerprint(secret: str, context: str) -> str:
    """Return a keyed hash that identifies a context without revealing it."""
    return hmac.new(secret.encode(), context.encode(), "sha256").hexdigest()[:32]


async def check_responses(
    store: Store,
    session_id: str,
    secret: str,
    responses: Mapping[str, Response],
    responder: Responder,
) -> Resumption:
    """Check answers, and return the contents of their token. No question is changed.

    Raises:
        ResumeRefused, NotAllowed, QuestionClaimed, WrongAnswer, AlreadySettled
    """
    resumption = await find_resumption(store, session_id, secret)
    await _check(store, resumption, responses, Attempt(responder))
    return resumption


async def _check(
    store: Store, resumption: Resumption, responses: Mapping[str, Response], attempt: Attempt
) -> dict[str, str]:
    """Check all answers. Returns the request ids of those already given by an earlier, interrupted use."""
    if unknown := [id for id in responses if id not in resumption.questions]:
        raise ResumeRefused("question", unknown)
    given: dict[str, str] = {}
    for id, response in responses.items():
        promise = await get_question(store, id)
        if promise.state is not PromiseState.PENDING and resumption.has_given(promise, attempt):
            given[id] = promise.request_id or ""
            continue  # ``answer`` checks that it is the same answer
        request_id = resumption.answer_id(id, attempt)
        async with RefusalRecorder(store, promise, attempt.responder.user_id, request_id=request_id):
            await _check_response(store, resumption, promise, response, attempt.responder)
    if missing := [
        each for each in resumption.questions if each not in responses and await _is_open(store, each)
    ]:
        refusal = ResumeRefused("missing", missing)
        await _record(store, resumption, refusal, attempt.responder.user_id)
        raise refusal
    return given


async def _user_of(store: Store, resumption: Resumption) -> str | None:
    """Return the user who used a token, if known."""
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
    """Record the refusal of a token with its questions."""
    for id in resumption.questions:
        try:
            question = await get_question(store, id)
        except (NotFound, StoreError):
            continue
        await record_refusal(store, question, by, refusal, request_id=resumption.request_id, attempt="resume")
