"""A planner: it reads files of a folder, and asks before it writes one. Its worker is this module's ``app``.

The model is that of ``SIGNOFF_DEMO_MODEL``, such as ``openai:gpt-5``; without one it follows a script.
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
    """Plan as a model might: look around, propose a plan of what was wished, and say what became of it."""
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
        text = f"# Plan\n\n1. {wish}\n2. Tell everybody\n"
        return ModelResponse([ToolCallPart("write_file", {"name": "plan.md", "text": text})])
    if returned[0].outcome == "denied":
        return ModelResponse([TextPart(f"I have written nothing: {returned[0].content}")])
    return ModelResponse([TextPart(str(returned[0].content))])


agent = Agent(
    MODEL or FunctionModel(scripted, model_name="script"),
    name="planner",
    deps_type=dict,
    instructions="You plan what you are asked for, and keep the plan in a file, plan.md.",
    capabilities=[Durable[dict]()],
)


@agent.tool
def list_files(ctx: RunContext[dict[str, str]]) -> list[str]:
    """List the files that are there."""
    return sorted(each.name for each in Path(ctx.deps["folder"]).iterdir() if each.is_file())


@agent.tool(requires_approval=True, metadata=tool_options(side_effects="write"))
def write_file(ctx: RunContext[dict[str, str]], name: str, text: str) -> str:
    """Write a text file."""
    if not name or Path(name).name != name or name.startswith("."):
        raise ModelRetry(f"{name!r} is no plain name of a file")
    (Path(ctx.deps["folder"]) / name).write_text(text)
    return f"{name} is written"


app.register(agent)
