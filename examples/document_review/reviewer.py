"""A reviewer whose model decides when a person is needed. This module's ``app`` is the worker's.

``SIGNOFF_DEMO_MODEL`` sets the model, such as ``openai:gpt-5``. Without it, the agent follows a script.
"""

from __future__ import annotations

import json
import os
import re
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Signoff
from signoff.agents import Durable, ask_user

MODEL = os.environ.get("SIGNOFF_DEMO_MODEL")
OPEN = re.compile(r"\b(TBD|TODO|XXX)\b|\?\?")

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="review")


class Review(BaseModel):
    """The result of a review."""

    verdict: Literal["publish", "hold"]
    reason: str
    text: str


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Review as a model might: publish a complete text, and ask about open points."""
    asked = next(
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    )
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    found = OPEN.search(asked)
    if found is None:
        return _reviewed(info, Review(verdict="publish", reason="it is complete", text=asked))
    if not returned:
        fields = [
            {
                "name": "value",
                "question": f"What does “{found[0]}” stand for?",
                "kind": "text",
                "required": False,
            },
            {
                "name": "verdict",
                "question": "What should be done with it?",
                "kind": "select",
                "options": ["publish", "hold"],
            },
        ]
        call = {"message": f"The text leaves something open:\n\n{asked[:500]}", "fields": fields}
        return ModelResponse([ToolCallPart("ask_user", call)])
    said = returned[0].content
    answer = json.loads(said) if isinstance(said, str) and said.startswith("{") else said
    if not isinstance(answer, dict) or answer.get("verdict") != "publish" or not answer.get("value"):
        return _reviewed(info, Review(verdict="hold", reason="it has an open point", text=asked))
    text = OPEN.sub(lambda _: str(answer["value"]), asked)
    return _reviewed(info, Review(verdict="publish", reason="the open points are filled in", text=text))


def _reviewed(info: AgentInfo, review: Review) -> ModelResponse:
    return ModelResponse([ToolCallPart(info.output_tools[0].name, review.model_dump())])


agent = Agent(
    MODEL or FunctionModel(scripted, model_name="script"),
    name="reviewer",
    output_type=Review,
    instructions=(
        "You review texts before they are published, and return them with a verdict. Change nothing else. "
        "If a text leaves open what only its author can know, ask with ask_user; otherwise ask no one."
    ),
    tools=[ask_user],
    capabilities=[Durable[None]()],
)
app.register(agent)
