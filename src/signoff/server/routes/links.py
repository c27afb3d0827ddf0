"""Routes of answer links: their pages, and creating, listing and revoking them."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import parse_qs, unquote

from fastapi import APIRouter, Header, Request
from pydantic import Field
from starlette.responses import Response

from signoff.errors import (
    AlreadySettled,
    InvalidValue,
    LinkEnded,
    NotAllowed,
    NotFound,
    NotSerializable,
    PayloadTooLarge,
    QuestionTooNew,
    SignoffError,
    StoreError,
    StoreUnavailable,
    TooManyRequests,
    UnknownLink,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.people.links.answer_links import (
    LIFETIME_SECONDS,
    PATH,
    answer_by_form,
    check_usable,
    find_link,
    record_ended,
)
from signoff.people.links.html_fields import note_field
from signoff.people.links.html_values import SubmittedForm
from signoff.people.notifications.notices import settled_in_words
from signoff.records import PromiseState, Token
from signoff.records.responders import Responder
from signoff.server.auth.actors import ActorOf
from signoff.server.http.path_ids import Id
from signoff.server.http.problems import problem, status_of
from signoff.server.http.request_bodies import Body, ExactRoute, Text
from signoff.server.http.responses import After, Limit, reply, reply_page, reply_with
from signoff.server.openapi.declared_responses import gives, gives_more, gives_page
from signoff.server.openapi.examples import example
from signoff.server.pages.answer_link import HEADERS, message_page, question_page
from signoff.server.services import Services, ServicesOf
from signoff.wire.records import to_wire

router = APIRouter(tags=["links"], route_class=ExactRoute)

FORMS: Final = f"{PATH}/"
"""Prefix of page paths."""

MOST_FIELDS: Final = 20_000
"""Maximum number of values in a submitted form: a question may have 10,000 options."""


class CreateLink(Body, json_schema_extra=example(user_id="ana", groups=["finance"], lifetime_seconds=86400)):
    """A link with which a user answers a question once."""

    user_id: Text
    groups: list[Text] = Field(default_factory=list[Text])
    roles: list[Text] = Field(default_factory=list[Text])
    lifetime_seconds: float = LIFETIME_SECONDS
    by: Text | None = None


class RevokeLink(Body, json_schema_extra=example(by="user:req")):
    """The user who revokes a link."""

    by: Text | None = None


_SECRET: Final = f"{FORMS}6tLx0lSWd6h3v0fW0v3V5pM9b8hUuWkqX1o2r4t5y6E"

_BEHIND: Final = ".,;:!?)]}>'\"\u2019\u201d "

# Creating, listing and revoking links


@router.post(
    "/v1/questions/{question_id}/links",
    status_code=201,
    responses=gives_more(
        Token,
        "NewLink",
        {"path": _SECRET, "url": f"https://signoff.example.com{_SECRET}"},
        NotFound,
        NotAllowed,
        AlreadySettled,
        QuestionTooNew,
        UnreadableRecord,
        statuses={201: "The link was created"},
    ),
)
async def create_link(
    question_id: Id, body: CreateLink, services: ServicesOf, actor: ActorOf, request: Request
) -> Response:
    """Create a link with which a user answers a question once, without signing in. Its ``url`` is returned this once.

    A service's key needs ``act_as`` to create links.
    """
    await actor.question(services.store, question_id)
    actor.check_names_people("an answer link")
    new = await services.backend.create_link(
        question_id,
        Responder(body.user_id, frozenset(body.groups), frozenset(body.roles)),
        lifetime_seconds=body.lifetime_seconds,
        by=actor.user_id("by", body.by),
    )
    here = f"{request.url.scheme}://{request.headers['host']}{request.scope.get('root_path', '')}"
    base = services.public_url or here
    return reply({**to_wire(new.token), "path": new.path, "url": new.at(base)}, 201)


@router.get("/v1/questions/{question_id}/links", responses=gives_page(Token, NotFound))
async def list_links(
    question_id: Id, services: ServicesOf, after: After = None, limit: Limit = 100
) -> Response:
    """List a question's links, oldest first, ended ones included, without their secrets."""
    return reply_page(await services.backend.list_links(question_id, after=after, limit=limit))


@router.post("/v1/links/{link_id}/revoke", responses=gives(Token, NotFound))
async def revoke_link(link_id: Id, body: RevokeLink, services: ServicesOf, actor: ActorOf) -> Response:
    """Revoke a link."""
    return reply_with(await services.backend.revoke_link(link_id, by=actor.user_id("by", body.by)))


# The pages of links


