"""The options of ``signoff server`` for the protocols of Resonate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from signoff.errors import InvalidValue
from signoff.stores.address import store_at
from signoff.stores.contract.store import Store

OPEN_CLOCK: Final = (
    "--resonate-debug: any program on this machine can stop and set the clock of this database, leases included, and "
    "delete its promises. It is for tests, with one server and no workers of Signoff in other processes"
)

Command = TypeVar("Command", bound=Callable[..., Any])


def _urls(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    if not given:
        return ()
    from signoff.server.resonate.push import check_allowed  # imports httpx, which is slow

    try:
        return check_allowed(given)
    except InvalidValue as error:
        raise click.BadParameter(error.reason, ctx, param) from None


def _port(name: str, default: int, help: str) -> Callable[[Command], Command]:
    return click.option(name, type=click.IntRange(0, 65535), default=default, show_default=True, help=help)


def resonate_options(command: Command) -> Command:
    """Add the options for ``resonate_of`` to a command."""
    for option in (
        _port(
            "--resonate-legacy-messages-port",
            8002,
            "The port that --resonate-legacy sends messages on; 0: a free one.",
        ),
        _port("--resonate-legacy-port", 8001, "The port for --resonate-legacy; 0: a free one."),
        click.option(
            "--resonate-legacy",
            is_flag=True,
            help="Speak the protocol of resonate-sdk 0.6.7, from 2024, too.",
        ),
        click.option(
            "--resonate-debug",
            is_flag=True,
            help="For tests: let programs on this machine stop and set the clock of --resonate. Never in production.",
        ),
        click.option(
            "--resonate-push",
            multiple=True,
            metavar="URL",
            callback=_urls,
            help="Where --resonate may post messages, such as https://functions.example.com/; repeat for more.",
        ),
        _port("--resonate-port", 8001, "The port for --resonate; 0: a free one."),
        click.option("--resonate", is_flag=True, help="Speak the durable promise protocol of Resonate, too."),
    ):
        command = option(command)
    return command


def debugged(address: str) -> Store:
    """Return the store at an address, with a clock for ``--resonate-debug``. Raises InvalidValue."""
    from signoff.server.resonate.debug import LEASE_SECONDS
    from signoff.server.resonate.debug_clock import DebugClock

    store = store_at(address, clock=DebugClock())
    store.lease_seconds = LEASE_SECONDS
    return store


def resonate_of(options: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of a command's, and return them as ``Server`` takes them.

    Raises:
        click.UsageError: Both protocols are on, with one port; or an option has no effect.
    """
    from signoff.server.resonate.legacy.listener import LegacyPorts

    is_on, port = options.pop("resonate"), options.pop("resonate_port")
    is_legacy, legacy_port = options.pop("resonate_legacy"), options.pop("resonate_legacy_port")
    messages_port = options.pop("resonate_legacy_messages_port")
    is_debugged = options.pop("resonate_debug")
    if is_on and is_legacy and port == legacy_port != 0:
        raise click.UsageError(
            "--resonate and --resonate-legacy need a port each: give --resonate-port or --resonate-legacy-port"
        )
    if options["resonate_push"] and not is_on:
        raise click.UsageError("--resonate-push is for --resonate: add it")
    if is_debugged and not is_on:
        raise click.UsageError("--resonate-debug is for --resonate: add it")
    return {
        "resonate_port": port if is_on else None,
        "resonate_push": options.pop("resonate_push"),
        "resonate_legacy": LegacyPorts(legacy_port, messages_port) if is_legacy else None,
    }
