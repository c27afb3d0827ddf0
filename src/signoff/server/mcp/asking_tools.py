"""Tools for agents that ask people: a question, and permission for a call."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from typing import Any, Final, cast

from signoff.client.request_bodies import path_to
from signoff.redaction.paths import PLACEHOLDER
from signoff.runtime.loggers import own_logger
from signoff.server.mcp.api import Refused
from signoff.server.mcp.open_question import ask_as, ask_once, closed, terms_of
from signoff.server.mcp.question_tools import settled
from signoff.server.mcp.run_tools import LONGEST_WAIT
from signoff.server.mcp.settings import INPUT_TYPES, asker_of
from signoff.server.mcp.tool import Call, ServerStopping, Tool, ToolFailed, id_of, parameters, seconds, text

log = own_logger("signoff.server")

LONGEST_QUESTION_SECONDS: Final = 30 * 86400.0
PERMISSION_SECONDS: Final = 3600.0
"""How long a permission may be given. A client that waits less denies the call itself."""

REPEATED_SECONDS: Final = 600.0
"""A decision counts this long for a repeated request with the same call id, whose first reply may have been lost."""

_REDACTED: Final = PLACEHOLDER.removesuffix("]")
"""The start of what replaces redacted values, which are not to run."""

_WAIT: Final = 45.0
_TERMS: Final = ("input_type", "options", "answer_schema", "assignees", "help", "metadata", "timeout_seconds")


async def ask_person(call: Call) -> dict[str, Any]:
    """Ask people, and wait a short while for the answer."""
    given = call.arguments
    terms = terms_of(call, {"text": given["question"], **{name: given.get(name) for name in _TERMS}})
    if (request_id := given.get("request_id")) is not None:
        question = await ask_as(call, f"mcp-{id_of(asker_of(call.caller), request_id)}", terms)
    else:
        question = await ask_once(call, terms)
    return await _outcome_soon(call, question)


async def await_answer(call: Call) -> dict[str, Any]:
    """Wait for the answer of a question that was asked before."""
    question = await call.api.get(path_to("questions", call.arguments["question_id"], "result"), wait=0)
    return await _outcome_soon(call, question)


async def _outcome_soon(call: Call, question: dict[str, Any]) -> dict[str, Any]:
    with suppress(ServerStopping):  # the agent has the id, and polls
        question = await closed(call, question, call.arguments.get("wait_seconds", _WAIT))
    return outcome(question)


def outcome(question: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of a question for the agent that asked it. Only ``answered`` has a value."""
    id = question["id"]
    match question["state"]:
        case "pending":
            advice = (
                "no answer yet: do not go on as if there were one; call await_answer with this question_id"
            )
            return {"outcome": "pending", "question_id": id, "next": advice}
        case "resolved":
            found = settled(question)
            answered = {"outcome": "answered", "question_id": id, "value": found.get("value")}
            said = {"by": found.get("settled_by"), "note": found.get("note")}
            return answered | {name: value for name, value in said.items() if value is not None}
        case "timed_out":
            return {"outcome": "timed_out", "question_id": id}
        case _:
            reason = question.get("note")
            return {"outcome": "withdrawn", "question_id": id, **({"reason": reason} if reason else {})}


async def permission_prompt(call: Call) -> dict[str, Any]:
    """Ask a person whether a coding agent may make a call. Every failure denies it.

    Raises:
        ServerStopping: The server stops. The client treats that as an error, and denies; a bridge repeats the call.
    """
    try:
        return await _permission(call)
    except ServerStopping:
        raise
    except Refused as refusal:
        return _deny(f"the question was refused: {refusal.detail}")
    except ToolFailed as failure:
        return _deny(str(failure))
    except Exception:
        log.exception("a permission prompt failed")
        return _deny("the permission could not be asked for; the server's log says more")


