"""``signoff rules list`` and ``revoke``: standing approvals."""

from __future__ import annotations

import click

from signoff.cli.formatting import ago, brief, one_line
from signoff.cli.output import Output
from signoff.cli.paging import page_options, print_page
from signoff.cli.target import on_client
from signoff.cli.values import login_name
from signoff.client.async_client import AsyncClient
from signoff.records import Rule
from signoff.wire.records import to_wire


@click.group()
def rules() -> None:
    """List and revoke rules: standing approvals, given for a limited time."""


@rules.command("list")
@click.option("--user", help="Only rules that this user created.")
@click.option("--tool", help="Only rules about this tool.")
@click.option("--session", help="Only rules for this session.")
@click.option("--all", "with_old", is_flag=True, help="Include rules that are no longer in force.")
@page_options
@on_client
async def list_rules(
    client: AsyncClient,
    out: Output,
    user: str | None,
    tool: str | None,
    session: str | None,
    with_old: bool,
    limit: int,
    after: str | None,
) -> None:
    """List rules that are in force, oldest first."""
    page = await client.rules.list(
        user_id=user, tool=tool, in_force=not with_old, session_id=session, limit=limit, after=after
    )
    columns = ("RULE", "BY", "TOOL", "WITH", "FOR", "USES", "UNTIL")
    print_page(out, page, columns, _row, "no rules" if with_old else "no rules are in force")


@rules.command()
@click.argument("rule_id", metavar="RULE")
@click.option("--reason", help="The reason.")
@on_client
async def revoke(client: AsyncClient, out: Output, rule_id: str, reason: str | None) -> None:
    """Revoke RULE. Questions that it has approved stay approved."""
    rule = await client.rules.revoke(rule_id, by=login_name(), reason=reason)
    if out.as_json:
        out.object(to_wire(rule))
    else:
        out.line(f"rule {rule.id} is revoked")


def _row(rule: Rule, now: float) -> tuple[str, ...]:
    pattern = "any arguments" if rule.arguments == "{}" else brief(rule.arguments)
    uses = str(rule.uses) if rule.max_uses is None else f"{rule.uses} of {rule.max_uses}"
    return (
        rule.id,
        one_line(rule.by),
        one_line(rule.tool),
        pattern,
        one_line(_whom(rule)),
        uses,
        _until(rule, now),
    )


def _whom(rule: Rule) -> str:
    if rule.session_id is not None:
        return f"session {rule.session_id}"
    return "all runs" if rule.run_id is None else f"run {rule.run_id}"


def _until(rule: Rule, now: float) -> str:
    if rule.revoked_at is not None:
        return "revoked"
    return "it is revoked" if rule.expires_at is None else ago(rule.expires_at, now)
