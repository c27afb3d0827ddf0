"""A program on the newest Python SDK of Resonate: ``resonate_program.py URL NAME INVOCATIONS STEPS``.

It runs in the SDK's environment. Without a URL (``-``) it uses the SDK's own local server, in this process. It prints a
line when it is ready, begins once it reads one, and prints what it measured as JSON. It then serves remote calls of
other processes until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from resonate.context import Context
from resonate.resonate import Resonate


async def step(ctx: Context, number: int) -> int:
    return number


async def invocation(ctx: Context, steps: int) -> int:
    """Call steps remotely, one after the other."""
    return sum([await ctx.rpc(step, number) for number in range(steps)])


async def main(url: str, name: str, invocations: int, steps: int) -> None:
    resonate = Resonate(group="bench", url=None if url == "-" else url)
    resonate.register(step)
    resonate.register(invocation)
    await resonate.run(f"{name}-warm-up", invocation, 1).result()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began, used = time.perf_counter(), time.process_time()
    handles = [resonate.run(f"{name}-{number}", invocation, steps) for number in range(invocations)]
    results = [await handle.result() for handle in handles]
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - used
    assert results == [sum(range(steps))] * invocations, results
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await resonate.stop()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
