"""The HTTP API: runs, questions and promises of one store, for browsers, clients and curl."""

from signoff.server.app import create_server_app
from signoff.server.auth.client_address import Forwarding
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.server.auth.roles import Role
from signoff.server.auth.trusted_proxy import TrustedProxy
from signoff.server.mcp.settings import McpSettings
from signoff.server.server import Server, serve

__all__ = [
    "Forwarding",
    "McpSettings",
    "OpenIdConnect",
    "Role",
    "Server",
    "TrustedProxy",
    "create_server_app",
    "serve",
]
