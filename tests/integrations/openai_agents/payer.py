"""A worker process whose tool pays into a file, and kills its own process before or after that."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agents import Agent, function_tool

from signoff import Context, Signoff
from signoff.integrations.openai_agents import run_agent
from signoff.stores.sqlite.store import SqliteStore
from tests.integrations.openai_agents.desk import ONE_REFUND
from tests.integrations.openai_agents.scripts import Script


def make_app(folder: Path, at: str | None) -> Signoff:
    """The app of the process; ``at`` says where it kills itself: ``before`` or ``after`` the payment."""
    app = Signoff(SqliteStore(folder / "signoff.db"))

    @function_tool(needs_approval=True)
    async def refund(order: str, cents: int) -> str:
        if at == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with (folder / "paid").open("a") as file:
            file.write(f"{order} {cents}\n")
        if at == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return "refunded"

    @app.workflow
    async def work(ctx: Context, wish: str) -> str:
        agent = Agent("support", tools=[refund], model=Script(*ONE_REFUND))
        return (await run_agent(agent, wish)).final_output

    return app


def paid(folder: Path) -> list[str]:
    """What was paid."""
    file = folder / "paid"
    return file.read_text().splitlines() if file.exists() else []


async def main(folder: Path, at: str) -> None:
    async with make_app(folder, at).worker():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
