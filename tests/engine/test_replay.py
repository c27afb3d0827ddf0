"""A run rebuilt from any prefix of its journal continues exactly like the uninterrupted one.

Random programs of concurrent branches run on a real worker, in a world that answers them in random order.
Then each is stopped at every length of its journal, rebuilt in memory and given the rest.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from signoff import AsyncClient, Context, RetryPolicy, RunState, Signoff
from signoff.engine.run.execution import Execution
from signoff.engine.run.replay import DELIVERED
from signoff.records import CallKind, Entry, EntryKind, PromiseState, Run
from signoff.records.paging import PromiseFilter, RunFilter
from signoff.testing import VirtualClock
from tests.support import journal, new_app, opened, rebuilt, until

SEED = int(os.environ.get("SIGNOFF_SEED", "20260714"))
BUSY = frozenset({RunState.READY, RunState.RUNNING})

Program = dict[str, Any]
Trace = list[tuple[str, str, float]]

LEAVES = (
    *("step", "step", "fail", "sleep", "sleep", "signal", "signal in time", "promise", "ask"),
    *("random", "patched", "note"),
)
BRANCHES = (
    "sequence",
    "gather",
    "group",
    "first",
    "as completed",
    "queue",
    "call",
    "invoke",
    "timeout",
    "child",
)


def a_program(chance: random.Random, leaves: int) -> Program:
    """Make a random program of about so many leaves."""
    if leaves <= 1:
        # Durations are even numbers of seconds, so that no timer is near enough to be waited for awake.
        return {
            "do": chance.choice(LEAVES),
            "name": chance.choice("abc"),
            "turns": chance.randrange(4),
            "seconds": 2 * chance.randint(1, 10),
        }
    do = chance.choice(BRANCHES)
    if do == "child":
        return {"do": do, "of": [a_program(chance, 1) for _ in range(min(leaves, 2))]}
    parts = chance.randint(2, min(4, leaves))
    of = [a_program(chance, leaves // parts) for _ in range(parts)]
    return {"do": do, "of": of, "seconds": 2 * chance.randint(1, 20)}


traces: dict[str, Trace] = {}


class Interpreter:
    """Runs a program in a context and notes what it meets, in order."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.trace: Trace = []
        traces[ctx.run_id] = self.trace  # begun anew at each replay

    def note(self, path: str, what: object) -> None:
        self.trace.append((path, str(what), self.ctx.now().timestamp()))

    async def run(self, node: Program, path: str = "") -> object:
        path = f"{path}/{node['do']}"
        self.note(path, "begins")
        try:
            result = await getattr(self, "_" + node["do"].replace(" ", "_"))(node, path)
        except Exception as error:
            self.note(path, f"raises {type(error).__name__}")
            raise
        except asyncio.CancelledError:
            self.note(path, "is cancelled")
            raise
        self.note(path, result)
        return result

    async def _of(self, node: Program, path: str) -> list[object]:
        return [await self.quietly(each, f"{path}{index}") for index, each in enumerate(node["of"])]

    async def quietly(self, node: Program, path: str) -> object:
        try:
            return await self.run(node, path)
        except Exception as error:
            return type(error).__name__

    def _tasks(self, node: Program, path: str) -> list[asyncio.Task[object]]:
        return [
            asyncio.create_task(self.quietly(each, f"{path}{index}")) for index, each in enumerate(node["of"])
        ]

    async def _step(self, node: Program, path: str) -> object:
        async def work() -> str:
            for _ in range(node["turns"]):
                await asyncio.sleep(0)
            return f"did {node['name']}"

        return await self.ctx.step(node["name"], work)

    async def _fail(self, node: Program, path: str) -> object:
        async def fail() -> None:
            raise LookupError(path)

        return await self.ctx.step(
            "fail", fail, retry=RetryPolicy(max_attempts=2, initial_seconds=4, jitter=False)
        )

    async def _sleep(self, node: Program, path: str) -> object:
        return await asyncio.sleep(node["seconds"], "slept")

    async def _signal(self, node: Program, path: str) -> object:
        return await self.ctx.wait_for_signal("signal")

    async def _signal_in_time(self, node: Program, path: str) -> object:
        return await self.ctx.wait_for_signal("signal", timeout_seconds=node["seconds"])

    async def _promise(self, node: Program, path: str) -> object:
        return await (await self.ctx.promise())

    async def _ask(self, node: Program, path: str) -> object:
        return (await self.ctx.wait_for_user("well?", input_type="text")).value

    async def _random(self, node: Program, path: str) -> object:
        return self.ctx.uuid4(), self.ctx.random().random()

    async def _patched(self, node: Program, path: str) -> object:
        return self.ctx.patched(path)

    async def _note(self, node: Program, path: str) -> object:
        return await self.ctx.progress("so far")

    async def _sequence(self, node: Program, path: str) -> object:
        return await self._of(node, path)

    async def _gather(self, node: Program, path: str) -> object:
        return await asyncio.gather(*(self.quietly(each, f"{path}{n}") for n, each in enumerate(node["of"])))

    async def _group(self, node: Program, path: str) -> object:
        async with asyncio.TaskGroup() as group:
            for index, each in enumerate(node["of"]):
                group.create_task(self.run(each, f"{path}{index}"))

    async def _first(self, node: Program, path: str) -> object:
        done, rest = await asyncio.wait(self._tasks(node, path), return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        return [task.result() for task in done]

    async def _as_completed(self, node: Program, path: str) -> object:
        return [await each for each in asyncio.as_completed(self._tasks(node, path))]

    async def _queue(self, node: Program, path: str) -> object:
        queue: asyncio.Queue[object] = asyncio.Queue(maxsize=1)

        async def produce(each: Program, index: int) -> None:
            await queue.put(await self.quietly(each, f"{path}{index}"))

        async with asyncio.TaskGroup() as group:
            for index, each in enumerate(node["of"]):
                group.create_task(produce(each, index))
            return [await queue.get() for _ in node["of"]]

    async def _timeout(self, node: Program, path: str) -> object:
        async with asyncio.timeout(node["seconds"]):
            return await self._of(node, path)

    async def _call(self, node: Program, path: str) -> object:
        async def inner(ctx: Context) -> object:
            return await self._of(node, path)

        return await self.ctx.lfc(inner)

    async def _invoke(self, node: Program, path: str) -> object:
        async def inner(ctx: Context, index: int) -> object:
            return await self.quietly(node["of"][index], f"{path}{index}")

        handles = [await self.ctx.lfi(inner, index) for index in range(len(node["of"]))]
        return [await handle for handle in reversed(handles)]

    async def _child(self, node: Program, path: str) -> object:
        return await self.ctx.rfc("interpret", {"do": "gather", "of": node["of"]})


def interpreting(folder: Path, kind: type[Interpreter] = Interpreter) -> tuple[Signoff, VirtualClock]:
    clock = VirtualClock(1_700_000_000.0)
    app = new_app(folder, clock=clock)

    @app.workflow
    async def interpret(ctx: Context, program: Program) -> str:
        return str(await kind(ctx).quietly(program, ""))

    return app, clock


class World:
    """Whatever is outside of the runs: it does one thing at a time, in random order, whenever all runs are paused."""

    def __init__(self, app: Signoff, client: AsyncClient, clock: VirtualClock, chance: random.Random) -> None:
        self._app = app
        self._client = client
        self._clock = clock
        self._chance = chance
        self._sent = 0

    async def turn(self) -> None:
        """Do one thing for one of the runs that wait."""
        pending = await self._app.store.list_promises(PromiseFilter(state=PromiseState.PENDING))
        paused = (await self._app.store.list_runs(RunFilter(frozenset({RunState.PAUSED})))).items
        next_at = await self._app.store.due()
        deeds: list[Any] = [lambda promise=promise: self._settle(promise) for promise in pending.items]
        deeds += [lambda run=run: self._signal(run) for run in paused]
        if next_at is not None:
            deeds.append(lambda: self._pass_time(next_at))
        await self._chance.choice(deeds)()

    async def _settle(self, promise: Any) -> None:
        if promise.kind == "question":
            await self._client.answer(promise.id, f"answer to {promise.n}")
        else:
            await self._client.promises.resolve(promise.id, f"value of {promise.n}")

    async def _signal(self, run: Run) -> None:
        self._sent += 1
        await self._client.signal(run.id, "signal", self._sent)

    async def _pass_time(self, to: float) -> None:
        self._clock.set(to)

    async def is_waiting(self) -> bool:
        """Whether nothing happens until the world does something."""
        await self._app.store.due()
        return not (await self._app.store.list_runs(RunFilter(BUSY))).items


async def live(app: Signoff, client: AsyncClient, world: World, program: Program, run_id: str) -> Run:
    await client.start("interpret", program, id=run_id)
    while True:
        await until(app, world.is_waiting)
        run = await app.store.get_run(run_id)
        if run.state.is_final:
            return run
        await world.turn()


def _open_calls(execution: Execution) -> list[tuple[int, CallKind, str]]:
    return sorted((call.n, call.kind, call.name) for call in execution.open.values())


def _ended_as(execution: Execution) -> tuple[Any, ...]:
    outcome = execution.outcome
    return (
        execution.failure,
        outcome and outcome.state,
        outcome and outcome.result,
        outcome and outcome.error,
    )


async def _uninterrupted(
    app: Signoff, run: Run, entries: Sequence[Entry]
) -> list[tuple[int, list[tuple[int, CallKind, str]]]]:
    """What one execution has met (the length of its trace) and waits for at each length of its journal."""
    async with rebuilt(app, run, entries[:1]) as execution:
        trace = traces[run.id]
        states = [(len(trace), _open_calls(execution))]
        for entry in entries[1:]:
            if entry.kind in DELIVERED:
                execution.deliver(entry)
            states.append((len(trace), _open_calls(execution)))
    return states


async def _check_every_length(app: Signoff, run: Run, entries: Sequence[Entry], lived: Trace) -> None:
    """Stop the run at every length of its journal, rebuild it, and let it have the rest."""
    states = await _uninterrupted(app, run, entries)
    for length, (met, waits_for) in enumerate(states, start=1):
        async with rebuilt(app, run, entries[:length]) as execution:
            trace = traces[run.id]
            assert execution.failure is None, f"at length {length}: {execution.failure}"
            assert trace == lived[:met], f"at length {length}"
            assert _open_calls(execution) == waits_for, f"at length {length}"
            for entry in entries[length:]:
                if entry.kind in DELIVERED:
                    execution.deliver(entry)
            assert trace == lived, f"from length {length}"
            assert _ended_as(execution) == (None, run.state, run.result, run.error), f"from length {length}"


@pytest.mark.timeout(400)
def test_any_program_stopped_at_any_length_of_its_journal_goes_on_the_same(tmp_path: Path) -> None:
    print(f"SIGNOFF_SEED={SEED}")
    app, clock = interpreting(tmp_path)
    count = 0
    with asyncio.Runner() as runner:
        client_context = opened(app)
        client = runner.run(client_context.__aenter__())
        worker_context = app.worker()
        runner.run(worker_context.__aenter__())

        @seed(SEED)
        @settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(chances=st.integers(0, 2**64), leaves=st.integers(1, 12))
        def check(chances: int, leaves: int) -> None:
            nonlocal count
            count += 1
            runner.run(check_one(random.Random(chances), leaves, f"r{count}"))

        async def check_one(chance: random.Random, leaves: int, run_id: str) -> None:
            program = a_program(chance, leaves)
            note(f"{program}")
            world = World(app, client, clock, chance)
            run = await live(app, client, world, program, run_id)
            entries = await journal(app, run_id)
            assert entries[-1].kind in (EntryKind.SUCCEEDED, EntryKind.FAILED)
            await _check_every_length(app, run, entries[:-1], list(traces[run_id]))

        try:
            check()
        finally:
            runner.run(worker_context.__aexit__(None, None, None))
            runner.run(client_context.__aexit__(None, None, None))
    assert count >= 80
