"""Workflows drawn from a seed: their content as data, and the one workflow that executes it."""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from signoff import (
    Context,
    IdConflict,
    PromiseCancelled,
    PromiseRejected,
    PromiseTimeout,
    RetryPolicy,
    RunCancelled,
    SignalTimeout,
    StepFailed,
    StepTimeout,
    current_step,
)
from signoff.workflow.registry import Registry

WORKFLOW = "play"
COME_ROUND_AGAIN = "come round again"  # for a shared promise whose outcome the run has had
UNDO = "undo"  # the step that a run takes when it is stopped


class BrokenError(Exception):
    """What steps and workflows fail with here."""


@dataclass(frozen=True)
class Step:
    name: str
    fails: int = 0  # so many attempts
    attempts: int = 3
    seconds: float = 0.0
    hangs: bool = False  # each attempt runs into its timeout
    is_plain: bool = False
    is_once: bool = False
    is_durable: bool = True


@dataclass(frozen=True)
class Sleep:
    name: str
    seconds: float


@dataclass(frozen=True)
class Ask:
    name: str
    input_type: str
    timeout: float | None


@dataclass(frozen=True)
class Await:
    """Wait for a promise that an API caller settles; several runs may share it."""

    name: str
    id: str | None
    timeout: float | None


@dataclass(frozen=True)
class Listen:
    name: str
    count: int
    timeout: float | None


@dataclass(frozen=True)
class Child:
    name: str
    program: str


@dataclass(frozen=True)
class Free:
    """Start a run that goes on by itself."""

    name: str
    program: str


@dataclass(frozen=True)
class Patch:
    name: str


@dataclass(frozen=True)
class Several:
    name: str
    how: str  # sequence, gather, group, race
    parts: tuple[Node, ...]


Node = Step | Sleep | Ask | Await | Listen | Child | Free | Patch | Several


@dataclass(frozen=True)
class Program:
    """What one run does.

    Attributes:
        generations: Each continues as the next.
        fails: Whether the run fails at its end.
    """

    name: str
    generations: tuple[Node, ...]
    fails: bool = False


