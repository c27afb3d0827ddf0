"""Each private name still does what Signoff needs it for. A failure here says what breaks in this version."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from signoff import private_names
from tests.support import in_asyncio


class Loop(asyncio.AbstractEventLoop):
    """A loop that turns only when a test says so."""

    def is_running(self) -> bool:
        return True

    def get_debug(self) -> bool:
        return False


def _current(loop: asyncio.AbstractEventLoop) -> asyncio.Task[object] | None:
    return asyncio.current_task(loop)


@in_asyncio
async def test_a_loop_runs_inside_another_and_its_tasks_are_not_those_of_the_other() -> None:
    outer, task = asyncio.get_running_loop(), asyncio.current_task()
    inner, innermost = Loop(), Loop()
    with private_names.running(inner):
        assert asyncio.get_running_loop() is inner
        assert (asyncio.current_task(), _current(outer)) == (None, None), (
            "a workflow's tasks cannot be entered while the worker's task is current"
        )
        with private_names.running(innermost):
            assert asyncio.get_running_loop() is innermost
        assert asyncio.get_running_loop() is inner
    assert asyncio.get_running_loop() is outer
    assert (asyncio.current_task(), task) == (task, task), (
        "the worker's task does not go on after a workflow's turn"
    )


@in_asyncio
async def test_the_outer_loop_goes_on_after_an_error_of_the_inner() -> None:
    outer, task = asyncio.get_running_loop(), asyncio.current_task()
    with pytest.raises(KeyError), private_names.running(Loop()):
        raise KeyError
    assert asyncio.get_running_loop() is outer
    assert asyncio.current_task() is task


def test_a_loop_runs_where_none_ran() -> None:
    loop = Loop()
    with private_names.running(loop):
        assert asyncio.get_running_loop() is loop
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


@in_asyncio
async def test_code_inside_an_agent_s_run_knows_which_run_that_is() -> None:
    seen: list[object] = []

    async def tool(ctx: RunContext[None]) -> None:
        seen.extend((private_names.agent_run_here(), ctx.run_id))

    await Agent(TestModel(), tools=[tool]).run("go")
    assert len(seen) == 2
    assert seen[0] is not None
    assert seen[0] == seen[1], "a tool that pauses inside of an inner agent is taken for its outer one"
    assert private_names.agent_run_here() is None
