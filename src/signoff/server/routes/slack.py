"""The route that Slack calls when a user clicks a button or submits a modal."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from signoff.errors import NotFound, PayloadTooLarge
from signoff.server.http.path_ids import Id
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/slack", include_in_schema=False)  # Slack defines the format


@router.post("/{channel}/actions")
async def take_action(channel: Id, request: Request, services: ServicesOf) -> Response:
    """Receive an answer that a user gave with a button or a modal. Slack's signature authenticates the request.

    Slack waits for 3 seconds, and accepts a click's ``trigger_id`` for as long: a modal is opened after the response.
    """
    try:
        from signoff.people.notifications.channels import slack_buttons, slack_modals, slack_requests
    except ModuleNotFoundError:  # without the extra there are no Slack channels
        raise NotFound("Slack channel that takes answers", channel) from None
    sender, answering = slack_buttons.answering_of(services.channels.get(channel), channel)
    body = await request.body()
    if len(body) > slack_requests.LONGEST_BODY:
        raise PayloadTooLarge("body", len(body), slack_requests.LONGEST_BODY)
    headers = request.headers
    timestamp, signature = headers.get("x-slack-request-timestamp"), headers.get("x-slack-signature")
    slack_requests.check_signature(answering, body, timestamp, signature, services.store.clock.now())
    store, redaction, address = services.store, services.redaction, services.address_of(request.scope)
    match slack_requests.read_request(body):
        case slack_requests.Click() as click:
            reply = await slack_buttons.answer_click(store, answering, click, redaction, address)
            return Response(background=BackgroundTask(slack_buttons.post_reply, sender, reply))
        case slack_requests.Opening() as opening if sender.has_modals:
            given = (store, sender, answering, opening, redaction, address)
            return Response(background=BackgroundTask(slack_modals.open_modal, *given))
        case slack_requests.Submission() as submission:
            said = await slack_modals.answer_submission(store, answering, submission, redaction, address)
            posted = said.message and BackgroundTask(slack_buttons.post_reply, sender, said.message)
            if said.body is None:
                return Response(background=posted)
            return JSONResponse(said.body, background=posted)
        case _:
            return Response()
