"""Workflows as agents of the A2A protocol: a message starts a run, and open questions are ``input-required``."""

from importlib.util import find_spec

if find_spec("a2a") is None or find_spec("sse_starlette") is None:
    raise ImportError("this needs the A2A SDK: pip install 'signoff[a2a]'", name="a2a")

from signoff.integrations.a2a.agent import A2AAgent as A2AAgent
from signoff.integrations.a2a.agent import Caller as Caller
from signoff.integrations.a2a.agent import asked_of_caller as asked_of_caller
from signoff.integrations.a2a.routes import a2a_routes as a2a_routes

__all__ = ["A2AAgent", "Caller", "a2a_routes", "asked_of_caller"]
