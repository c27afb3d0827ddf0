"""Programs of the durable promise protocol, drawn from a seed: their content as data."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from signoff import Context, PromiseCancelled, PromiseRejected, PromiseTimeout
from signoff.workflow.registry import Registry

GROUPS = ("g0", "g1")  # of SDK processes
LEGACY_GROUP = "old"  # of processes that speak the protocol of 2024
SIGNOFF = "default"  # the group of Signoff workers

FUNCTION = "program"
STEP = "step"
WAIT = "wait"
SLEEP = "sleep"


@dataclass(frozen=True)
class Local:
    """A function that runs in the process itself."""

    name: str
    seconds: float
    fails: bool


@dataclass(frozen=True)
class Remote:
    """A call of another program, by any process of a group; or by the process at a URL."""

    program: str
    group: str
    timeout: float | None
    delay: float | None
    is_awaited: bool


@dataclass(frozen=True)
class Sleep:
    seconds: float
    has_target: bool  # as the TypeScript SDK does


@dataclass(frozen=True)
class Wait:
    """Wait for a promise that callers of both APIs settle; several programs and runs may share it."""

    id: str | None
    timeout: float | None


@dataclass(frozen=True)
class Ask:
    """Ask a person, by a tag or by the name of the function."""

    text: str
    input_type: str
    timeout: float | None
    is_called: bool


@dataclass(frozen=True)
class Workflow:
    """A call of a workflow of Signoff."""

    name: str
    argument: str
    timeout: float | None


@dataclass(frozen=True)
class Several:
    """Calls that are begun one after the other, and then awaited."""

    parts: tuple[Call, ...]


Call = Local | Remote | Sleep | Wait | Ask | Workflow
Node = Call | Several


@dataclass(frozen=True)
class Program:
    """What one invocation does.

    Attributes:
        fails: Whether it fails at its end.
        is_early: Whether it registers callbacks before it is suspended.
    """

    name: str
    nodes: tuple[Node, ...]
    fails: bool
    is_early: bool


class Author:
    """Draws programs.

    Args:
        source: Decides.
        groups: The groups, and URLs, that programs call.
        calls_back: Whether workflows call programs.

    Attributes:
        programs: All that were drawn, by name.
        calls_signoff: Whether one calls a workflow.
    """

    def __init__(
        self, source: random.Random, groups: Sequence[str] = GROUPS, *, calls_back: bool = False
    ) -> None:
        self.programs: dict[str, Program] = {}
        self.calls_signoff = False
        self._source = source
        self._groups = groups
        self._calls_back = calls_back

    def program(self, size: int, depth: int = 0) -> str:
        """Draw a program of about so many calls, and those that it calls. Returns its name."""
        source = self._source
        nodes: list[Node] = []
        while size > 0:
            count = source.randint(2, 4) if size > 1 and source.random() < 0.3 else 1
            parts = tuple(self._call(depth) for _ in range(count))
            nodes.append(parts[0] if count == 1 else Several(parts))
            size -= count
        name = f"p{len(self.programs)}"
        self.programs[name] = Program(name, tuple(nodes), source.random() < 0.15, source.random() < 0.2)
        return name

    def _call(self, depth: int) -> Call:
        kinds: dict[Callable[[int], Call], int] = {
            self._local: 6,
            self._sleep: 1,
            self._wait: 4,
            self._ask: 2,
            self._workflow: 3,
        }
        if depth < 2:
            kinds[self._remote] = 6
        [draw] = self._source.choices(list(kinds), list(kinds.values()))
        return draw(depth)

    def _local(self, depth: int) -> Call:
        source = self._source
        return Local(
            f"l{source.randrange(1000)}", source.choice((0.0, 0.0, 0.1, 2.0, 7.0)), source.random() < 0.2
        )

    def _remote(self, depth: int) -> Call:
        source = self._source
        program = self.program(source.choice((1, 2)), depth + 1)
        timeout = source.choice((None, None, None, None, 4.0))
        delay = source.choice((None, None, None, 1.5))
        return Remote(program, source.choice(self._groups), timeout, delay, source.random() < 0.9)

    def _sleep(self, depth: int) -> Call:
        return Sleep(self._source.choice((0.3, 2.0, 6.0)), self._source.random() < 0.5)

    def _wait(self, depth: int) -> Call:
        source = self._source
        if source.random() < 0.5:
            return Wait("shared1", None)
        return Wait(None, source.choice((None, None, 3.0, 6.0)))

    def _ask(self, depth: int) -> Call:
        source = self._source
        input_type, timeout = source.choice(("approval", "text")), source.choice((None, 6.0))
        return Ask(f"q{source.randrange(1000)}", input_type, timeout, source.random() < 0.3)

    def _workflow(self, depth: int) -> Call:
        self.calls_signoff = True
        source = self._source
        name = source.choice(("steps", "fails", "waits", "waits"))
        argument = source.choice(("shared1", "own")) if name == "waits" else "a"
        if self._calls_back and depth < 2 and source.random() < 0.6:
            polled = [group for group in self._groups if "://" not in group]
            name, argument = (
                "calls",
                f"{self.program(source.choice((1, 2)), depth + 1)}@{source.choice(polled)}",
            )
        return Workflow(name, argument, source.choice((None, None, None, 5.0)))


def new_registry() -> Registry:
    """Make a registry with the workflows that programs call."""
    registry = Registry(SIGNOFF)
    for workflow in (steps, fails, waits, calls):
        registry.add(workflow, workflow.__name__, "1")
    return registry


async def steps(ctx: Context, argument: str) -> Any:
    return [await ctx.step(name, lambda: argument, returns=str) for name in ("first", "second")]


async def fails(ctx: Context, argument: str) -> Any:
    raise LookupError(await ctx.step("only", lambda: argument, returns=str))


async def waits(ctx: Context, argument: str) -> Any:
    """Wait for a promise: its own, or one that programs wait for, too."""
    id = argument if argument.startswith("shared") else f"{ctx.run_id}/p"
    try:
        return await (await ctx.promise(id=id))
    except PromiseRejected as rejected:
        return ["rejected", rejected.value]
    except PromiseCancelled:
        return "cancelled"
    except PromiseTimeout:
        return "timed out"


async def calls(ctx: Context, argument: str) -> Any:
    """Call a program of a group, which may call workflows in turn."""
    program, _, group = argument.partition("@")
    return await ctx.rfc(FUNCTION, program).options(target=f"poll://any@{group}")
