"""Routes of rules, which are standing approvals. A rule is created with the answer to a question."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from signoff.errors import NotFound
from signoff.records import Rule
from signoff.records.paging import RuleFilter
from signoff.server.auth.actors import ActorOf
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute, Text
from signoff.server.http.responses import After, Limit, reply_page, reply_with
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.openapi.examples import example
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/rules", tags=["rules"], route_class=ExactRoute)


class RevokeRule(Body, json_schema_extra=example(by="user:ana", reason="the shop is closed")):
    """The user who revokes a rule, and the reason."""

    by: Text | None = None
    reason: Text | None = None


@router.get("", responses=gives_page(Rule))
async def list_rules(
    services: ServicesOf,
    actor: ActorOf,
    by: Annotated[Text | None, Query(description="The user who created them, without `user:`")] = None,
    tool: Text | None = None,
    in_force: Annotated[bool, Query(description="Only rules that are in force now")] = False,
    session_id: Annotated[
        Text | None, Query(description="Only rules for this session; empty: only rules without a session")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List rules, oldest first. Users without full access get their own."""
    which = RuleFilter(actor.maker(by), tool, in_force, session_id)
    return reply_page(await services.backend.list_rules(which, after=after, limit=limit))


@router.post("/{rule_id}/revoke", responses=gives(Rule, NotFound))
async def revoke_rule(
    rule_id: Id, services: ServicesOf, actor: ActorOf, body: RevokeRule | None = None
) -> Response:
    """Revoke a rule. Questions that it has approved stay approved."""
    said = body or RevokeRule()
    actor.check_maker(await services.store.get_rule(rule_id))
    rule = await services.backend.revoke_rule(rule_id, by=actor.user_id("by", said.by), reason=said.reason)
    return reply_with(rule)
