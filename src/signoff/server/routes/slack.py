"""The route that Slack calls when a user clicks a button."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from signoff.errors import NotFound, PayloadTooLarge
from signoff.server.http.path_ids import Id
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/slack", include_in_schema=False)  # Slack defines the format


@router.post("/{channel}/actions")
async def take_action(channel: Id, request: Request, services: ServicesOf) -> Response:
    """Receive an answer that a user gave with a button in Slack. Slack's signature authenticates the request."""
    try:
        from signoff.people.notifications.channels import slack_buttons as actions
    except ModuleNotFoundError:  # without the extra there are no Slack channels
        raise NotFound("Slack channel that takes answers", channel) from None
    sender, answering = actions.answering_of(services.channels.get(channel), channel)
    body = await request.body()
    if len(body) > actions.LONGEST_BODY:
        raise PayloadTooLarge("body", len(body), actions.LONGEST_BODY)
    headers = request.headers
    timestamp, signature = headers.get("x-slack-request-timestamp"), headers.get("x-slack-signature")
    actions.check_signature(answering, body, timestamp, signature, services.store.clock.now())
    click = actions.read_click(body)
    if click is None:
        return Response()
    address = services.address_of(request.scope)
    reply = await actions.answer_click(services.store, answering, click, services.redaction, address)
    return Response(background=BackgroundTask(actions.post_reply, sender, reply))
