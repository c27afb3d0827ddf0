"""Tools for questions: list, show and answer them with the rights of the signed-in user."""

from __future__ import annotations

from typing import Any, Final

from pydantic_core import to_json

from signoff.client.request_bodies import path_to
from signoff.server.mcp.tool import LIMIT, PAGE, Call, Tool, ToolFailed, id_of, parameters, short, text

LONGEST_QUESTION: Final = 400_000
"""Bytes of JSON of a question that ``show_question`` shows. A longer one is shown and answered in the inbox."""

_LISTED: Final = ("id", "created_at", "due_at", "run_id", "assignees")
_ASKED: Final = (
    "text",
    "input_type",
    "options",
    "answer_schema",
    "proposal",
    "action",
    "metadata",
    "skippable",
)


async def list_questions(call: Call) -> dict[str, Any]:
    """Return open questions, shortened."""
    given = call.arguments
    page = await call.api.get(
        "/v1/questions",
        text=given.get("text"),
        run_id=given.get("run_id"),
        limit=given.get("limit", LIMIT),
        after=given.get("after"),
    )
    return {"questions": [_row(each) for each in page["items"]], "next": page.get("next")}


def _row(question: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = question.get("data") or {}
    row = {name: question[name] for name in _LISTED if question.get(name)}
    row |= {"text": short(str(data.get("text", ""))), "input_type": data.get("input_type")}
    action: dict[str, Any] | None = data.get("action")
    if action is not None:
        row["tool"] = action.get("tool")
    return row


async def show_question(call: Call) -> dict[str, Any]:
    """Return a question whole: what is decided on is never shortened."""
    question = await call.api.get(path_to("questions", call.arguments["question_id"]))
    if len(to_json(question)) > LONGEST_QUESTION:
        raise ToolFailed("this question is too long to be shown here; show and answer it in the inbox")
    return shown(question)


def shown(question: dict[str, Any]) -> dict[str, Any]:
    """Return a question as tools show it."""
    data: dict[str, Any] = question.get("data") or {}
    found = {name: question[name] for name in (*_LISTED, "state") if question.get(name)}
    found |= {name: data[name] for name in (*_ASKED, "digest") if data.get(name)}
    if question["state"] != "pending":
        found |= settled(question)
    return found


def settled(question: dict[str, Any]) -> dict[str, Any]:
    """Return how a closed question ended: its answer, or the reason why there is none."""
    facts = ("value", "error", "settled_by", "settled_at", "note")
    return {name: question[name] for name in facts if question.get(name) is not None}


async def answer_question(call: Call) -> dict[str, Any]:
    """Answer a question as the authenticated user, bound to the digest of what was shown."""
    given = call.arguments
    id = given["question_id"]
    body = {name: given.get(name) for name in ("value", "note", "digest")}
    said = id_of(call.caller, id, *body.values())
    answer = {**call.api.said, **body, "request_id": given.get("request_id") or f"mcp-{said}"}
    question = await call.api.post(path_to("questions", id, "answer"), answer)
    return shown(question)


QUESTION_TOOLS: Final = (
    Tool(
        "list_questions",
        "List questions",
        "List the open questions that you may see, oldest first. Texts are shortened: use show_question before you "
        "answer one. A page may be empty and still have a `next`.",
        parameters(
            text=text("Words that all occur in the question's text, id, run id or tool"),
            run_id=text("Only questions of this run"),
            **PAGE,
        ),
        list_questions,
        ("GET", "/v1/questions"),
        reads_only=True,
    ),
    Tool(
        "show_question",
        "Show a question",
        "Show a question with everything that is decided on: its text, the schema of the answer, the action that an "
        "approval runs, and the digest that answer_question needs. Also shows the answer of a closed question.",
        parameters(("question_id",), question_id=text("The id of the question")),
        show_question,
        ("GET", "/v1/questions/{question_id}"),
        reads_only=True,
    ),
    Tool(
        "answer_question",
        "Answer a question",
        "Answer a question as the signed-in user, only as this user has told you to. The value must match the "
        "question's answer_schema, such as {\"approved\": true}. Approvals of agents' calls are refused here unless "
        "the server allows them: a person answers these in the inbox.",
        parameters(
            ("question_id", "value", "digest"),
            question_id=text("The id of the question"),
            value={"description": "The answer, which matches answer_schema"},
            digest=text("The digest that show_question returned: binds the answer to what was shown"),
            note=text("A reason or a comment, for the audit trail"),
            request_id=text("Identifies a repeated answer", maxLength=200),
        ),
        answer_question,
        ("POST", "/v1/questions/{question_id}/answer"),
        repeats=True,
    ),
)
