"""A workflow as an agent, served on this loop or by a process, and real clients of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.helpers.proto_helpers import get_data_parts, new_data_part, new_text_part
from a2a.types import Message, Role, SendMessageRequest, Task, TaskState
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request

from signoff import Action, Context, Signoff
from signoff.integrations.a2a import A2AAgent, Caller, a2a_routes
from signoff.server.process.uvicorn_server import Serving, bind, url_of
from signoff.stores.contract.store import Store
from tests.support import new_app


class Address(BaseModel):
    street: str
    number: int


def desk_app(folder: Path, store: Store | None = None) -> Signoff:
    app = new_app(folder) if store is None else Signoff(store)

    def note(name: str) -> None:
        with (folder / "effects").open("a") as file:
            file.write(f"{name}\n")

    @app.workflow
    async def ship(ctx: Context, order: str, cents: int = 0) -> dict[str, Any]:
        await ctx.step("note", lambda: note("begun"))
        to = await ctx.wait_for_user("Where to?", input_type="form", answer_type=Address)
        await ctx.step("note", lambda: note("shipped"))
        return {"order": order, "cents": cents, "to": to.value.model_dump(), "by": to.user_id}

    @app.workflow
    async def refund(ctx: Context, cents: int) -> str:
        answer = await ctx.wait_for_user(
            f"Refund {cents}?", assignees=["group:finance"], action=Action("refund", {"cents": cents})
        )
        if answer.approved:
            await ctx.step("note", lambda: note("refunded"))
        return "refunded" if answer.approved else f"denied: {answer.note}"

    @app.workflow
    async def agree(ctx: Context) -> bool:
        return (await ctx.wait_for_user("Agree?")).approved

    @app.workflow
    async def both(ctx: Context) -> list[str]:
        asked = ["Why?", "When?"]
        answers = await asyncio.gather(*(ctx.wait_for_user(each, input_type="text") for each in asked))
        return [each.value for each in answers]

    @app.workflow
    async def echo(ctx: Context, value: Any) -> Any:
        return value

    @app.workflow
    async def fail(ctx: Context) -> None:
        raise ValueError("postgres://user:secret@db")

    return app


def by_header(request: Request) -> Caller | None:
    user = request.headers.get("x-user")
    return Caller(user) if user else None


def service(app: Any, workflow: str, port: int, **options: Any) -> Starlette:
    url = f"http://127.0.0.1:{port}/agents/{workflow}"
    settings: dict[str, Any] = {"caller": by_header, **options}
    return Starlette(routes=a2a_routes(A2AAgent(source=app, workflow=workflow, url=url, **settings)))


@asynccontextmanager
async def serving(app: Any, workflow: str, **options: Any) -> AsyncGenerator[str]:
    """Serve a workflow; yields the agent's URL."""
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    running = Serving(service(app, workflow, port, **options), listener)
    await running.listening.wait()
    try:
        yield f"{url_of('127.0.0.1', port)}/agents/{workflow}"
    finally:
        await running.stop()
        listener.close()


@asynccontextmanager
async def connected(url: str, user: str = "bot", *, streaming: bool = False) -> AsyncGenerator[Client]:
    """A client of the SDK that has read the agent's card."""
    async with httpx.AsyncClient(headers={"x-user": user}, trust_env=False, timeout=20) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)


def message(id: str, *parts: Any, task: str = "", context: str = "") -> SendMessageRequest:
    made = [new_text_part(each) if isinstance(each, str) else new_data_part(each) for each in parts]
    return SendMessageRequest(
        message=Message(message_id=id, task_id=task, context_id=context, role=Role.ROLE_USER, parts=made)
    )


async def send(client: Client, request: SendMessageRequest) -> Task:
    """Send a message; returns the task of the only response."""
    (response,) = [each async for each in client.send_message(request)]
    return response.task


def question(task: Task) -> dict[str, Any]:
    """The first question in a task's status."""
    (found, *_) = [each["question"] for each in get_data_parts(task.status.message.parts)]
    return found


def texts(task: Task) -> str:
    return "\n".join(part.text for part in task.status.message.parts if part.text)


def reply(asked: dict[str, Any], value: Any, **more: Any) -> dict[str, Any]:
    return {"question_id": asked["question_id"], "digest": asked["digest"], "value": value, **more}


async def main(folder: Path, port: int) -> None:
    """Serve the workflow ``ship``, and run it."""
    app = desk_app(folder)
    async with app.worker():
        await Serving(service(app, "ship", port), bind("127.0.0.1", port)).task


COMPLETED = TaskState.TASK_STATE_COMPLETED
INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
