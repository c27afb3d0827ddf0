"""Agents of Pydantic AI made durable: requests and tool calls are steps, approvals are questions.

Needs ``pip install signoff[agents]``.
"""

from importlib.util import find_spec

if find_spec("pydantic_ai") is None:
    raise ImportError("agents need Pydantic AI: pip install 'signoff[agents]'", name="pydantic_ai")

from signoff.agents.approvals.approval_policy import Decision, ToolCall, approve, ask, deny
from signoff.agents.approvals.ask_user import AskedField, ask_user, ask_user_tool
from signoff.agents.conversations.conversation import Conversation
from signoff.agents.conversations.delegation import agent_tool
from signoff.agents.conversations.outcomes import Finished, Paused, Pending
from signoff.agents.conversations.replies import Approve, Deny, Edit, Reply
from signoff.agents.conversations.turn_events import TurnEvent
from signoff.agents.durable import Durable
from signoff.agents.pausing.pause import pause
from signoff.agents.steps.budgets import Budget
from signoff.agents.steps.in_workflow import in_workflow
from signoff.agents.steps.tools import SideEffects, tool_options

__all__ = [
    "Approve",
    "AskedField",
    "Budget",
    "Conversation",
    "Decision",
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
