"""Programs on the Python SDK of Resonate, run by a Python that has it: ``sdk_program.py NAME URL FOLDER [ARGUMENT]``.

Each effect is a line in ``FOLDER/effects``. The result is printed as JSON.
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
from resonate.retry import Never

NAME, URL, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
ARGUMENT = sys.argv[4] if len(sys.argv) > 4 else ""


def effect(line: str) -> None:
    with (FOLDER / "effects").open("a") as file:
        file.write(f"{line}\n")


async def step(ctx: Context, name: str) -> str:
    effect(name)
    return name


async def calls(ctx: Context) -> list[Any]:
    """Local and remote calls, one after the other and side by side."""
    local = [await ctx.run(step, f"local-{n}") for n in range(3)]
    remote = [await ctx.rpc(step, f"remote-{n}") for n in range(3)]
    beside = [ctx.rpc(step, f"beside-{n}") for n in range(3)]
    return [*local, *remote, *[await each for each in beside]]


async def sleeps(ctx: Context) -> str:
    """Sleep between two steps."""
    await ctx.run(step, "before")
    await ctx.sleep(timedelta(seconds=float(ARGUMENT or 0.3)))
    return await ctx.run(step, "after")


async def detaches(ctx: Context) -> str:
    """Start a call that nothing awaits."""
    return await ctx.detached("step", "detached")


async def retries(ctx: Context) -> str:
    """Call a step that fails twice."""
    return await ctx.rpc(flaky, "flaky")


async def flaky(ctx: Context, name: str) -> str:
    effect(name)
    if (FOLDER / "effects").read_text().count(name) < 3:
        raise ConnectionError("not yet")
    return name


async def fails(ctx: Context) -> str:
    """Call a step that fails for good."""
    try:
        return await ctx.rpc(broken)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def broken(ctx: Context) -> str:
    raise ValueError("broken")


async def asks(ctx: Context) -> Any:
    """Ask a person."""
    terms = {"text": "Pay?", "input_type": "form", "answer_schema": FORM}
    return await ctx.rpc("signoff:question", terms)


FORM = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}


async def calls_signoff(ctx: Context) -> Any:
    """Call a workflow of Signoff."""
    return await ctx.options(target="signoff-workers").rpc("double", 21)


async def waits(ctx: Context) -> Any:
    """Wait for a promise that a test settles."""
    await ctx.run(step, "before")
    value = await ctx.promise()
    await ctx.run(step, "after")
    return value


FUNCTIONS = (step, flaky, calls, sleeps, detaches, retries, fails, asks, calls_signoff, waits)


async def main() -> None:
    resonate = Resonate(url=URL, group="python-sdk", ttl=timedelta(seconds=2))
    for function in FUNCTIONS:
        resonate.register(function)
    resonate.register(broken, retry_policy=Never())
    if NAME == "serve":
        print("serving", flush=True)
        await asyncio.Event().wait()
    elif NAME == "many":
        handles = [resonate.run(f"many-{n}", step, f"many-{n}") for n in range(int(ARGUMENT))]
        print(json.dumps([await handle.result() for handle in handles]))
    else:
        handle = resonate.run(NAME, globals()[NAME])
        print(json.dumps(await handle.result()))
    await resonate.stop()


asyncio.run(main())
