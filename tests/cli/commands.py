"""The command line as separate processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests import forks

T = TypeVar("T")

PATIENCE_SECONDS = 60.0  # for actions of a second on an idle machine

ORDERS = """
import gc
import pathlib
import time

from pydantic import BaseModel

from signoff import Action, Context, RetryPolicy, SignalTimeout, Signoff, current_step

app = Signoff("sqlite:///signoff.db")


class Shipping(BaseModel):
    street: str
    parcels: int
    express: bool = False


def mark(name):
    with open("marks", "a") as marks:
        marks.write(name + "\\n")


@app.workflow
async def add(ctx: Context, a: int, b: int = 1) -> int:
    return await ctx.step("sum", lambda: a + b)


@app.workflow
async def fail(ctx: Context, why: str) -> None:
    raise ValueError(why)


@app.workflow
async def refund(ctx: Context, order: str) -> dict:
    await ctx.step("fetch_order", lambda: mark("fetch_order"))
    answer = await ctx.wait_for_user(f"Refund order {order}?", metadata={"order": order})
    if answer.approved:
        await ctx.step("pay", lambda: mark("pay"))
    return {"approved": answer.approved, "by": answer.user_id, "note": answer.note}


@app.workflow
async def deploy(ctx: Context) -> dict:
    answer = await ctx.wait_for_user(
        "Deploy it?", assignees=["group:ops", "user:boss"], exclude_requester=True, quorum=2
    )
    return {"approved": answer.approved, "votes": [vote.user_id for vote in answer.votes]}


@app.workflow
async def ship(ctx: Context) -> dict:
    answer = await ctx.wait_for_user("Where to?", input_type="form", answer_type=Shipping)
    return {"street": answer.value.street, "parcels": answer.value.parcels, "express": answer.value.express}


@app.workflow
async def send(ctx: Context) -> dict:
    answer = await ctx.wait_for_user(
        "Send it?",
        help="It cannot be taken back.",
        attachments=[{"name": "Label", "url": "https://example.com/label.pdf"}],
        proposal=Shipping(street="Main St", parcels=2),
        proposal_type=Shipping,
    )
    sent = answer.proposal
    return {"approved": answer.approved, "parcels": sent and sent.parcels, "edits": len(answer.edits)}


@app.workflow
async def mail(ctx: Context, to: str) -> dict:
    answer = await ctx.wait_for_user("Mail it?", action=Action("send_mail", {"to": to, "text": "Hello"}))
    return {"approved": answer.approved, "by": answer.user_id}


@app.workflow
async def wait(ctx: Context) -> object:
    return await ctx.wait_for_signal("go")


@app.workflow
async def pay_later(ctx: Context) -> object:
    promise = await ctx.promise(id=f"{ctx.run_id}-paid")
    return await promise


@app.workflow
async def everything(ctx: Context) -> str:
    await ctx.progress("begun", done=1, total=2)
    ctx.patched("new-way")
    total = await ctx.rfc(add, 1, 2)
    aside = await ctx.detached(add, 3)
    try:
        await ctx.wait_for_user("Anybody?", timeout_seconds=0.01)
    except SignalTimeout:
        await ctx.sleep(0.01)
    try:
        await ctx.rfc(fail, "no stock")
    except ValueError as error:
        return f"{total}, {error}"


@app.workflow
async def shaky(ctx: Context) -> str:
    def call() -> str:
        if current_step().attempt < 3:
            raise ConnectionError("the bank is closed")
        return "paid"

    return await ctx.step("call_bank", call, retry=RetryPolicy(initial_seconds=0.01))


@app.workflow
async def collector(ctx: Context) -> dict[str, int]:
    return {"frozen": gc.get_freeze_count(), "young": gc.get_threshold()[0]}


@app.workflow
async def slow(ctx: Context) -> str:
    def sleep() -> str:
        mark("begun")
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
        return "slept"

    return await ctx.step("sleep", sleep)
"""


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SIGNOFF_")}
    return {**kept, **changes}


def signoff(*arguments: str, cwd: Path, **variables: str) -> Ended:
    """Run a command to its end, in a process that is forked."""
    done = forks.run(["signoff", *arguments], cwd=cwd, env=environment(variables), timeout=PATIENCE_SECONDS)
    return Ended(done.returncode, done.stdout, done.stderr)


def interpreted(*arguments: str, cwd: Path, **variables: str) -> Ended:
    """Run a command to its end by an interpreter of its own, which costs a second: for what its start decides."""
    done = subprocess.run(
        [sys.executable, "-m", "signoff", *arguments],
        cwd=cwd,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Running:
    """A command that runs until it is stopped, with ``--json`` added.

    Args:
        arguments: The command.
        cwd: Where it runs.
        is_forked: Whether its process is forked, which is quick. Such a process has inherited free memory.
        variables: Of its environment.
    """

    def __init__(self, *arguments: str, cwd: Path, is_forked: bool = True, **variables: str) -> None:
        self._folder = cwd
        self._out = (cwd / f"out-{time.monotonic_ns()}").open("w+")
        self._err = (cwd / f"err-{time.monotonic_ns()}").open("w+")
        command, env = ["signoff", *arguments, "--json"], environment(variables)
        if is_forked:
            self.process = forks.Program(command, cwd=cwd, env=env, stdout=self._out, stderr=self._err)
        else:
            interpreter = [sys.executable, "-m"]
            self.process = subprocess.Popen(
                interpreter + command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_SECONDS)
            finally:
                self.process.kill()
        self._out.close()
        self._err.close()

    @property
    def lines(self) -> list[dict[str, Any]]:
        text = Path(self._out.name).read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @property
    def err(self) -> str:
        return Path(self._err.name).read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("event") == name]

    def wait_for(self, name: str, *, times: int = 1) -> dict[str, Any]:
        """Return the newest event of a name, once there are ``times`` of them."""

        def look() -> dict[str, Any] | None:
            found = self.events(name)
            if len(found) >= times:
                return found[-1]
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.err}"
            return None

        return until(look)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)


def until(look: Callable[[], T | None]) -> T:
    """Look again and again until there is something; returns it."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{look} found nothing in {PATIENCE_SECONDS} s")
