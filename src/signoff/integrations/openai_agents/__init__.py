"""Agents of the OpenAI Agents SDK as runs: approvals are questions, model requests and tool calls are steps."""

from importlib.util import find_spec

if find_spec("agents") is None:
    raise ImportError("this needs the OpenAI Agents SDK: pip install 'signoff[openai-agents]'", name="agents")

from signoff.integrations.openai_agents.outside import decide_interruptions as decide_interruptions
from signoff.integrations.openai_agents.running import run_agent as run_agent

__all__ = ["decide_interruptions", "run_agent"]
