"""``signoff mcp``: the MCP server on stdin and stdout."""

from __future__ import annotations

import asyncio
import logging
import os

import click

from signoff.cli.commands.inbox import groups_and_roles
from signoff.cli.exit_codes import CommandFailed, ExitCode
from signoff.cli.mcp_options import mcp_options, mcp_settings_of
from signoff.cli.target import DEFAULT_STORE, Target, database, default_target, place_options
from signoff.cli.values import Number
from signoff.client.async_client import KEY_VARIABLE
from signoff.observability.logs import formatter


@click.command()
@click.option(
    "--user",
    metavar="NAME",
    envvar="SIGNOFF_USER",
    show_envvar=True,
    help="With a database: the user who answers and starts. A server takes the user from the key.",
)
@groups_and_roles
@click.option(
    "--assignee",
    "assignees",
    multiple=True,
    metavar="NAME",
    help="Who may answer the agent's questions, such as user:ana or group:ops; repeat for more.  [default: anybody]",
)
@click.option(
    "--retry",
    "retry_seconds",
    type=Number(min=0),
    default=60.0,
    show_default=True,
    help="With a server: seconds to ask a question again after the connection was lost. Then a permission is denied.",
)
@mcp_options
@place_options
def mcp(
    user: str | None,
    groups: tuple[str, ...],
    roles: tuple[str, ...],
    assignees: tuple[str, ...],
    retry_seconds: float,
    mcp_answers: tuple[str, ...],
    mcp_answer_calls: bool,
    target: Target | None,
) -> int | None:
    """Serve MCP on stdin and stdout, for agents and coding tools: questions and runs as tools.

    With a database it needs no server. With --url it passes calls on to that server, whose settings count; SIGNOFF_KEY
    is the key.
    """
    try:
        from signoff.server.mcp import stdio
    except ModuleNotFoundError:
        raise CommandFailed(
            ExitCode.USAGE, "the MCP server needs the extra `mcp`: pip install 'signoff[mcp]'"
        ) from None
    handler = logging.StreamHandler()  # stderr: stdout has the protocol
    handler.setFormatter(formatter("text"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    place = target or default_target()
    if place.url is not None:
        if user or groups or roles or mcp_answers or mcp_answer_calls:
            raise click.UsageError(
                "--user, --in-group, --role and --mcp-... are for a database: the server decides"
            )
        key = os.environ.get(KEY_VARIABLE)
        asyncio.run(stdio.bridge(place.url, key=key, assignees=assignees, retry_seconds=retry_seconds))
        return None
    said = {"user_id": user, "groups": list(groups), "roles": list(roles)} if user else {}
    settings = mcp_settings_of(mcp_answers, mcp_answer_calls)

    async def serve() -> None:
        async with database(place.store or DEFAULT_STORE, may_create=True) as store:
            await stdio.serve_store(store, settings=settings, said=said, assignees=assignees)

    asyncio.run(serve())
    return None