class Author:
    """Draws programs.

    Attributes:
        programs: All that were drawn, by name.
    """

    def __init__(self, source: random.Random) -> None:
        self.programs: dict[str, Program] = {}
        self._source = source
        self._number = 0

    def program(self, *, size: int, depth: int = 0) -> Program:
        """Draw a program of about so many calls, and those of its children."""
        source = self._source
        generations = source.choice((1, 1, 1, 2, 3))
        name = self._name("p")
        parts = tuple(
            self._several(max(1, size // generations), depth, "sequence") for _ in range(generations)
        )
        program = Program(name, parts, source.random() < 0.15)
        self.programs[name] = program
        return program

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _several(self, size: int, depth: int, how: str) -> Several:
        parts: list[Node] = []
        while size > 0:
            if size >= 2 and self._source.random() < 0.35:
                inner = self._source.randint(2, min(size, 4))
                kind = self._source.choice(("gather", "group", "race", "race", "sequence"))
                parts.append(self._several(inner, depth, kind))
                size -= inner
            else:
                parts.append(self._one(depth))
                size -= 1
        return Several(self._name("several"), how, tuple(parts))

    def _one(self, depth: int) -> Node:
        kinds: dict[Callable[[int], Node], int] = {
            self._step: 8,
            self._once: 2,
            self._sleep: 2,
            self._ask: 4,
            self._await: 2,
            self._listen: 2,
            self._patch: 1,
        }
        if depth < 2:
            kinds |= {self._child: 2, self._free: 1}
        [draw] = self._source.choices(list(kinds), list(kinds.values()))
        return draw(depth)

    def _step(self, depth: int) -> Node:
        source = self._source
        is_plain = source.random() < 0.3
        return Step(
            self._name("step"),
            fails=source.choice((0, 0, 0, 1, 2, 9)),
            attempts=source.choice((1, 2, 3)),
            seconds=0.0 if is_plain else source.choice((0.0, 0.0, 0.1, 1.0, 6.0)),
            hangs=not is_plain and source.random() < 0.05,
            is_plain=is_plain,
            is_durable=source.random() < 0.9,
        )

    def _once(self, depth: int) -> Node:
        seconds = self._source.choice((0.0, 0.1, 2.0, 7.0))
        return Step(self._name("once"), self._source.choice((0, 0, 9)), 1, seconds, is_once=True)

    def _sleep(self, depth: int) -> Node:
        return Sleep(self._name("sleep"), self._source.choice((0.3, 2.0, 5.0, 9.0)))

    def _ask(self, depth: int) -> Node:
        input_type = self._source.choice(("approval", "text"))
        return Ask(self._name("ask"), input_type, self._source.choice((None, None, 2.0, 6.0)))

    def _await(self, depth: int) -> Node:
        if self._source.random() < 0.4:
            return Await(self._name("await"), f"shared{self._source.randint(1, 2)}", None)
        return Await(self._name("await"), None, self._source.choice((None, 4.0)))

    def _listen(self, depth: int) -> Node:
        return Listen(
            self._name("listen"), self._source.choice((1, 1, 2, 3)), self._source.choice((None, None, 5.0))
        )

    def _child(self, depth: int) -> Node:
        return Child(self._name("child"), self.program(size=2, depth=depth + 1).name)

    def _free(self, depth: int) -> Node:
        return Free(self._name("free"), self.program(size=1, depth=depth + 2).name)

    def _patch(self, depth: int) -> Node:
        return Patch(self._name("patch"))


def new_registry(programs: dict[str, Program]) -> Registry:
    """Make a registry with the one workflow that plays programs."""
    player = Player(programs)
    registry = Registry("default")

    async def play(
        ctx: Context, name: str, generation: int = 0, results: list[Any] | None = None
    ) -> list[Any]:
        return await player.play(ctx, name, generation, results)

    registry.add(play, WORKFLOW, "1")
    return registry


class Player:
    """Plays programs, by their names."""

    def __init__(self, programs: dict[str, Program]) -> None:
        # Code that is let go is searched for what it refers to: nothing big may be among that.
        self._programs = weakref.WeakValueDictionary(programs)

    async def play(self, ctx: Context, name: str, generation: int, results: list[Any] | None) -> list[Any]:
        program = self._programs[name]
        results = list(results or [])
        try:
            results.append(await self._do(ctx, program.generations[generation]))
        except asyncio.CancelledError:
            await ctx.step(UNDO, self._body(Step(UNDO)), returns=str)
            raise
        if generation + 1 < len(program.generations):
            ctx.continue_as_new(name, generation + 1, results)
        if program.fails:
            raise BrokenError(name)
        return results

    async def _do(self, ctx: Context, node: Node) -> Any:
        match node:
            case Several():
                return await self._do_several(ctx, node)
            case Step():
                return await self._do_step(ctx, node)
            case Sleep():
                before = ctx.now().timestamp()
                await ctx.sleep(node.seconds)
                early = ctx.now().timestamp() - before < node.seconds - 0.001
                return "woke too early" if early else "slept"
            case Ask():
                try:
                    answer = await ctx.wait_for_user(
                        node.name,
                        input_type=node.input_type,  # pyright: ignore[reportArgumentType]
                        timeout_seconds=node.timeout,
                    )
                except SignalTimeout:
                    return "nobody"
                return [answer.value, answer.user_id]
            case Await():
                return await self._do_await(ctx, node)
            case Listen():
                return await self._do_listen(ctx, node)
            case Child():
                try:
                    return await ctx.rfc(WORKFLOW, node.program).options(id=f"{ctx.run_id}/{node.name}")
                except BrokenError:
                    return "broken"
                except RunCancelled:
                    return "cancelled"
            case Free():
                return await ctx.detached(WORKFLOW, node.program).options(id=f"{ctx.run_id}/{node.name}")
            case Patch():
                await ctx.progress(node.name)
                return "new" if ctx.patched(node.name) else "old"

    async def _do_several(self, ctx: Context, node: Several) -> Any:
        if node.how == "sequence":
            return [await self._do(ctx, part) for part in node.parts]
        if node.how == "gather":
            return list(await asyncio.gather(*(self._do(ctx, part) for part in node.parts)))
        if node.how == "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._do(ctx, part)) for part in node.parts]
            return [task.result() for task in tasks]
        tasks = [asyncio.create_task(self._do(ctx, part)) for part in node.parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        first = min(tasks.index(task) for task in done)
        return [first, tasks[first].result()]

    async def _do_step(self, ctx: Context, node: Step) -> Any:
        if node.is_once:
            call = ctx.step(node.name, self._body(node), effect="once", returns=str)
        else:
            policy = RetryPolicy(initial_seconds=0.4, factor=3.0, max_attempts=node.attempts, jitter=False)
            call = ctx.step(
                node.name,
                self._body(node),
                retry=policy,
                timeout=0.5 if node.hangs else None,
                durable=node.is_durable,
                returns=str,
            )
        try:
            return await call
        except (BrokenError, StepTimeout):
            return "broken"
        except StepFailed:
            return "declared failed"

    def _body(self, node: Step) -> Callable[[], Any]:
        def plain() -> str:
            if current_step().attempt <= node.fails:
                raise BrokenError(node.name)
            return node.name

        async def slow() -> str:
            await asyncio.sleep(99.0 if node.hangs else node.seconds)
            return plain()

        return plain if node.is_plain else slow

    async def _do_await(self, ctx: Context, node: Await) -> Any:
        try:
            promise = await ctx.promise(
                id=node.id or f"{ctx.run_id}/{node.name}", timeout_seconds=node.timeout
            )
        except IdConflict:
            return COME_ROUND_AGAIN
        try:
            return await promise
        except PromiseRejected as rejected:
            return ["rejected", rejected.value]
        except PromiseCancelled:
            return "cancelled"
        except PromiseTimeout:
            return "nobody"

    async def _do_listen(self, ctx: Context, node: Listen) -> list[Any]:
        heard: list[Any] = []
        for _ in range(node.count):
            try:
                heard.append(await ctx.wait_for_signal(node.name, timeout_seconds=node.timeout))
            except SignalTimeout:
                heard.append("nobody")
        return heard
