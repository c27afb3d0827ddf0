"""The HTTP API: runs, questions and promises of one store, for browsers, clients and curl."""

from signoff.server.app import create_server_app
from signoff.server.listening import Server, serve

__all__ = ["Server", "create_server_app", "serve"]
