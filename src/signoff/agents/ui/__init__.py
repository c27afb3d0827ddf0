"""Conversations as endpoints for chat frontends: AG-UI and the Vercel AI SDK.

Needs ``pip install signoff[ui]``.
"""

from importlib.util import find_spec

if find_spec("ag_ui") is None or find_spec("starlette") is None:
    raise ImportError("chat endpoints need AG-UI and Starlette: pip install 'signoff[ui]'", name="ag_ui")

from signoff.agents.ui.ag_ui import ag_ui_route
from signoff.agents.ui.chats import Caller, Chats, own_session
from signoff.agents.ui.vercel_ai import vercel_ai_routes

__all__ = ["Caller", "Chats", "ag_ui_route", "own_session", "vercel_ai_routes"]