@router.api_route(f"{PATH}/{{secret}}", methods=["GET", "HEAD"], include_in_schema=False)
async def show_page(
    secret: str, request: Request, services: ServicesOf, accept: Annotated[str, Header()] = ""
) -> Response:
    """Show a link's question. This changes nothing."""
    store, secret = services.store, secret_in(secret)
    try:
        link = await _find(services, request, secret)
        check_usable(link, store.clock.now())
        return question_page(link, await services.shown(link.question), store.clock.now())
    except SignoffError as error:
        return refusal(error, words(error), as_page=not wants_problem(accept))


@router.post(f"{PATH}/{{secret}}", include_in_schema=False)
async def answer_page(
    secret: str, request: Request, services: ServicesOf, accept: Annotated[str, Header()] = ""
) -> Response:
    """Answer a link's question with the form of its page."""
    store, secret = services.store, secret_in(secret)
    try:
        address = services.address_of(request.scope)
        try:
            link = await _find(services, request, secret)
        except LinkEnded as error:
            await record_ended(store, secret, error, address)
            raise
        filled = _form(await request.body())
        try:
            question = await answer_by_form(store, link, filled, services.redaction, address)
        except (WrongAnswer, InvalidValue, NotSerializable, PayloadTooLarge) as error:
            if wants_problem(accept):
                raise
            link = await find_link(store, secret)
            check_usable(link, store.clock.now())
            shown, now = await services.shown(link.question), store.clock.now()
            return question_page(link, shown, now, filled, _problems(error), status_of(type(error)))
    except SignoffError as error:
        return refusal(error, words(error), as_page=not wants_problem(accept))
    if question.state is PromiseState.PENDING:
        return message_page("Your vote is recorded", "Others have to agree yet. You can close this page.")
    return message_page("Your answer is recorded", "Thank you. You can close this page.")


def secret_in(segment: str) -> str:
    """Return the secret in a path, without trailing punctuation that mail programs take for a part of the address."""
    return unquote(segment).rstrip(_BEHIND)


async def _find(services: Services, request: Request, secret: str) -> Any:
    try:
        return await find_link(services.store, secret)
    except UnknownLink:
        services.wrong_secrets.note(request.scope)
        raise


def _form(body: bytes) -> SubmittedForm:
    """Parse a submitted form. Raises InvalidValue."""
    try:
        return parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise InvalidValue("body", "it is not a form as browsers submit it") from None


def _problems(error: SignoffError) -> list[tuple[str, str]]:
    if isinstance(error, WrongAnswer):
        return error.problems
    if isinstance(error, InvalidValue) and error.path == "note":
        return [(".".join(note_field().path), error.reason)]
    return [("", str(error))]


def wants_problem(accept: str) -> bool:
    """Whether the client wants problem details, as programs do, and not a page."""
    return "json" in accept and "html" not in accept


def refusal(error: SignoffError, said: tuple[str, str], *, as_page: bool) -> Response:
    """Return the response to a refused request that carries a secret.

    Args:
        error: The reason.
        said: The reason as a title and a text for people.
        as_page: Whether to return a page for people instead of a problem for programs.
    """
    if isinstance(error, StoreError):  # hides the store's location from people with a link
        error = StoreUnavailable("of this server", "it cannot be reached now")
    response = problem(error)
    if as_page:
        page = message_page(*said, status_of(type(error)))
        if "retry-after" in response.headers:
            page.headers["retry-after"] = response.headers["retry-after"]
        response = page
    response.headers.update(HEADERS)
    return response


def words(error: SignoffError) -> tuple[str, str]:
    """Return a title and a text for people."""
    match error:
        case UnknownLink():
            return (
                "This link is not known",
                "Check that the whole address was copied, or ask for another link.",
            )
        case LinkEnded(reason="used"):
            return "This link was used", "The answer is recorded. You can close this page."
        case LinkEnded(reason="expired"):
            return "This link has expired", "If you still need to answer, ask for another link."
        case LinkEnded(reason="revoked"):
            return "This link was revoked", "If you still need to answer, ask for another link."
        case LinkEnded():
            return "There is nothing left to answer", "The question was deleted."
        case AlreadySettled():
            return settled_in_words(error)
        case NotAllowed():
            return "You can no longer answer this question", "Nothing was changed."
        case TooManyRequests(retry_after_seconds=seconds):
            return "Too many requests", f"Try again in {seconds} seconds."
        case StoreError():
            return "This cannot be done now", "Nothing was changed. Try again in a moment."
        case _:
            return "This was refused", f"Nothing was changed: {error}"
