"""Agents of Pydantic AI made durable: requests and tool calls are steps, approvals are questions.

Needs ``pip install signoff[agents]``.
"""

from importlib.util import find_spec

if find_spec("pydantic_ai") is None:
    raise ImportError("agents need Pydantic AI: pip install 'signoff[agents]'", name="pydantic_ai")

from signoff.agents.approvals import ToolCall, approve, ask, deny
from signoff.agents.asking import AskedField, ask_user, ask_user_tool
from signoff.agents.budgets import Budget
from signoff.agents.conversation import Conversation, TurnEvent
from signoff.agents.decisions import Approve, Deny, Edit, Reply
from signoff.agents.delegation import agent_tool
from signoff.agents.durable import Durable
from signoff.agents.in_workflow import in_workflow
from signoff.agents.outcomes import Finished, Paused, Pending
from signoff.agents.pausing import pause
from signoff.agents.tools import SideEffects, tool_options

__all__ = [
    "Approve",
    "AskedField",
    "Budget",
    "Conversation",
    "Deny",
    "Durable",
    "Edit",
    "Finished",
    "Paused",
    "Pending",
    "Reply",
    "SideEffects",
    "ToolCall",
    "TurnEvent",
    "agent_tool",
    "approve",
    "ask",
    "ask_user",
    "ask_user_tool",
    "deny",
    "in_workflow",
    "pause",
    "tool_options",
]
