"""``signoff worker`` and ``server``: how they stop, and the state they leave."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from examples.website_summary.processes import free_port
from signoff.engine.worker.gc_tuning import YOUNG_OBJECTS
from tests.cli.commands import ORDERS, Running, signoff, until
from tests.cli.conftest import Here
from tests.halves import sample


def journal(here: Here, shop: Path, run_id: str) -> list[str]:
    return [entry["kind"] for entry in here("export", run_id, cwd=shop).json["journal"]]


def state(here: Here, shop: Path, run_id: str) -> str:
    return here("show", run_id, "--json", cwd=shop).json["run"]["state"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_worker_lets_a_running_step_finish_and_journals_it(
    here: Here, shop: Path, number: signal.Signals
) -> None:
    with Running("worker", "orders:app", cwd=shop) as worker:
        worker.wait_for("working")
        here("start", "slow", "--id", "slow-1", cwd=shop)
        until((shop / "marks").exists)
        worker.signal(number)
        assert worker.wait_for("draining")["runs"] == ["slow-1"]
        (shop / "go").touch()
        assert worker.ends() == 0
        assert "Traceback" not in worker.err
    assert (shop / "marks").read_text() == "begun\n"
    assert "completed" in journal(here, shop, "slow-1")
    assert state(here, shop, "slow-1") in ("ready", "succeeded")  # not running: the lease was given back
    with Running("worker", "orders:app", cwd=shop):
        until(lambda: state(here, shop, "slow-1") == "succeeded")
    assert (shop / "marks").read_text() == "begun\n"


def test_a_second_signal_leaves_at_once_and_gives_back_the_lease(here: Here, shop: Path) -> None:
    with Running("worker", "orders:app", cwd=shop) as worker:
        worker.wait_for("working")
        here("start", "slow", "--id", "slow-1", cwd=shop)
        until((shop / "marks").exists)
        worker.signal(signal.SIGTERM)
        worker.wait_for("draining")
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 130
    assert journal(here, shop, "slow-1") == ["started"]
    assert state(here, shop, "slow-1") == "ready"


def test_a_step_that_outlasts_the_grace_does_not_keep_the_worker(here: Here, shop: Path) -> None:
    with Running("worker", "orders:app", "--grace", "0.1", cwd=shop) as worker:
        worker.wait_for("working")
        here("start", "slow", "--id", "slow-1", cwd=shop)
        until((shop / "marks").exists)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
    assert state(here, shop, "slow-1") == "ready"


def test_a_worker_takes_runs_of_its_group_only(here: Here, shop: Path) -> None:
    store = ("--store", "sqlite:///signoff.db")
    with Running("worker", "orders:app", "--group", "night", cwd=shop) as worker:
        assert worker.wait_for("working")["group"] == "night"
        here("start", "add", "--arg", "1", "--id", "day-1", *store, cwd=shop)
        here("start", "add", "--arg", "1", "--id", "night-1", "--group", "night", "--wait", *store, cwd=shop)
        assert state(here, shop, "day-1") == "ready"


def test_a_worker_without_hot_runs_replays_each_that_goes_on(here: Here, shop: Path) -> None:
    marking = (
        "@app.workflow\nasync def marking(ctx):\n    mark('begun')\n    await ctx.wait_for_signal('go')\n"
    )
    (shop / "orders.py").write_text(f"{ORDERS}\n\n{marking}")
    with Running("worker", "orders:app", "--hot-runs", "0", cwd=shop) as worker:
        worker.wait_for("working")
        here("start", "marking", "--id", "marking-1", cwd=shop)
        until(lambda: state(here, shop, "marking-1") == "paused")
        assert here("signal", "marking-1", "go", cwd=shop).code == 0
        until(lambda: state(here, shop, "marking-1") == "succeeded")
    assert (shop / "marks").read_text() == "begun\nbegun\n"


def test_the_garbage_collector_leaves_a_worker_alone(here: Here, open_shop: Path) -> None:
    ended = here("start", "collector", "--wait", "--json", cwd=open_shop)
    assert ended.json["result"]["frozen"] > 10_000
    assert ended.json["result"]["young"] == YOUNG_OBJECTS


def test_a_server_stops_in_order_despite_an_open_stream(here: Here, shop: Path) -> None:
    with Running("server", "--port", "0", cwd=shop) as server:
        url = server.wait_for("listening")["url"]
        here("start", "wait", "--id", "wait-1", "--url", url, cwd=shop)
        with (
            Running("worker", "orders:app", cwd=shop),
            Running("show", "wait-1", "--follow", "--url", url, cwd=shop) as following,
        ):
            until(lambda: following.lines)
            server.signal(signal.SIGTERM)
            assert server.ends() == 0
            assert "Traceback" not in server.err
    with closing(sqlite3.connect(shop / "signoff.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_port_that_is_taken_is_named(here: Here, shop: Path) -> None:
    with Running("server", "--port", "0", cwd=shop) as server:
        port = server.wait_for("listening")["port"]
        ended = here("server", "--port", str(port), cwd=shop)
        assert ended.code == 5
        assert f"cannot listen on 127.0.0.1 port {port}" in ended.err


@pytest.mark.parametrize("command", sample(["server --port 0", "worker there:app"]))
def test_waiting_for_postgres_is_reported_and_ends_on_request(shop: Path, command: str) -> None:
    address = f"postgresql://127.0.0.1:{free_port()}/shop"
    (shop / "there.py").write_text(f"from signoff import Signoff\napp = Signoff({address!r})\n")
    with Running(*command.split(), cwd=shop, SIGNOFF_STORE=address) as waiting:
        until(lambda: f"store {address} is not available, still trying" in waiting.err)
        began_at = time.monotonic()
        waiting.signal(signal.SIGTERM)
        assert waiting.ends() == 0
        assert time.monotonic() - began_at < 45, "it would be tried for a minute"
        assert "Traceback" not in waiting.err


@pytest.mark.parametrize("command", sample([["server"], ["dev", "orders:app"]]), ids=["server", "dev"])
@pytest.mark.parametrize("by", sample(["option", "environment"]))
def test_a_server_hides_the_configured_paths(here: Here, shop: Path, command: list[str], by: str) -> None:
    paths = ["--redact", "order", "--redact", "['x','y']"] if by == "option" else []
    variables = {} if paths else {"SIGNOFF_REDACT": " order , ['x','y']"}
    with Running(*command, "--port", "0", *paths, cwd=shop, **variables) as server:
        url = server.wait_for("listening")["url"]
        run = {"workflow": "other", "id": "r", "kwargs": {"order": "o-1", "x": 1, "y": 2, "z": 3}}
        shown = httpx.post(f"{url}/v1/runs", json=run, trust_env=False, timeout=60).json()["arguments"][
            "kwargs"
        ]
    assert shown == {"order": "[redacted]", "x": "[redacted]", "y": "[redacted]", "z": 3}


def test_a_path_of_what_is_hidden_that_is_none_is_refused_by_name(here: Here, shop: Path) -> None:
    ended = signoff("server", "--redact", "card[", cwd=shop)
    assert ended.code == 2
    assert "'card[' is not a valid path" in " ".join(ended.err.split())


def test_an_edit_on_a_terminal_keeps_hidden_parts(here: Here, shop: Path) -> None:
    with Running("dev", "orders:app", "--port", "0", "--redact", "street", cwd=shop) as server:
        url = server.wait_for("listening")["url"]
        here("start", "send", "--id", "s-1", "--url", url, cwd=shop)
        until(lambda: here("inbox", "--url", url, "--json", cwd=shop).json["items"])
        done = here("answer", "s-1.1", "--edit", '{"parcels": 3}', "--url", url, "--json", cwd=shop)
        assert "Main St" not in done.out
        settled = here("export", "s-1", cwd=shop)
    assert "Main St" in settled.out
    assert "redacted" not in settled.out
