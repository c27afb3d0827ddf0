"""Permissions and questions of agents of the Claude Agent SDK, as questions to people."""

from importlib.util import find_spec

if find_spec("claude_agent_sdk") is None:
    raise ImportError(
        "this needs the Claude Agent SDK: pip install 'signoff[claude-agent]'", name="claude_agent_sdk"
    )

from signoff.integrations.claude_agent.permissions import ask_people as ask_people

__all__ = ["ask_people"]
