"""A document review whose gate decides whether a person is needed. This module's ``app`` is the worker's."""

from __future__ import annotations

import os
import re
from typing import Any, Literal

from pydantic import BaseModel

from signoff import Signoff
from signoff.flows import Data, Flow

PROMISES = re.compile(r"\b(guarantee\w*|always|never|unlimited|risk-free)\b", re.IGNORECASE)
LONGEST_WORDS = 500

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="review")
flow = Flow("review", auto_close_timeout=0.0)


class Document(BaseModel):
    """The document to review."""

    name: str
    text: str


class Verdict(BaseModel):
    """A reviewer's decision."""

    verdict: Literal["publish", "change", "reject"]
    text: str | None = None
    """The changed text."""


def findings(text: str) -> list[str]:
    """Return the findings that a person should check."""
    found = [f"promises: {word}" for word in sorted({each.lower() for each in PROMISES.findall(text)})]
    words = len(text.split())
    if words > LONGEST_WORDS:
        found.append(f"{words} words, over {LONGEST_WORDS}")
    return found if text.strip() else ["it is empty"]


@flow.chunk
async def gate(data: Data[Document]) -> Any:
    """Pass documents without findings. Ask about the others, and check them again if they were changed."""
    text, by = data.input.text, "the gate"
    if data.resume is not None:
        said = Verdict.model_validate(data.resume.value)
        by = data.resume.user_id or "a reviewer"
        if said.verdict != "change":
            return {"published": said.verdict == "publish", "text": text, "by": by}
        text = said.text or ""
    found = findings(text)
    if not found:
        return {"published": True, "text": text, "by": by}
    return await data.pause_for(
        "review",
        {"question": f"Publish {data.input.name}?", "text": text, "findings": found},
        resume_to="self",
        max_resumes=5,
        schema=Verdict,
        interrupt_id="review",
    )


@flow.chunk
def keep(data: Data[dict[str, Any]]) -> None:
    """Store the result."""
    for key, value in data.input.items():
        data.set_state(key, value)


flow.to(gate).to(keep)
app.register(flow)
