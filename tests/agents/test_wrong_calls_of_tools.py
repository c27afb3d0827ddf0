"""A tool that misuses one of Signoff's functions fails its turn at once, and the error names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from signoff import Context, Signoff, current_context
from signoff.agents import Durable, ask, ask_user, pause
from signoff.errors import InvalidValue, OutsideWorkflow, RegistrationError
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio


async def asks_by_pause() -> Any:
    return cast(Any, pause)("approval", assignee="user:ana")


async def asks_by_ask_user() -> Any:
    return await cast(Any, ask_user)("Which?", fields=[], assignee="user:ana")


async def waits_for_a_user() -> Any:
    return (await current_context().wait_for_user("Pay?")).approved


def paused(**options: Any) -> Callable[[], Any]:
    async def body() -> Any:
        return await cast(Any, pause)("approval_required", **options)

    return body


@pytest.mark.parametrize(
    ("body", "error", "why"),
    [
        (asks_by_pause, TypeError, "unexpected keyword argument 'assignee'"),
        (asks_by_ask_user, TypeError, "unexpected keyword argument 'assignee'"),
        (waits_for_a_user, OutsideWorkflow, r"running here, but step 'desk\.asks'\..*@in_workflow"),
        (paused(assignees=["ana"]), InvalidValue, "assignees: 'ana' is not written as user:ana"),
        (paused(timeout="5"), InvalidValue, "timeout: '5' is not a number of seconds"),
        (paused(hours="9-17"), InvalidValue, "hours: pass BusinessHours"),
        (paused(exclude_requester="no"), InvalidValue, "exclude_requester: 'no' is neither True nor False"),
        (paused(prompt=" "), RegistrationError, "prompt must be a text that is not blank, not ' '"),
        (paused(prompt=3), RegistrationError, "prompt must be a text that is not blank, not 3"),
    ],
)
@in_asyncio
async def test_it_is_tried_once(body: Callable[[], Any], error: type[Exception], why: str) -> None:
    called: list[int] = []
    agent = Agent(TestModel(), name="desk", capabilities=[Durable()])

    @agent.tool_plain
    async def asks() -> Any:
        called.append(1)
        return await body()

    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> Any:
        return (await agent.run("go")).output

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        with pytest.raises(error, match=why):
            await run.result()
    assert called == [1]


@pytest.mark.parametrize("prompt", ["", " ", 3, b"Pay?"])
def test_a_prompt_that_says_nothing_is_refused_where_it_is_written(prompt: Any) -> None:
    with pytest.raises(RegistrationError, match="ask: prompt must be a text that is not blank"):
        ask(prompt)


@pytest.mark.parametrize("name", ["barrier", "stream"])
def test_only_true_and_false_turn_something_on(name: str) -> None:
    with pytest.raises(InvalidValue, match=f"{name}: 'false' is neither True nor False"):
        Durable(**{name: "false"})  # type: ignore[arg-type]
