"""Routes of resume tokens: secrets with which the caller who started a turn answers its questions once."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    InvalidValue,
    NotAllowed,
    NotFound,
    NotSerializable,
    QuestionClaimed,
    QuestionTooNew,
    ResumeRefused,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.people.links import resume_tokens
from signoff.people.links.resume_tokens import LIFETIME_SECONDS, Resumption
from signoff.records.responders import Responder
from signoff.server.auth.actors import Actor, ActorOf
from signoff.server.auth.roles import Reach
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, Compared, ExactRoute, Text
from signoff.server.http.responses import reply
from signoff.server.openapi.declared_responses import gives
from signoff.server.openapi.examples import QUESTION_ID, RUN_ID, SESSION_ID, example
from signoff.server.routes.questions import Said, SayAlike
from signoff.server.services import Services, ServicesOf

router = APIRouter(tags=["resume tokens"], route_class=ExactRoute)

MOST_QUESTIONS: Final = 10_000
"""The most questions that a token may cover."""

_SECRET: Final = "sgr_6tLx0lSWd6h3v0fW0v3V5pM9b8hUuWkqX1o2r4t5y6E"
_TOKEN_ID: Final = "0d7b8f6e-5c1a-4a53-9a55-0b1f0f4f2c11"
_DIGEST: Final = "68d1207eecbd797eb48b06c3a05a78b567906766dee0d5237984ddc3ed4b18ea"


class NewResumeToken(
    Body,
    json_schema_extra=example(session_id=SESSION_ID, questions=[QUESTION_ID], lifetime_seconds=86400),
):
    """A new token's scope: the turn's session, and the questions that it covers."""

    session_id: Text
    questions: list[Text] = Field(min_length=1, max_length=MOST_QUESTIONS)
    lifetime_seconds: float = LIFETIME_SECONDS


class Presented(Body, json_schema_extra=example(session_id=SESSION_ID, resume_token=_SECRET)):
    """A token, and the session that it is used in."""

    session_id: Text
    resume_token: Compared


class OneResponse(Body, json_schema_extra=example(question_id=QUESTION_ID, value={"approved": True})):
    """An answer to one of the token's questions; see ``GiveAnswer``."""

    question_id: Text
    value: Any
    note: Text | None = None
    alike: SayAlike | None = None


class Resume(
    Said,
    json_schema_extra=example(
        session_id=SESSION_ID,
        resume_token=_SECRET,
        answers=[{"question_id": QUESTION_ID, "value": {"approved": True}}],
        user_id="ana",
        groups=["finance"],
    ),
):
    """Answers to all open questions of a token, one per question."""

    session_id: Text
    resume_token: Compared
    answers: list[OneResponse] = Field(min_length=1, max_length=MOST_QUESTIONS)

    @property
    def responses(self) -> dict[str, resume_tokens.Response]:
        """The answers by question id. Raises InvalidValue."""
        found: dict[str, resume_tokens.Response] = {}
        for each in self.answers:
            if each.question_id in found:
                raise InvalidValue(
                    "answers", f"question {each.question_id!r} is answered twice; answer it once"
                )
            alike = None if each.alike is None else each.alike.alike
            found[each.question_id] = resume_tokens.Response(each.value, each.note, alike)
        return found


class ResumeWith(
    Resume,
    json_schema_extra=example(
        session_id=SESSION_ID,
        resume_token=_SECRET,
        answers=[{"question_id": QUESTION_ID, "value": {"approved": True}}],
        user_id="ana",
        groups=["finance"],
        context={"tenant": "t2"},
    ),
):
    """Answers to all open questions of a token, and optionally a new context for the rest of the turn."""

    context: dict[str, Any] | None = None


class ResumeToken(BaseModel, json_schema_extra=example(resume_token=_SECRET)):
    """The secret, which is returned this once."""

    resume_token: str


class Good(
    BaseModel,
    json_schema_extra=example(token_id=_TOKEN_ID, run_id=RUN_ID, questions={QUESTION_ID: _DIGEST}),
):
    """A token's scope: the run that continues, and its questions with the digests of what was shown."""

    token_id: str
    run_id: str
    questions: dict[str, str]


_ANSWERS: Final = gives(
    Good,
    ResumeRefused,
    NotFound,
    NotAllowed,
    QuestionClaimed,
    AlreadySettled,
    WrongAnswer,
    NotSerializable,
    QuestionTooNew,
    UnreadableRecord,
)


@router.post(
    "/v1/runs/{run_id}/resume-tokens",
    status_code=201,
    responses=gives(
        ResumeToken, NotFound, QuestionTooNew, UnreadableRecord, statuses={201: "The token was created"}
    ),
)
async def create_resume_token(
    run_id: Id, body: NewResumeToken, services: ServicesOf, actor: ActorOf
) -> Response:
    """Create a token with which a turn's questions are answered once, so that the turn continues.

    The token does not identify the user who answers.
    """
    backend = services.backend
    run = await backend.get_run(run_id)
    if run.session_id != body.session_id:
        raise InvalidValue("session_id", f"run {run.id!r} does not belong to this session")
    questions = [await actor.question(services.store, each) for each in dict.fromkeys(body.questions)]
    secret = await backend.create_resumption(
        body.session_id, run.id, questions, lifetime_seconds=body.lifetime_seconds
    )
    return reply({"resume_token": secret}, 201)


@router.post("/v1/resume-tokens/read", responses=gives(Good, ResumeRefused))
async def read_resume_token(body: Presented, services: ServicesOf) -> Response:
    """Return a token's scope. This changes nothing."""
    return _good(await services.backend.find_resumption(body.session_id, body.resume_token))


@router.post("/v1/resume-tokens/check", responses=_ANSWERS)
async def check_resume_token(body: Resume, services: ServicesOf, actor: ActorOf) -> Response:
    """Check answers with a token, and refuse them as ``answer`` would. This changes nothing."""
    good, responses, responder = await _read(body, services, actor)
    await services.backend.check_responses(body.session_id, body.resume_token, responses, responder)
    return _good(good)


@router.post("/v1/resume-tokens/answer", responses=_ANSWERS)
async def answer_by_resume_token(body: ResumeWith, services: ServicesOf, actor: ActorOf) -> Response:
    """Answer all open questions of a token, and use it up.

    All answers are checked before the first one is given: if one is refused, the token stays valid. A context takes
    effect together with the answers; it needs a role that may send signals.
    """
    good, responses, responder = await _read(body, services, actor)
    if body.context is not None and actor.reach is not Reach.ALL:
        raise AccessDenied("the context of a turn", "it needs the role operator or admin")
    await services.backend.resume(
        body.session_id, body.resume_token, responses, responder, context=body.context
    )
    return _good(good)


async def _read(
    body: Resume, services: Services, actor: Actor
) -> tuple[Resumption, dict[str, resume_tokens.Response], Responder]:
    """Return a token's scope, the answers, and the responder.

    The token is checked first, so that callers without a valid one learn nothing about the questions.
    """
    responses = body.responses
    good = await services.backend.find_resumption(body.session_id, body.resume_token)
    responder = body.responder
    if unknown := [id for id in responses if id not in good.questions]:
        raise ResumeRefused("question", unknown)
    for id in responses:
        responder = await actor.responder(services.store, id, body.responder)
    return good, responses, responder


def _good(resumption: Resumption) -> Response:
    return reply(
        {
            "token_id": resumption.token_id,
            "run_id": resumption.run_id,
            "questions": dict(resumption.questions),
        }
    )
