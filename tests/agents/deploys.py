"""Processes whose code changes between a question and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, RunContext, Tool, ToolDefinition
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.toolsets import ExternalToolset

import signoff
from signoff import AsyncClient, Context, Signoff
from signoff.agents import Durable, in_workflow, pause, tool_options
from signoff.records import Promise
from signoff.stores.sqlite.store import SqliteStore
from tests.agents.histories import check, is_accepted
from tests.agents.scripts import Script, returns
from tests.places import NewStore
from tests.support import until

Act = Callable[[], str]
Body = Callable[[RunContext[None], Act], Awaitable[Any]]
Parts = Callable[[list[str]], dict[str, Any]]

REMOVE = ("remove", {"path": "a"})
CHANGES = ["renamed", "removed", "narrowed", "widened"]


class Deploy:
    """A process with the code of its time.

    Args:
        place: The folder of its store, or the function that opens it.
        parts: Returns the tools or toolsets of the agent, which note what they do.
        given: A history that ends in calls.
    """

    def __init__(
        self,
        place: Path | NewStore,
        script: Script,
        parts: Parts,
        *,
        given: Sequence[ModelMessage] = (),
        **options: Any,
    ) -> None:
        self.app = Signoff(SqliteStore(place / "signoff.db") if isinstance(place, Path) else place())
        self.done: list[str] = []
        self.messages: list[ModelMessage] = []
        durable = Durable(operators=["user:olga"], **options)
        agent = Agent(script.model, name="tidy", capabilities=[durable], **parts(self.done))

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            prompt = None if given else "tidy up"
            self.messages = (await agent.run(prompt, message_history=given)).all_messages()
            return returns(self.messages)

        self.work = work

    async def question(self, client: AsyncClient) -> Promise:
        async def look() -> Promise | None:
            return next(iter((await client.questions()).items), None)

        return await until(self.app, look)

    async def checked(self) -> ToolReturnPart:
        """Check the history; returns what the last call returned."""
        check(self.messages)
        await is_accepted(self.messages)
        parts = [part for message in self.messages for part in message.parts]
        return [part for part in parts if isinstance(part, ToolReturnPart)][-1]

    def told(self) -> list[str]:
        """The model's input besides tool results."""
        parts = [part for message in self.messages[1:] for part in message.parts]
        return [str(part.content) for part in parts if isinstance(part, UserPromptPart)]


# Kinds of questions that a call can have open


@dataclass
class Kind:
    """How a call comes to have a question open.

    Attributes:
        body: What its tool does.
        answer: What is answered.
        is_external: Whether it runs elsewhere.
        is_inline: Whether its body is workflow code.
        is_run: Whether the tool runs after the answer.
        tool: Options of the tool.
        options: Options of ``Durable``.
    """

    body: Body
    answer: Any = True
    is_external: bool = False
    is_inline: bool = False
    is_run: bool = True
    tool: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def after(self, change: str) -> Parts:
        """Return what makes the tool as it is after a change."""
        name = "delete" if change == "renamed" else "remove"

        def parts(done: list[str]) -> dict[str, Any]:
            async def with_path(ctx: RunContext[None], path: str) -> Any:
                return await self.body(ctx, lambda: note(path))

            async def with_more(ctx: RunContext[None], path: str, force: bool = True) -> Any:
                return await self.body(ctx, lambda: note(f"{path} {force}"))

            async def with_folder(ctx: RunContext[None], folder: str) -> Any:
                return await self.body(ctx, lambda: note(folder))

            def note(what: str) -> str:
                done.append(f"{name} {what}")
                return f"{name}d {what}"

            function = {"widened": with_more, "narrowed": with_folder}.get(change, with_path)
            tool = Tool(in_workflow(function) if self.is_inline else function, name=name, **self.tool)
            if change == "removed":
                return {}
            if not self.is_external:
                return {"tools": [tool]}
            schema = tool.tool_def.parameters_json_schema
            return {
                "toolsets": [
                    ExternalToolset([ToolDefinition(name=name, parameters_json_schema=schema)], id="desk")
                ]
            }

        return parts


async def acts(ctx: RunContext[None], act: Act) -> str:
    return act()


async def requires(ctx: RunContext[None], act: Act) -> str:
    if not ctx.tool_call_approved:
        raise ApprovalRequired
    return act()


async def defers(ctx: RunContext[None], act: Act) -> str:
    raise CallDeferred


async def leaves_for_itself(ctx: RunContext[None], act: Act) -> str:
    answer = await pause("approval_required", prompt="Sure?")
    return act() if answer.approved else "no"


async def leaves_for_the_model(ctx: RunContext[None], act: Act) -> None:
    await pause("await_input", prompt="Well?", then="model")


async def waits(ctx: RunContext[None], act: Act) -> str:
    context = signoff.current_context()
    await context.step("plan", lambda: None)
    await context.wait_for_user("Sure?")
    return await context.step("act", act)


FROM_OUTSIDE = {"answer": {"result": "x"}, "is_run": False}
KINDS = {
    "approval": Kind(acts, tool={"requires_approval": True}),
    "policy": Kind(acts, options={"approvals": ["remove"]}),
    "barrier": Kind(acts, tool={"requires_approval": True}, options={"barrier": True}),
    "in the body": Kind(requires),
    "in the body, barrier": Kind(requires, options={"barrier": True}),
    "deferred": Kind(defers, **FROM_OUTSIDE),
    "external": Kind(acts, is_external=True, **FROM_OUTSIDE),
    "pause for the model": Kind(leaves_for_the_model, "x", is_run=False),
}
BEGUN = {
    "pause": Kind(leaves_for_itself),
    "pause of a tool that writes": Kind(
        leaves_for_itself, tool={"metadata": tool_options(side_effects="external")}
    ),
    "workflow code": Kind(waits, is_inline=True),
}
"""How a call comes to have a question open after its body has begun."""


async def asked_before_a_deploy(place: Path | NewStore, script: Script, old: Kind, **options: Any) -> None:
    """Ask with the old code, and answer while no worker is up."""
    deploy = Deploy(place, script, old.after("none"), **old.options, **options)
    async with AsyncClient(deploy.app) as client:
        async with deploy.app.worker():
            await client.start(deploy.work, id="r")
            question = await deploy.question(client)
        await client.answer(question.id, old.answer, user_id="ana")
    await deploy.app.store.close()
    assert deploy.done == []
