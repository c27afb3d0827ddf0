"""The authentication options of ``signoff server``: trusted proxy, client address and OpenID Connect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from signoff.cli.target import Command

if TYPE_CHECKING:
    from signoff.server import Forwarding, OpenIdConnect, Role, TrustedProxy

SECRET_VARIABLE = "SIGNOFF_OIDC_CLIENT_SECRET"
USER_HEADER_VARIABLE = "SIGNOFF_USER_HEADER"
NO_ROLE = "none"


def identity_options(command: Command) -> Command:
    """Add the options for ``proxy_of``, ``forwarding_of`` and ``openid_of`` to a command."""
    for option in (
        click.option(
            "--require-auth",
            is_flag=True,
            envvar="SIGNOFF_REQUIRE_AUTH",
            show_envvar=True,
            help="Authenticate every request.  [default: with a proxy, a provider or keys]",
        ),
        *(
            click.option(
                f"--oidc-{claim}-claim",
                metavar="CLAIM",
                envvar=f"SIGNOFF_OIDC_{claim.upper()}_CLAIM",
                show_envvar=True,
                help=f"The claim with {what}.  [default: {default}]",
            )
            for claim, what, default in (
                ("roles", "a user's roles", "roles"),
                ("groups", "a user's groups", "groups"),
                ("user", "a user's name, such as sub", "email"),
            )
        ),
        click.option(
            "--oidc-client-secret-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar=f"{SECRET_VARIABLE}_FILE",
            show_envvar=True,
            help=f"A file with this server's client secret at the provider; or set {SECRET_VARIABLE}.",
        ),
        click.option(
            "--oidc-client-id",
            metavar="ID",
            envvar="SIGNOFF_OIDC_CLIENT_ID",
            show_envvar=True,
            help="This server's client id at the provider.",
        ),
        click.option(
            "--oidc-issuer",
            metavar="URL",
            envvar="SIGNOFF_OIDC_ISSUER",
            show_envvar=True,
            help="The OpenID Connect provider that signs users in.",
        ),
        click.option(
            "--default-role",
            metavar="ROLE",
            envvar="SIGNOFF_DEFAULT_ROLE",
            show_envvar=True,
            help="A role that every user has: viewer, responder, operator, admin or none.  [default: responder]",
        ),
        click.option(
            "--address-header",
            metavar="NAME",
            envvar="SIGNOFF_ADDRESS_HEADER",
            show_envvar=True,
            help="The proxy's header with the client's address, such as X-Forwarded-For.",
        ),
        click.option(
            "--trust-proxy",
            "addresses",
            multiple=True,
            metavar="ADDRESS",
            envvar="SIGNOFF_TRUST_PROXY",
            show_envvar=True,
            help="An address or network of the proxy, such as 10.0.0.0/8; repeat for more.  [default: this machine]",
        ),
        click.option(
            "--roles-header",
            metavar="NAME",
            envvar="SIGNOFF_ROLES_HEADER",
            show_envvar=True,
            help="The proxy's header with a user's roles, separated by commas.",
        ),
        click.option(
            "--groups-header",
            metavar="NAME",
            envvar="SIGNOFF_GROUPS_HEADER",
            show_envvar=True,
            help="The proxy's header with a user's groups, separated by commas.",
        ),
        click.option(
            "--user-header",
            metavar="NAME",
            envvar=USER_HEADER_VARIABLE,
            show_envvar=True,
            help="The proxy's header with a user's name.  [default: requests name the user themselves]",
        ),
    ):
        command = option(command)
    return command


def openid_of(
    issuer: str | None,
    client_id: str | None,
    secret_file: Path | None,
    public_url: str | None,
    default_role: str | None,
    claims: Mapping[str, str | None],
) -> OpenIdConnect | None:
    """Return the identity provider from the options, or None without one.

    Args:
        issuer: The provider's issuer.
        client_id: This server's client id.
        secret_file: The file with this server's client secret, if it is not in the environment.
        public_url: The URL of this server in browsers.
        default_role: The role that every user has.
        claims: The names of the claims, where they differ from the defaults.

    Raises:
        UsageError: An option is missing, such as the issuer.
        InvalidValue: An address is not valid, or not safe.
    """
    if issuer is None:
        if client_id or secret_file or any(claims.values()):
            raise click.UsageError("a provider needs --oidc-issuer; without it users cannot sign in")
        return None
    if client_id is None or public_url is None:
        raise click.UsageError("--oidc-issuer needs --oidc-client-id and --public-url")
    from signoff.server import OpenIdConnect

    secret = os.environ.get(SECRET_VARIABLE)
    if secret_file is not None:
        secret = secret_file.read_text(encoding="utf-8").strip()
    chosen: dict[str, Any] = {name: claim for name, claim in claims.items() if claim is not None}
    role = _role(default_role or "responder")
    return OpenIdConnect(issuer, client_id, public_url, secret, default_role=role, **chosen)


def proxy_of(
    user_header: str | None,
    groups_header: str | None,
    roles_header: str | None,
    addresses: tuple[str, ...],
    address_header: str | None,
    default_role: str | None,
) -> TrustedProxy | None:
    """Return the trusted proxy from the options, or None without one.

    Raises:
        UsageError: There are proxy options but no user header: requests could then name any user.
        InvalidValue: A header or an address is not valid.
    """
    if user_header is None:
        has_unused_addresses = addresses and address_header is None
        if groups_header or roles_header or has_unused_addresses or USER_HEADER_VARIABLE in os.environ:
            raise click.UsageError("a proxy needs --user-header; without it requests may name any user")
        return None
    from signoff.server.auth.trusted_networks import LOOPBACK
    from signoff.server.auth.trusted_proxy import TrustedProxy

    return TrustedProxy(
        user_header, groups_header, roles_header, addresses or LOOPBACK, _role(default_role or "responder")
    )


def forwarding_of(address_header: str | None, addresses: tuple[str, ...]) -> Forwarding | None:
    """Return the proxies that forward the client's address, or None without them. Raises InvalidValue."""
    if address_header is None:
        return None
    from signoff.server.auth.client_address import Forwarding
    from signoff.server.auth.trusted_networks import LOOPBACK

    return Forwarding(address_header, addresses or LOOPBACK)


def _role(name: str) -> Role | None:
    from signoff.server.auth.roles import Role

    if name == NO_ROLE:
        return None
    try:
        return Role(name)
    except ValueError:
        known = ", ".join([*(role.value for role in Role), NO_ROLE])
        raise click.UsageError(f"--default-role {name!r} is not a valid role: choose {known}") from None
