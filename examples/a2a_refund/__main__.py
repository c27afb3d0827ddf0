"""A calling agent: ``python -m examples.a2a_refund o-1 7000``. Calling it again continues the same task."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.helpers.proto_helpers import get_data_parts, new_data_part
from a2a.types import (
    GetTaskRequest,
    Message,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import UnsupportedOperationError


async def send(client: Client, id: str, data: Any, task_id: str = "") -> Task:
    """Send a message with data. Its id is chosen, so that sending it again changes nothing."""
    message = Message(message_id=id, task_id=task_id, role=Role.ROLE_USER, parts=[new_data_part(data)])
    async for response in client.send_message(SendMessageRequest(message=message)):
        return response.task
    raise RuntimeError("the agent did not answer")


async def main(order: str, cents: int) -> None:
    """Ask for a refund, say why, and wait until people have decided."""
    url = os.environ.get("AGENT_URL", "http://127.0.0.1:8000/refunds")
    async with httpx.AsyncClient(headers={"x-forwarded-user": "support-agent"}, timeout=None) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        task = await send(client, f"refund-{order}", {"order": order, "cents": cents})
        for part in get_data_parts(task.status.message.parts):
            question = part["question"]
            print(question["text"], "->", question["answered_by"], flush=True)
            if question["answered_by"] == "caller":
                answer = {**question["answer_with"], "value": "It came broken."}
                task = await send(client, f"why-{order}", answer, task.id)
                print(task.status.message.parts[0].text, flush=True)
        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            listener = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
            with suppress(UnsupportedOperationError):  # it has just ended
                async for _ in listener.subscribe(SubscribeToTaskRequest(id=task.id)):
                    pass
            task = await client.get_task(GetTaskRequest(id=task.id))
        print(task.artifacts[0].parts[0].text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
