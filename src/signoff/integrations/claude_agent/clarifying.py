"""Claude's own questions (the tool ``AskUserQuestion``), as a form."""

from __future__ import annotations

from typing import Any, Final, cast

from claude_agent_sdk import PermissionResult, PermissionResultAllow, PermissionResultDeny

from signoff import AsyncClient, QuestionCancelled, SignalTimeout
from signoff.client.questions import CallTerms

ASKS: Final = "AskUserQuestion"
"""The tool's name."""


async def clarify(
    client: AsyncClient, question_id: str, given: dict[str, Any], terms: CallTerms
) -> PermissionResult:
    """Ask Claude's questions in one form, and return the tool's input with the answers.

    Raises:
        ValueError, KeyError, TypeError: The input has another form than the tool's.
    """
    asked = cast("list[dict[str, Any]]", given["questions"])
    texts = [str(each["question"]) for each in asked]
    if not texts or len({*texts}) != len(texts):
        raise ValueError("the questions have no texts of their own")
    form = {
        "type": "object",
        "properties": {f"q{n}": _field(each) for n, each in enumerate(asked, 1)},
        "required": [f"q{n}" for n in range(1, len(asked) + 1)],
        "additionalProperties": False,
    }
    text = texts[0] if len(texts) == 1 else f"Claude asks {len(texts)} questions"
    # This marks it as a question about an agent's call: no answer through MCP, where Claude may be the client.
    marked: CallTerms = {**terms, "metadata": {**(terms.get("metadata") or {}), "tool": ASKS}}
    question = await client.ask(question_id, text, input_type="form", answer_type=form, **marked)
    try:
        answer = await question.answer()
    except SignalTimeout:
        return PermissionResultDeny(message="Nobody answered in time.")
    except QuestionCancelled as cancelled:
        return PermissionResultDeny(message=cancelled.reason or "The question was withdrawn.")
    if answer.skipped:
        return PermissionResultDeny(message="The question was skipped.")
    said = cast("dict[str, Any]", answer.value)
    answers = {text: _said(said[f"q{n}"]) for n, text in enumerate(texts, 1)}
    return PermissionResultAllow(updated_input={**given, "answers": answers})


def _field(asked: dict[str, Any]) -> dict[str, Any]:
    labels = [str(each["label"]) for each in asked["options"]]
    described = [
        f"{each['label']}: {each['description']}" for each in asked["options"] if each.get("description")
    ]
    shown = {
        "title": str(asked.get("header") or asked["question"]),
        "description": "\n".join([str(asked["question"]), *described]),
    }
    if asked.get("multiSelect"):
        chosen = {"type": "array", "items": {"enum": labels}, "uniqueItems": True, "minItems": 1}
        return {**chosen, **shown}
    return {"enum": labels, **shown}


def _said(value: Any) -> str:
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else str(value)
