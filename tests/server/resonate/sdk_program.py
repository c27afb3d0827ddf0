"""Functions on the Python SDK of Resonate, for its environment: ``sdk_program.py URL FOLDER GROUP LEASE_SECONDS``.

``sdk_program.ts`` has the same functions in TypeScript. The process serves them in a group. Each line of its stdin is
an order, as a JSON array, such as ``["run", id, function, *arguments]``; each line of its stdout is the outcome of one:
``[id, "value", value]`` or ``[id, "error", text]``. Each effect is a line in ``FOLDER/effects``: its name, and the id
of the invocation.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from resonate.context import Context
from resonate.resonate import Resonate
from resonate.retry import Constant, Never
from resonate.types import Value

URL, FOLDER, GROUP, LEASE = sys.argv[1], Path(sys.argv[2]), sys.argv[3], timedelta(seconds=int(sys.argv[4]))


def effect(ctx: Context, name: str) -> None:
    with (FOLDER / "effects").open("a") as file:
        file.write(f"{name} {ctx.info.id}\n")


async def step(ctx: Context, name: str, seconds: float = 0) -> str:
    effect(ctx, name)
    await asyncio.sleep(seconds)
    return name


async def calls(ctx: Context, name: str) -> list[Any]:
    """Local and remote calls, one after the other and side by side."""
    local = [await ctx.run(step, f"{name}-local-{n}") for n in range(3)]
    remote = [await ctx.rpc(step, f"{name}-remote-{n}") for n in range(3)]
    beside = [ctx.rpc(step, f"{name}-beside-{n}") for n in range(3)]
    return [*local, *remote, *[await each for each in beside]]


async def chain(ctx: Context, name: str, length: int, seconds: float) -> int:
    """Local and remote calls in turn, some of them in a workflow of their own."""
    for n in range(length):
        if n % 3 == 0:
            await ctx.run(step, f"{name}-{n}", seconds)
        elif n % 3 == 1:
            await ctx.rpc(step, f"{name}-{n}", seconds)
        else:
            await ctx.rpc(link, f"{name}-{n}", seconds)
    return length


async def link(ctx: Context, name: str, seconds: float) -> None:
    await ctx.run(step, f"{name}-local", seconds)
    await ctx.rpc(step, f"{name}-remote", seconds)


async def ping(ctx: Context, name: str, groups: list[str]) -> list[str]:
    """Call the next group, which calls the one after it."""
    own, *others = groups
    await ctx.run(step, f"{name}-{len(groups)}")
    if not others:
        return [own]
    return [own, *await ctx.options(target=others[0]).rpc("ping", name, others)]


async def sleeps(ctx: Context, name: str) -> str:
    await ctx.run(step, f"{name}-before")
    await ctx.sleep(timedelta(seconds=0.3))
    return await ctx.run(step, f"{name}-after")


async def detaches(ctx: Context, name: str) -> str:
    """Start a call that nothing awaits."""
    await ctx.detached("step", f"{name}-detached")
    return name


async def retries(ctx: Context, name: str) -> str:
    return await ctx.rpc(flaky, name)


async def flaky(ctx: Context, name: str) -> str:
    """Fail twice."""
    effect(ctx, name)
    if (FOLDER / "effects").read_text().count(f"{name} ") < 3:
        raise ConnectionError("not yet")
    return name


async def fails(ctx: Context) -> str:
    """Call a step that fails for good."""
    try:
        return await ctx.rpc(broken)
    except Exception as error:
        return f"caught: {error}"


async def broken(ctx: Context) -> str:
    raise ValueError("broken")


async def releases(ctx: Context, name: str) -> str:
    """Give the task back the first time."""
    effect(ctx, name)
    if (FOLDER / "effects").read_text().count(f"{name} ") < 2:
        await ctx.run("a function that nobody has registered")
    return name


async def asks(ctx: Context) -> Any:
    """Ask a person."""
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
    terms = {"text": "Pay?", "input_type": "form", "answer_schema": schema}
    return await ctx.rpc("signoff:question", terms)


async def calls_signoff(ctx: Context, number: int) -> Any:
    """Call a workflow of Signoff."""
    return await ctx.options(target="signoff-workers").rpc("double", number)


async def waits(ctx: Context, name: str, seconds: float) -> Any:
    """Wait for a promise that a test settles, or that times out."""
    await ctx.run(step, f"{name}-before")
    try:
        value = await ctx.promise(timedelta(seconds=seconds))
    except Exception:
        value = "none"
    await ctx.run(step, f"{name}-after")
    return value


FUNCTIONS = (
    step,
    calls,
    chain,
    link,
    ping,
    sleeps,
    detaches,
    retries,
    releases,
    fails,
    asks,
    calls_signoff,
    waits,
)


async def perform(resonate: Resonate, kind: str, id: str, *rest: Any) -> Any:
    match kind, rest:
        case "run", (function, *arguments):
            return await resonate.run(id, function, *arguments).result()
        case "rpc", (function, *arguments):
            return await resonate.rpc(id, function, *arguments).result()
        case "send", (group, function, *arguments):
            return await resonate.options(target=group).rpc(id, function, *arguments).result()
        case "schedule", (cron, function, *arguments):
            await resonate.schedule(id, cron, function, tuple(arguments))
        case "cancel", ():
            await resonate.promises.cancel(id, Value())
        case "unschedule", ():
            await resonate.schedules.delete(id)
    return None


async def answer(resonate: Resonate, kind: str, id: str, *rest: Any) -> None:
    try:
        outcome = [id, "value", await perform(resonate, kind, id, *rest)]
    except Exception as error:
        outcome = [id, "error", str(error)]
    print(json.dumps(outcome), flush=True)


async def main() -> None:
    resonate = Resonate(url=URL, group=GROUP, ttl=LEASE)
    for function in FUNCTIONS:
        resonate.register(function)
    resonate.register(flaky, retry_policy=Constant(max_retries=5, delay=0))
    resonate.register(broken, retry_policy=Never())
    async with asyncio.TaskGroup() as orders:
        while line := await asyncio.to_thread(sys.stdin.readline):
            orders.create_task(answer(resonate, *json.loads(line)))
    await resonate.stop()


asyncio.run(main())