async def _permission(call: Call) -> dict[str, Any]:
    tool, arguments = call.arguments["tool_name"], call.arguments["input"]
    use_id = call.arguments.get("tool_use_id")
    terms = terms_of(
        call,
        {
            "text": f"Allow {asker_of(call.caller)} to use {tool}?",
            "input_type": "approval",
            "action": {"tool": tool, "arguments": arguments},
            "proposal": arguments,
            "proposal_schema": {"type": "object"},
            "timeout_seconds": PERMISSION_SECONDS,
        },
    )
    id = f"mcp-{id_of(asker_of(call.caller), 'permission', use_id or uuid.uuid4().hex)}"
    question = await ask_as(call, id, terms)
    if call.now() - question.get("settled_at", call.now()) > REPEATED_SECONDS:
        raise ToolFailed(f"call {use_id!r} was decided before, too long ago to count for another call")
    question = await closed(call, question, PERMISSION_SECONDS + 60)
    return _decision(question, arguments)


def _decision(question: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the decision in the form of Claude Code's ``--permission-prompt-tool``."""
    answer = question.get("value")
    value = cast("dict[str, Any]", answer if isinstance(answer, dict) else {})
    by = question.get("settled_by") or "a person"
    if question["state"] != "resolved":
        return _deny(
            {"timed_out": "nobody answered in time"}.get(question["state"], "the question was withdrawn")
        )
    if value.get("approved") is not True:
        return _deny(question.get("note") or f"denied by {by}")
    if not value.get("edits"):
        return {"behavior": "allow", "updatedInput": arguments}
    edited: Any = value.get("proposal")
    if not isinstance(edited, dict) or _REDACTED in json.dumps(edited, ensure_ascii=False):
        return _deny("the approved input cannot be read through this server, since a part of it is redacted")
    return {"behavior": "allow", "updatedInput": edited}


def _deny(message: str) -> dict[str, Any]:
    return {"behavior": "deny", "message": message}


_ID: Final = text("The question_id that ask_person returned")
_PATIENCE: Final = seconds("How long to wait for the answer; 45 by default", LONGEST_WAIT)

ASKING_TOOLS: Final = (
    Tool(
        "ask_person",
        "Ask a person",
        "Ask people a question and wait for the answer. If nobody answers soon, the outcome is `pending`: poll with "
        "await_answer. Only the outcome `answered` has an answer; a time-out is not a yes. Calling again with the same "
        "arguments returns the same question.",
        parameters(
            ("question",),
            question=text("The question, with everything that people need to decide", minLength=1),
            input_type={"enum": list(INPUT_TYPES), "description": "The kind of answer; approval by default"},
            options={
                "type": "array",
                "items": {"type": "string"},
                "description": "For select and multiselect",
            },
            answer_schema={"type": "object", "description": "For form: the JSON Schema of the answer"},
            assignees={
                "type": "array",
                "items": {"type": "string"},
                "description": "Who may answer: user:ana, group:finance, role:approver. Anybody by default.",
            },
            help=text("A longer explanation"),
            metadata={"type": "object", "description": "Facts that are shown with the question"},
            timeout_seconds=seconds("The deadline", LONGEST_QUESTION_SECONDS),
            request_id=text("Identifies the question: a call with another id asks again", maxLength=200),
            wait_seconds=_PATIENCE,
        ),
        ask_person,
        ("POST", "/v1/questions"),
        repeats=True,
    ),
    Tool(
        "await_answer",
        "Await an answer",
        "Wait for the answer to a question that ask_person has asked.",
        parameters(("question_id",), question_id=_ID, wait_seconds=_PATIENCE),
        await_answer,
        ("GET", "/v1/questions/{question_id}/result"),
        reads_only=True,
    ),
    Tool(
        "permission_prompt",
        "Ask for permission",
        "For the program that runs a coding agent, not for its model: asks a person whether the agent may make a "
        "call. Returns JSON with behavior `allow` or `deny`.",
        {
            "type": "object",
            "properties": {
                "tool_name": text("The tool that the agent wants to use", minLength=1),
                "input": {"type": "object", "description": "The input of the tool"},
                "tool_use_id": text("The id of the call: a repeated request asks once", maxLength=200),
            },
            "required": ["tool_name", "input"],
        },
        permission_prompt,
        ("POST", "/v1/questions"),
        repeats=True,
        is_structured=False,
    ),
)
