"""Two processes that iterate over a set in different orders: the second takes over from the first.

``begin DATABASE`` starts a run of every workflow and dies when all wait; ``end DATABASE`` goes on, and prints as JSON
how each run has ended. What was paid is in ``DATABASE.paid``.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from signoff import AsyncClient, Context, Signoff
from signoff.flows import Data, Executions, Flow

ITEMS = {"a", "b", "c", "d", "e"}

mode, database = sys.argv[1:]
app = Signoff(f"sqlite:///{database}")


def pay(order: str, form: str) -> str:
    with open(f"{database}.paid", "a") as file:
        print(form, order, file=file)
    return order


@dataclass
class Order:
    id: str
    form: str

    def pay(self) -> str:
        return pay(self.id, self.form)


class Plain:
    def __init__(self, id: str, form: str) -> None:
        self.id = id
        self.form = form

    def pay(self) -> str:
        return pay(self.id, self.form)

    __call__ = pay


class Client:
    """A client: each process has its own, which knows that process."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def pay(self, order: str, form: str) -> str:
        return pay(order, form)


service = Client()


def payer(order: str, form: str) -> Callable[[], str]:
    return lambda: pay(order, form)


FORMS: dict[str, Callable[[str, str], Callable[[], str]]] = {
    "dataclass": lambda id, form: Order(id, form).pay,
    "object": lambda id, form: Plain(id, form).pay,
    "callable": Plain,
    "factory": payer,
    "partial": lambda id, form: functools.partial(pay, id, form),
    "client": lambda id, form: functools.partial(service.pay, id, form),
}


def register(form: str, name: str, walk: Callable[[set[str]], list[str]]) -> None:
    async def flow(ctx: Context) -> list[str]:
        done = [await ctx.step("pay", FORMS[form](id, name), effect="once") for id in walk(ITEMS)]
        await ctx.wait_for_signal("go")
        return done

    app.workflow(name=name)(flow)


for form in FORMS:
    register(form, f"{form} in order", sorted)
    register(form, f"{form} as it comes", list)


def flow(name: str, concurrency: int | None) -> Flow:
    """A flow that splits its work by walking the set, and asks within each item."""
    made = Flow(name, auto_close_timeout=0.0)

    @made.chunk
    async def split(data: Data[Any]) -> list[str]:
        return list(ITEMS)

    @made.chunk(effect="once")
    async def settle(data: Data[str]) -> str:
        return pay(data.input, name)

    @made.chunk
    async def ask(data: Data[str]) -> Any:
        return await data.pause_for("text", {"question": data.input}, interrupt_id=data.input)

    @made.chunk
    async def note(data: Data[str]) -> None:
        data.append_state("done", data.input)

    made.to(split).for_each(concurrency=concurrency).to(settle).to(ask).to(note).end_for_each()
    return made


FLOWS = {"flow, all at once, in order": None, "flow, two at once, in order": 2}
for name, concurrency in FLOWS.items():
    app.register(flow(name, concurrency))


async def resumed(client: AsyncClient, name: str) -> list[str]:
    """Answer each item of a flow with its own name; returns what it has noted."""
    execution = await Executions(client, name).attach(name)
    for item in sorted(ITEMS):
        await execution.continue_with(item, item, wait_seconds=60)
    return sorted((await execution.result(60))["done"])


async def main() -> None:
    names = [f"{form} {how}" for form in FORMS for how in ("in order", "as it comes")]
    async with app.worker(), AsyncClient(app) as client:
        runs = {name: await client.start(name, id=name) for name in [*names, *FLOWS]}
        if mode == "begin":
            for run in runs.values():
                while (await run.status()).value != "paused":
                    await asyncio.sleep(0.02)
            os._exit(9)
        ended: dict[str, Any] = {}
        for name, run in runs.items():
            try:
                if name in FLOWS:
                    ended[name] = await resumed(client, name)
                    continue
                await run.signal("go")
                ended[name] = await run.result(60)
            except Exception as error:
                ended[name] = type(error).__name__
        print(json.dumps(ended))


asyncio.run(main())
