"""The command ``signoff`` with all its subcommands, and the mapping of errors to exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from signoff.cli.commands.ask import ask
from signoff.cli.commands.audit import audit
from signoff.cli.commands.compact import compact
from signoff.cli.commands.deliveries import deliveries
from signoff.cli.commands.doctor import doctor
from signoff.cli.commands.groups import groups
from signoff.cli.commands.inbox import (
    answer,
    cancel_question,
    claim,
    comment,
    delegate,
    inbox,
    move_deadline,
    reassign,
    release,
)
from signoff.cli.commands.keys import keys
from signoff.cli.commands.links import links
from signoff.cli.commands.mcp import mcp
from signoff.cli.commands.migrate import migrate
from signoff.cli.commands.promises import reject, resolve
from signoff.cli.commands.prune import prune
from signoff.cli.commands.replay import export, replay
from signoff.cli.commands.rules import rules
from signoff.cli.commands.runs import cancel, resume, retry, runs, signal, start, suspend, terminate
from signoff.cli.commands.schedules import schedules
from signoff.cli.commands.serve import dev, server, worker
from signoff.cli.commands.sessions import sessions
from signoff.cli.commands.show import show
from signoff.cli.commands.snapshots import load, save
from signoff.cli.commands.workers import workers
from signoff.cli.commands.workflows import workflows
from signoff.cli.exit_codes import CommandFailed, ExitCode, exit_code_of
from signoff.cli.output import Output, tolerate_unencodable
from signoff.errors import SignoffError, WrongAnswer
from signoff.people.schemas.validation import shorten
from signoff.version import __version__


class _OutputClosed(Exception):
    """The reader of the output has closed it. This is not a failure."""


class _Root(click.Group):
    """Group that bypasses click's handling of a closed output, which would exit with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _OutputClosed from error


@click.group(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Target of commands: --url or --store, else SIGNOFF_URL or SIGNOFF_STORE, else
sqlite:///signoff.db in the working directory, else http://127.0.0.1:8000.

\b
Exit codes:
  0  done
  1  the run, the replay or a check failed
  2  wrong arguments, or code that cannot be loaded
  3  the run, question or promise does not exist
  4  refused: a wrong or late answer, an id that is taken, a run in another state, a wrong key
  5  the store or the server is not available""",
)
@click.version_option(__version__, prog_name="signoff")
def root() -> None:
    """Durable runs with people in the loop."""


for _command in (
    dev,
    server,
    worker,
    start,
    runs,
    show,
    ask,
    inbox,
    answer,
    claim,
    comment,
    release,
    delegate,
    reassign,
    move_deadline,
    cancel_question,
    rules,
    sessions,
    links,
    audit,
    deliveries,
    signal,
    cancel,
    terminate,
    suspend,
    resume,
    retry,
    resolve,
    reject,
    replay,
    export,
    keys,
    groups,
    workers,
    workflows,
    prune,
    compact,
    save,
    load,
    schedules,
    mcp,
    migrate,
    doctor,
):
    root.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: The arguments after ``signoff``.

    Returns:
        The exit code.
    """
    _open_closed_streams()
    tolerate_unencodable(sys.stdout, sys.stderr)
    out = Output("--json" in arguments)
    try:
        ended = root.main(list(arguments), prog_name="signoff", standalone_mode=False)
        return ended if isinstance(ended, int) else ExitCode.OK
    except CommandFailed as failure:
        return _fail(out, str(failure), failure.code, failure.facts)
    except SignoffError as error:
        return _fail(out, str(error), exit_code_of(error), _facts(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.USAGE
    except click.ClickException as error:
        return _fail(out, _usage(error), ExitCode.USAGE, {})
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except _OutputClosed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except UnicodeEncodeError:
        unreadable = next((each for each in arguments if not _is_text(each)), None)
        if unreadable is None:
            raise
        message = f"argument {unreadable!a} is not text in the terminal's encoding; write it in UTF-8"
        return _fail(out, message, ExitCode.USAGE, {})
    except OSError as error:  # a file or a store that cannot be opened
        named = "" if error.filename is None else f": {shorten(str(error.filename))}"
        return _fail(out, f"{error.strerror or error}{named}", ExitCode.UNAVAILABLE, {})


def _open_closed_streams() -> None:
    """Replace missing standard streams (``>&-``, some supervisors) by the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 for good


def _is_text(argument: str) -> bool:
    """Whether an argument is valid text: bytes that the terminal's encoding lacks arrive as lone surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fail(out: Output, message: str, code: ExitCode, facts: dict[str, Any]) -> int:
    out.failure(message, code, facts)
    return code


def _facts(error: SignoffError) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": type(error).__name__}
    if isinstance(error, WrongAnswer):
        facts["fields"] = [{"field": field, "message": message} for field, message in error.problems]
    return facts


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message.rstrip('.')}; see: {context.command_path} --help" if context else message
