"""Random programs whose calls are permuted at a restart: they have the same effects, or stop with NonDeterminism.

Reproduce a failure with the ``@seed`` that hypothesis prints, or by ``SIGNOFF_EXAMPLES`` for more programs.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import itertools
import json
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.errors import NonDeterminism, SignoffError
from signoff.testing import Environment, MemoryStore, at_pause, environment

EXAMPLES = int(os.environ.get("SIGNOFF_EXAMPLES", "40"))

KINDS = (
    "step",
    "once",
    "closure",
    "partial",
    "key",
    "lfc",
    "child",
    "child id",
    "detached",
    "question",
    "promise",
    "timer",
    "progress",
    "method",
    "plain method",
    "callable object",
    "factory",
    "decorated",
    "partial of method",
    "local in generator",
    "child delay",
    "chosen question",
    "agent",
)

WITHOUT_STEPS = ("question", "chosen question", "promise", "timer", "progress")
OF_CHILDREN = ("child", "child id", "child delay", "detached")


@dataclass(frozen=True)
class Call:
    """One call of a program: its kind, and the item it is made for."""

    kind: str
    item: str


@dataclass(frozen=True)
class Block:
    """Calls that are made one after the other, or at once, each in a task or as it is."""

    calls: tuple[Call | Block, ...]
    is_at_once: bool = False


calls = st.builds(Call, st.sampled_from(KINDS), st.sampled_from("abcd"))
blocks = st.recursive(
    st.builds(Block, st.lists(calls, min_size=1, max_size=4).map(tuple), st.booleans()),
    lambda inner: st.builds(Block, st.lists(calls | inner, min_size=1, max_size=3).map(tuple), st.booleans()),
    max_leaves=4,
)


@st.composite
def permuted(draw: st.DrawFn, block: Block) -> Block:
    """Return a program with its calls in another order, or for other items."""
    parts = draw(st.permutations(block.calls))
    changed: list[Call | Block] = []
    for part in parts:
        if isinstance(part, Block):
            changed.append(draw(permuted(part)))
        elif draw(st.integers(0, 5)) == 0:
            changed.append(Call(part.kind, draw(st.sampled_from("abcd"))))
        else:
            changed.append(part)
    return Block(tuple(changed), block.is_at_once)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Block, Block]:
    block = draw(blocks)
    return block, draw(st.just(block) | permuted(block))


@dataclass
class Item:
    """Data with a method, as people write it."""

    world: World  # it has no stable form
    kind: str
    item: str

    def do(self) -> str:
        return self.world.do(self.kind, self.item)


class PlainItem:
    def __init__(self, do: Callable[[str, str], str], kind: str, item: str) -> None:
        self.call, self.kind, self.item = do, kind, item

    def do(self) -> str:
        return self.call(self.kind, self.item)

    def __call__(self) -> str:
        return self.do()


def factory(do: Callable[[str, str], str], kind: str, item: str) -> Callable[[], str]:
    """Make a function outside of the workflow."""

    def made() -> str:
        return do(kind, item)

    return made


def decorated(function: Callable[[], str]) -> Callable[[], str]:
    @functools.wraps(function)
    def wrapper() -> str:
        return function()

    return wrapper


def call_tool(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Say what a model would: call the tool with what the user has said, then say what it returned."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(str(last.content))])
    return ModelResponse([ToolCallPart("act", {"item": getattr(last, "content", "")})])


class World:
    """Runs a program, and another one after a restart, and notes what was done for which item."""

    def __init__(self, first: Block, then: Block) -> None:
        self.effects: collections.Counter[tuple[str, str]] = collections.Counter()
        self.wrong: list[tuple[str, str, Any]] = []
        self.children: set[str] = set()
        self.has_restarted = False
        self._programs = (first, then)
        self._begun = itertools.count()
        self.app = Signoff(MemoryStore())

        async def child(ctx: Context, item: str) -> str:
            self.children.add(item)  # its step may run again: the worker may die in it
            return await ctx.step("child", str, item)

        async def flow(ctx: Context) -> None:
            await self._flow(ctx)

        self.agent = Agent(FunctionModel(call_tool), name="actor", capabilities=[Durable()])
        self.agent.tool_plain(name="act")(self._act)
        self.app.workflow(name="child")(child)
        self.app.workflow(name="flow")(flow)

    async def _flow(self, ctx: Context) -> None:
        program = self._programs[min(next(self._begun), 1)]
        await self._run(ctx, program)
        await ctx.wait_for_signal("go")

    def do(self, kind: str, item: str) -> str:
        self.effects[kind, item] += 1
        return item

    async def _run(self, ctx: Context, part: Call | Block) -> None:
        if isinstance(part, Call):
            result = await self._make(ctx, part.kind, part.item)
            if result not in (None, part.item):
                self.wrong.append((part.kind, part.item, result))
        elif part.is_at_once:
            await asyncio.gather(*(self._run(ctx, each) for each in part.calls))
        else:
            for each in part.calls:
                await self._run(ctx, each)

    async def _make(self, ctx: Context, kind: str, item: str) -> Any:
        do = self.do
        if (function := self._function(kind, item)) is not None:
            return await ctx.step("do", function)
        if kind in OF_CHILDREN and kind != "detached":
            return await self._child(ctx, kind, item)
        match kind:
            case "step":
                return await ctx.step("do", do, kind, item)
            case "once":
                return await ctx.step("do", do, kind, item, effect="once")
            case "closure":
                return await ctx.step("do", lambda: do(kind, item))
            case "key":
                return await ctx.step("do", lambda: do(kind, item), key=item)
            case "lfc":
                return await ctx.lfc(self._with_context, item=item)
            case "local in generator":
                return await ctx.lfc(self._in_generator, item)
            case "agent":
                return (await self.agent.run(item)).output
            case "detached":
                await ctx.detached("child", item).options(id=f"child-{item}")
            case "question":
                answer = await ctx.wait_for_user("Which?", input_type="text", metadata={"item": item})
                return answer.value
            case "chosen question":
                answer = await ctx.wait_for_user(
                    f"Which of {item}?", input_type="text", metadata={"item": item}
                )
                return answer.value
            case "promise":
                return await (await ctx.promise(data=item))
            case "timer":
                await ctx.sleep(ord(item))
            case _:
                await ctx.progress("at", item=item)
        return None

    async def _child(self, ctx: Context, kind: str, item: str) -> Any:
        call = ctx.rfc("child", item)
        match kind:
            case "child delay":
                return await call.options(delay_seconds=ord(item))
            case "child id":
                return await call.options(id=f"child-{item}")
            case _:
                return await call

    def _function(self, kind: str, item: str) -> Callable[[], str] | None:
        """Return the function of a step that brings its item along; None for other kinds of calls."""
        match kind:
            case "partial":
                return functools.partial(self.do, kind, item=item)
            case "method":
                return Item(self, kind, item).do
            case "plain method":
                return PlainItem(self.do, kind, item).do
            case "callable object":
                return PlainItem(self.do, kind, item)
            case "factory":
                return factory(self.do, kind, item)
            case "decorated":
                return decorated(factory(self.do, kind, item))
            case "partial of method":
                return functools.partial(Item(self, kind, item).do)
            case _:
                return None

    def _with_context(self, ctx: Any, item: str) -> str:
        return self.do("lfc", item)

    def _in_generator(self, ctx: Context, item: str) -> Generator[Any, Any, str]:
        do = self.do
        return (yield ctx.step("do", lambda: do("local in generator", item)))

    def _act(self, item: str) -> str:
        return self.do("agent", item)

    async def play(self) -> Exception | None:
        """Run it; its worker dies at the first pause. Returns the error that it ends with."""
        async with environment(self.app) as env:
            env.crash(at=at_pause(run_id="r"))
            run = await env.start("flow", id="r")
            await run.signal("go")
            for _ in range(80):
                await env.idle()
                if (await run.status()).is_final:
                    break
                await self._settle(env)
                await env.sleep(120)
            self.has_restarted = not env.pending_crashes
            try:
                await run.result()
            except Exception as error:
                return error
        return None

    async def _settle(self, env: Environment) -> None:
        """Answer what is asked with the item that it is asked for."""
        for promise in [each for each in env.store.model.tables.promises.values() if each.state == "pending"]:
            if promise.run_id != "r" or promise.data is None:
                continue
            data = json.loads(promise.data)
            with contextlib.suppress(SignoffError):
                if promise.kind == "question":
                    await env.client.answer(promise.id, data["metadata"]["item"])
                else:
                    await env.client.promises.resolve(promise.id, data)


def effects_of(program: Block) -> tuple[collections.Counter[tuple[str, str]], set[str]]:
    """Return what the steps of a program do, and for which items it has child runs."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    children: set[str] = set()

    def walk(part: Call | Block) -> None:
        if isinstance(part, Block):
            for each in part.calls:
                walk(each)
        elif part.kind in OF_CHILDREN:
            children.add(part.item)
        elif part.kind not in WITHOUT_STEPS:
            found[part.kind, part.item] += 1

    walk(program)
    return found, children


@settings(max_examples=EXAMPLES, print_blob=True)
@given(programs())
def test_a_permuted_program_has_the_same_effects_or_stops(both: tuple[Block, Block]) -> None:
    first, then = both
    world = World(first, then)
    error = asyncio.run(world.play())
    assert not world.wrong, "a call got what another one came to"
    if error is None:
        assert (world.effects, world.children) == effects_of(then if world.has_restarted else first)
    else:
        assert isinstance(error, NonDeterminism), error
        assert first != then
        effects, children = effects_of(first)
        assert world.effects <= effects
        assert world.children <= children
