"""The route of callbacks. The secret in the address authenticates the sender."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Header, Request
from starlette.responses import RedirectResponse, Response

from signoff.errors import AlreadySettled, LinkEnded, SignoffError, UnknownLink, WrongAnswer
from signoff.people.links.callback_intake import (
    STATE,
    FoundCallback,
    Incoming,
    check_open,
    find_callback,
    receive,
)
from signoff.people.questions.callback_terms import FORM, MOST_FIELDS, PATH, RETURN, media_type
from signoff.server.http.problems import plain_problem
from signoff.server.http.responses import reply
from signoff.server.pages.answer_link import HEADERS, message_page
from signoff.server.routes.links import refusal, words
from signoff.server.services import Services, ServicesOf

router = APIRouter(tags=["callbacks"])

OPEN: Final = f"{PATH}/"
"""Prefix of callback paths."""


@router.api_route(f"{PATH}/{{secret}}", methods=["GET", "HEAD", "POST"], include_in_schema=False)
async def take_callback(
    secret: str, request: Request, services: ServicesOf, accept: Annotated[str, Header()] = ""
) -> Response:
    """Receive a request at a callback's address. ``HEAD``, and methods that the callback does not accept, change
    nothing."""
    as_page = "html" in accept
    incoming = Incoming(
        request.method,
        request.scope["query_string"].decode("latin-1"),
        {name: ", ".join(request.headers.getlist(name)) for name in request.headers},
        await request.body(),
        services.address_of(request.scope),
    )
    try:
        if secret == RETURN:
            secret, incoming = _by_state(incoming)
        found = await _find(services, request, secret)
        if request.method == "HEAD":
            check_open(found)
            return Response(headers=dict(HEADERS))
        if request.method not in found.terms.methods:
            return _not_allowed(found)
        await receive(found, incoming)
    except SignoffError as error:
        return refusal(error, _words(error), as_page=as_page)
    return _thanks(found, as_page=as_page)


async def _find(services: Services, request: Request, secret: str) -> FoundCallback:
    try:
        return await find_callback(services.store, secret)
    except UnknownLink:
        services.wrong_secrets.note(request.scope)
        raise


def _by_state(incoming: Incoming) -> tuple[str, Incoming]:
    """Return the secret in the parameter ``state``, and the request without it, so that it is not stored."""
    is_form = incoming.method == "POST" and media_type(incoming.content_type) == FORM
    text = incoming.body.decode("latin-1") if is_form else incoming.query
    try:
        [secret] = parse_qs(text, max_num_fields=MOST_FIELDS).get(STATE, [""])
    except ValueError:
        secret = ""
    rest = "&".join(pair for pair in text.split("&") if pair.partition("=")[0] != STATE)
    if is_form:
        return secret, replace(incoming, body=rest.encode("latin-1"))
    return secret, replace(incoming, query=rest)


def _not_allowed(found: FoundCallback) -> Response:
    response = plain_problem(405, "this callback does not accept this method")
    response.headers.update({**HEADERS, "allow": ", ".join(found.terms.methods)})
    return response


def _thanks(found: FoundCallback, *, as_page: bool) -> Response:
    if found.terms.then is not None and as_page:
        return RedirectResponse(found.terms.then, 303, dict(HEADERS))
    if as_page:
        return message_page("This was received", "Thank you. You can close this page.")
    response = reply({"received": True})
    response.headers.update(HEADERS)
    return response


def _words(error: SignoffError) -> tuple[str, str]:
    """Return a title and a text for people whose browser called back."""
    match error:
        case UnknownLink():
            return "This address is not known", "Start again on the site you came from."
        case LinkEnded(reason="expired"):
            return "This came too late", "Start again on the site you came from."
        case LinkEnded() | AlreadySettled():
            return "This is no longer needed", "Nothing was changed."
        case WrongAnswer():
            return "This was not accepted", f"Nothing was changed: {error}"
        case _:
            return words(error)
