"""The options that say what may be answered through the MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from signoff.cli.target import Command

if TYPE_CHECKING:
    from signoff.server.mcp.settings import McpSettings

NONE: Final = "none"
_TYPES: Final = (NONE, "approval", "text", "select", "multiselect", "form")


def mcp_options(command: Command) -> Command:
    """Add the options for ``mcp_settings_of`` to a command."""
    for option in (
        click.option(
            "--mcp-answer-calls",
            is_flag=True,
            envvar="SIGNOFF_MCP_ANSWER_CALLS",
            show_envvar=True,
            help="Let questions about agents' calls be answered through MCP, though not by the agent that asked.",
        ),
        click.option(
            "--mcp-answers",
            multiple=True,
            type=click.Choice(_TYPES),
            help="A type of question that may be answered through MCP; repeat for more, or none.  [default: all]",
        ),
    ):
        command = option(command)
    return command


def mcp_settings_of(answers: Sequence[str], answers_calls: bool) -> McpSettings:
    """Return the settings of the MCP server.

    Raises:
        UsageError: ``none`` is combined with a type.
    """
    from signoff.server.mcp.settings import McpSettings

    if NONE in answers and len(answers) > 1:
        raise click.UsageError("--mcp-answers none stands alone")
    chosen = [each for each in answers if each != NONE]
    return McpSettings(chosen if answers else None, answers_calls)
