"""The options of ``signoff server`` that have a proxy say who people are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from signoff.cli.target import Command

if TYPE_CHECKING:
    from signoff.server import Role, TrustedProxy

USER_HEADER_VARIABLE = "SIGNOFF_USER_HEADER"
NO_ROLE = "none"


def identity_options(command: Command) -> Command:
    """Give a command the options that ``proxy_of`` takes."""
    for option in (
        click.option(
            "--default-role",
            metavar="ROLE",
            envvar="SIGNOFF_DEFAULT_ROLE",
            show_envvar=True,
            help="A role that everybody has: viewer, responder, operator, admin or none.  [default: responder]",
        ),
        click.option(
            "--trust-proxy",
            "addresses",
            multiple=True,
            metavar="ADDRESS",
            envvar="SIGNOFF_TRUST_PROXY",
            show_envvar=True,
            help="Where that proxy connects from, such as 10.0.0.0/8; repeat for more.  [default: this machine]",
        ),
        click.option(
            "--roles-header",
            metavar="NAME",
            envvar="SIGNOFF_ROLES_HEADER",
            show_envvar=True,
            help="The header with their roles, separated by commas.",
        ),
        click.option(
            "--groups-header",
            metavar="NAME",
            envvar="SIGNOFF_GROUPS_HEADER",
            show_envvar=True,
            help="The header with their groups, separated by commas.",
        ),
        click.option(
            "--user-header",
            metavar="NAME",
            envvar=USER_HEADER_VARIABLE,
            show_envvar=True,
            help="The header in which a proxy says who people are.  [default: requests say so themselves]",
        ),
    ):
        command = option(command)
    return command


def proxy_of(
    user_header: str | None,
    groups_header: str | None,
    roles_header: str | None,
    addresses: tuple[str, ...],
    default_role: str | None,
) -> TrustedProxy | None:
    """Return the proxy that options describe, or None if there is none.

    Raises:
        UsageError: There are options of a proxy, and no header that says who people are: nobody would check that.
        InvalidValue: A header or an address is none.
    """
    if user_header is None:
        if any((groups_header, roles_header, addresses, default_role)) or USER_HEADER_VARIABLE in os.environ:
            raise click.UsageError("a proxy needs --user-header; without it requests say who people are")
        return None
    from signoff.server.identity import LOOPBACK, TrustedProxy

    return TrustedProxy(
        user_header, groups_header, roles_header, addresses or LOOPBACK, _role(default_role or "responder")
    )


def _role(name: str) -> Role | None:
    from signoff.server.rights import Role

    if name == NO_ROLE:
        return None
    try:
        return Role(name)
    except ValueError:
        known = ", ".join([*(role.value for role in Role), NO_ROLE])
        raise click.UsageError(f"--default-role {name!r} is no role: {known}") from None
