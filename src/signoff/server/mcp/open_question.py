"""Asks questions on behalf of agents: a repeated call asks once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from signoff.client.request_bodies import path_to
from signoff.server.mcp.settings import ASKED_BY, ASKED_THROUGH, asker_of
from signoff.server.mcp.tool import Call, ServerStopping, ToolFailed, id_of

POLL_SECONDS: Final = 10.0
"""Seconds between two signs of life to the client: it may give up after a minute without any."""

_DAY: Final = 86400.0
_MOST_A_DAY: Final = 50


def terms_of(call: Call, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of a question, marked as asked through MCP."""
    metadata: dict[str, Any] = {
        **(terms.get("metadata") or {}),
        ASKED_THROUGH: "mcp",
        ASKED_BY: asker_of(call.caller),
    }
    given: dict[str, Any] = {**terms, "metadata": metadata}
    if call.assignees and not given.get("assignees"):
        given["assignees"] = list(call.assignees)
    return {name: value for name, value in given.items() if value is not None}


async def ask_as(call: Call, id: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a question under an id. The same id with the same terms is the same question. Raises Refused."""
    return await call.api.post("/v1/questions", {"id": id, **terms})


async def ask_once(call: Call, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a question, or return the one of today that the same caller has asked with these terms and that is open.

    A client that gave up does not know the id of its question, so its model calls again with the same words. An
    answered question is asked again: its answer was not given for what the caller does now.

    Raises:
        Refused: The server refuses the question.
        ToolFailed: It was asked too often today.
    """
    base = id_of(asker_of(call.caller), terms, call.now() // _DAY)
    for number in range(_MOST_A_DAY):
        question = await ask_as(call, f"mcp-{base}-{number}", terms)
        if question["state"] == "pending":
            return question
    raise ToolFailed(f"this question was asked {_MOST_A_DAY} times today; give a request_id")


async def closed(call: Call, question: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return a question once it is closed, or as it is after ``seconds``.

    Raises:
        Refused: The server refuses to show it.
        ServerStopping: The server stops.
    """
    until = time.monotonic() + seconds
    while question["state"] == "pending" and (left := until - time.monotonic()) > 0:
        await call.progress("waiting for a person")
        wait, began = min(left, POLL_SECONDS), time.monotonic()
        question = await call.api.get(path_to("questions", question["id"], "result"), wait=wait)
        if question["state"] == "pending" and time.monotonic() - began < wait / 2:
            raise ServerStopping  # else it would have waited longer
    return question
