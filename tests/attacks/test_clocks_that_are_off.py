"""The clocks of a server and a worker process jump by an hour: no timer, deadline or schedule follows them."""

from __future__ import annotations

import collections
import signal
import time
from pathlib import Path

import pytest

from tests.attacks.deployment import Deployment, deployed
from tests.cli.commands import Running, until

HOUR = 3600

PREAMBLE = """
import pathlib
import sys
import time

kept_time = time.time


def read_off():
    file = pathlib.Path(f"off-{sys.argv[1]}")
    return float(file.read_text() or 0) if file.exists() else 0.0


time.time = lambda: kept_time() + read_off()
pathlib.Path(f"faked-{sys.argv[1]}").touch()
"""

PROGRAM = """
@app.workflow
async def sleeper(ctx: Context, seconds: float) -> None:
    await ctx.step("mark", lambda: mark(ctx.run_id))
    await ctx.sleep(seconds)
    await ctx.step("awake", lambda: mark(f"{ctx.run_id}-awake"))


@app.workflow
async def asker(ctx: Context, seconds: float) -> None:
    try:
        await ctx.wait_for_user("Anybody?", timeout_seconds=seconds)
    except SignalTimeout:
        await ctx.step("late", lambda: mark(f"{ctx.run_id}-late"))


@app.workflow
async def holder(ctx: Context, file: str) -> None:
    def hold() -> None:
        mark(ctx.run_id)
        while not pathlib.Path(file).exists():
            time.sleep(0.01)

    await ctx.step("hold", hold)
"""


def _jump(deployment: Deployment, victims: list[str], seconds: int) -> None:
    """Set the clocks of processes while they are stopped, as a virtual machine that is moved."""
    processes: dict[str, Running] = {"server": deployment.server, "worker": deployment.worker}
    for victim in victims:
        processes[victim].signal(signal.SIGSTOP)
        (deployment.folder / f"off-{victim}").write_text(str(seconds))
    for victim in victims:
        processes[victim].signal(signal.SIGCONT)


def _pauses(deployment: Deployment, id: str) -> bool:
    reply = deployment.http.get(f"/v1/runs/{id}")
    return reply.status_code == 200 and reply.json()["state"] == "paused"


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kind", "victims"),
    [
        ("sqlite", ["server", "worker"]),
        ("postgres", ["server"]),
        ("postgres", ["worker"]),
        ("postgres", ["server", "worker"]),
        ("remote", ["server"]),
        ("remote", ["worker"]),
    ],
)
def test_a_jump_of_a_process_s_clock_fires_nothing_and_delays_nothing(
    tmp_path: Path, kind: str, victims: list[str]
) -> None:
    with deployed(tmp_path, kind, preamble=PREAMBLE, program=PROGRAM) as deployment:
        assert all((tmp_path / f"faked-{victim}").exists() for victim in victims)
        due = (time.gmtime().tm_min + 30) % 60
        schedule = {"id": "s", "workflow": "add", "args": [1], "cron": f"{due} * * * *"}
        made = deployment.http.post("/v1/schedules", json=schedule)
        assert made.status_code in (200, 201), made.text
        for workflow in ("sleeper", "asker"):
            assert deployment.start(f"far-{workflow}", workflow, 3000.0)
            until(lambda workflow=workflow: _pauses(deployment, f"far-{workflow}"))
        for jump in (HOUR, -HOUR, 0):
            assert deployment.start(f"held{jump}", "holder", f"go{jump}")
            until(lambda jump=jump: f"held{jump}" in deployment.marks())
            for workflow in ("sleeper", "asker"):
                assert deployment.start(f"near{jump}-{workflow}", workflow, 5.0)
                until(lambda workflow=workflow, jump=jump: _pauses(deployment, f"near{jump}-{workflow}"))
            _jump(deployment, victims, jump)
            for workflow in ("sleeper", "asker"):  # on time, as nothing waits for an hour here
                until(lambda workflow=workflow, jump=jump: deployment.ends(f"near{jump}-{workflow}"))
            assert deployment.start(f"new{jump}", "sleeper", 1.0)
            until(lambda jump=jump: deployment.ends(f"new{jump}"))
            assert deployment.ready() == (200, "")
            assert deployment.worker_ready() == (200, "")
            (tmp_path / f"go{jump}").touch()
            until(lambda jump=jump: deployment.ends(f"held{jump}"))
        assert all(_pauses(deployment, f"far-{workflow}") for workflow in ("sleeper", "asker"))
        shown = deployment.http.get("/v1/schedules/s").json()
        assert shown["next_at"] == made.json()["next_at"], "it fired early"
        twice = {id: times for id, times in collections.Counter(deployment.marks()).items() if times > 1}
        assert twice == {}
