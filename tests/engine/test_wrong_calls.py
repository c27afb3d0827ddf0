"""Invalid arguments of Signoff's own functions are refused at once, by name."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from signoff import Context, Signoff, current_step
from signoff.engine.steps.wrong_arguments import is_wrong_call
from signoff.errors import InvalidValue, RegistrationError
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

called: list[int] = []


def adds(a: int, b: int = 1) -> int:
    called.append(a)
    return a + b


async def outcome(code: Callable[[Any], Awaitable[Any]]) -> Any:
    app = Signoff(MemoryStore())
    called.clear()

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await code(ctx)

    async with environment(app) as env:
        return await (await env.start(flow)).result()


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (
            lambda ctx: ctx.step("x", adds, 1, b=2),
            RegistrationError,
            r"step 'x': b= is not an option of ctx.step; pass .* functools.partial\(adds, b=\.\.\.\)",
        ),
        (lambda ctx: ctx.step(adds, 1, c=2), RegistrationError, r"step 'adds': c= is not an option"),
        (
            lambda ctx: ctx.step("x", adds, 1, timeout_seconds=2),
            RegistrationError,
            r"did you mean timeout=\?",
        ),
        (lambda ctx: ctx.step("x", adds, 1, retries=2), RegistrationError, r"did you mean retry=\?"),
        (
            lambda ctx: ctx.step("x", adds, 1, operator=["user:ana"]),
            RegistrationError,
            r"did you mean operators=\?",
        ),
        (lambda ctx: ctx.step("x", adds, 1, returns=5), InvalidValue, r"step 'x': returns: 5 is not a type"),
        (lambda ctx: ctx.step("x", adds, 1, returns={"type": "int"}), InvalidValue, r"\} is not a type"),
        (lambda ctx: ctx.wait_for_signal("x", returns={}), InvalidValue, r"returns: \{\} is not a type"),
        (lambda ctx: ctx.step("x", adds, 1, returns="int"), InvalidValue, r"'int' is not a type"),
        (lambda ctx: ctx.step("x", adds, 1, returns=[int]), InvalidValue, r"is not a type"),
        (
            lambda ctx: ctx.step("x", adds, 1, returns=type(ctx)),
            InvalidValue,
            r"Context cannot be read from JSON",
        ),
        (lambda ctx: ctx.step("x", adds, 1).options(returns=5), InvalidValue, r"5 is not a type"),
        (lambda ctx: ctx.rfc("flow").options(returns=5), InvalidValue, r"5 is not a type"),
        (lambda ctx: ctx.wait_for_signal("x", returns=5), InvalidValue, r"returns: 5 is not a type"),
        (lambda ctx: ctx.promise(returns=5), InvalidValue, r"returns: 5 is not a type"),
    ],
)
@in_asyncio
async def test_it_is_refused_before_anything_runs(code: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        await outcome(code)
    assert not called


@in_asyncio
async def test_types_of_all_kinds_are_taken() -> None:
    for declared in (int, int | None, Any, str | int, functools.partial(int).func):
        assert await outcome(lambda ctx, declared=declared: ctx.step("x", adds, 1, returns=declared)) == 2


@in_asyncio
async def test_a_step_that_calls_signoff_wrongly_is_not_tried_again() -> None:
    attempts: list[int] = []

    async def asks(ctx: Any) -> None:
        attempts.append(current_step().attempt)
        await ctx.wait_for_user("Well?", assignee="user:ana")

    async def code(ctx: Context) -> Any:
        return await ctx.step("asks", functools.partial(asks, Context), compare=None)

    with pytest.raises(TypeError, match="unexpected keyword argument 'assignee'"):
        await outcome(code)
    assert attempts == [1]


def mine(*, assignees: str) -> None: ...


@pytest.mark.parametrize(
    ("call", "is_wrong"),
    [
        (lambda: Context.wait_for_user("q", assignee="a"), True),  # type: ignore[call-arg]
        (Context.promise, True),
        (lambda: Signoff(nothing=1), True),  # type: ignore[call-arg]
        (lambda: mine(assignee="a"), False),  # type: ignore[call-arg]
        (lambda: int([]), False),  # type: ignore[call-overload]
        (lambda: "a" + 1, False),  # type: ignore[operator]
    ],
)
def test_only_calls_of_signoff_are_its_own(call: Callable[[], Any], is_wrong: bool) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert is_wrong_call(caught.value) is is_wrong


def test_functions_for_agents_are_known() -> None:
    from signoff import agents

    for function in (agents.pause, agents.ask_user, agents.ask):
        with pytest.raises(TypeError) as caught:
            cast(Any, function)(assignee="user:ana")
        assert is_wrong_call(caught.value)
