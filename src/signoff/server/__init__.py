"""The HTTP API: runs, questions and promises of one store, for browsers, clients and curl."""

from signoff.server.app import create_server_app
from signoff.server.forwarding import Forwarding
from signoff.server.identity import TrustedProxy
from signoff.server.listening import Server, serve
from signoff.server.openid import OpenIdConnect
from signoff.server.rights import Role

__all__ = ["Forwarding", "OpenIdConnect", "Role", "Server", "TrustedProxy", "create_server_app", "serve"]
