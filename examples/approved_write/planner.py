"""A planner: it reads files of a folder, and asks before it writes one. This module's ``app`` is the worker's.

``SIGNOFF_DEMO_MODEL`` sets the model, such as ``openai:gpt-5``. Without it, the agent follows a script.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Signoff
from signoff.agents import Durable, tool_options

MODEL = os.environ.get("SIGNOFF_DEMO_MODEL")

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="planner")


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Plan as a model might: list the files, propose a plan for the wish, and report the outcome."""
    wish = next(
        str(part.content)
        for message in reversed(messages)
        for part in message.parts
        if isinstance(part, UserPromptPart) and not isinstance(part.content, list)
    )
    latest = messages[-1].parts
    returned = [part for part in latest if isinstance(part, ToolReturnPart)]
    if not returned:
        return ModelResponse([ToolCallPart("list_files", {})])
    if returned[0].tool_name == "list_files":
        text = f"# Plan\n\n1. {wish}\n2. Inform the team\n"
        return ModelResponse([ToolCallPart("write_file", {"name": "plan.md", "text": text})])
    if returned[0].outcome == "denied":
        return ModelResponse([TextPart(f"I wrote nothing: {returned[0].content}")])
    return ModelResponse([TextPart(str(returned[0].content))])


agent = Agent(
    MODEL or FunctionModel(scripted, model_name="script"),
    name="planner",
    deps_type=dict,
    instructions="You plan what the user asks for, and keep the plan in a file, plan.md.",
    capabilities=[Durable[dict]()],
)


@agent.tool
def list_files(ctx: RunContext[dict[str, str]]) -> list[str]:
    """List the files."""
    return sorted(each.name for each in Path(ctx.deps["folder"]).iterdir() if each.is_file())


@agent.tool(requires_approval=True, metadata=tool_options(side_effects="write"))
def write_file(ctx: RunContext[dict[str, str]], name: str, text: str) -> str:
    """Write a text file."""
    if not name or Path(name).name != name or name.startswith("."):
        raise ModelRetry(f"{name!r} is not a plain file name")
    (Path(ctx.deps["folder"]) / name).write_text(text)
    return f"{name} was written"


app.register(agent)
