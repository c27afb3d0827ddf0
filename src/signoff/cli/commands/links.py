"""``signoff links create``, ``list`` and ``revoke``: single-use addresses for answering a question."""

from __future__ import annotations

from typing import Any

import click

from signoff.cli.commands.inbox import groups_and_roles
from signoff.cli.formatting import ago, one_line
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.target import on_client
from signoff.cli.values import Number, login_name
from signoff.client.async_client import AsyncClient
from signoff.people.links.answer_links import LIFETIME_SECONDS
from signoff.records import Token
from signoff.wire.records import to_wire

_DAY_SECONDS = 86_400.0


@click.group()
def links() -> None:
    """Answer links: single-use addresses for answering a question without signing in."""


@links.command()
@click.argument("question_id", metavar="QUESTION")
@click.option("--user", required=True, help="The user who answers with it.")
@groups_and_roles
@click.option(
    "--days",
    type=Number(min=0, min_open=True),
    default=LIFETIME_SECONDS / _DAY_SECONDS,
    show_default=True,
    help="How long it is valid, at most until the question ends.",
)
@click.option(
    "--public-url",
    envvar="SIGNOFF_PUBLIC_URL",
    show_envvar=True,
    metavar="URL",
    help="The public URL of the server.",
)
@on_client
async def create(
    client: AsyncClient,
    out: Output,
    question_id: str,
    user: str,
    days: float,
    public_url: str | None,
    **who: Any,
) -> None:
    """Create a link with which a user answers QUESTION.

    Anyone with the address can answer as this user. It is printed this once.
    """
    made = await client.links.create(
        question_id, user_id=user, lifetime_seconds=days * _DAY_SECONDS, by=login_name(), **who
    )
    url = made.at(public_url) if public_url else made.url
    if out.as_json:
        out.object({**to_wire(made.token), "path": made.path, "url": url})
        return
    out.line(url or made.path)
    if url is None:
        out.note("append this path to the server's address, or pass --public-url")


@links.command("list")
@click.argument("question_id", metavar="QUESTION")
@page_options
@on_client
async def list_links(
    client: AsyncClient, out: Output, question_id: str, limit: int, after: str | None
) -> None:
    """List the links of QUESTION, without their addresses."""
    page = await client.links.list(question_id, after=after, limit=limit)
    print_page(out, page, ("LINK", "FOR", "MADE", "BY", "STATE"), _row, "no links")


def _row(token: Token, now: float) -> tuple[str, ...]:
    if token.revoked_at is not None:
        state = f"revoked {ago(token.revoked_at, now)}"
    elif token.used_at is not None:
        state = f"used {ago(token.used_at, now)}"
    else:
        state = f"until {ago(token.expires_at, now)}" if token.expires_at is not None else "open"
    return (token.id, one_line(token.subject), ago(token.created_at, now), token.created_by or "", state)


@links.command()
@click.argument("link_id", metavar="LINK")
@on_client
async def revoke(client: AsyncClient, out: Output, link_id: str) -> None:
    """Revoke LINK."""
    token = await client.links.revoke(link_id, by=login_name())
    if out.as_json:
        out.object(to_wire(token))
    else:
        out.line(f"link {token.id} for {token.subject} is revoked")
