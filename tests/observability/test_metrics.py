"""Prometheus metrics of a server and of a worker."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from signoff import AsyncClient, Context, Signoff
from signoff.engine.worker.worker import Worker
from signoff.errors import StoreUnavailable
from signoff.observability import events, metrics
from signoff.observability.events import AttemptInfo, AttemptSucceeded, DeadlineServed, RunInfo
from signoff.server import Server
from signoff.server.process import prometheus
from signoff.server.process.probes import Probes
from signoff.stores.contract.store import Store
from tests.cli.commands import ORDERS, Running, until
from tests.observability.places import PLACES
from tests.support import comes, in_asyncio, new_app, opened, pauses

SECRET = "hunter2-is-my-password"
LABELS = {
    "signoff_runs_claimed": {"workflow", "group"},
    "signoff_runs_left": {"workflow", "group", "how"},
    "signoff_runs_ended": {"workflow", "group", "state"},
    "signoff_run_duration_seconds": {"workflow", "group", "state"},
    "signoff_run_held_seconds": {"workflow", "group"},
    "signoff_run_start_delay_seconds": {"workflow", "group"},
    "signoff_runs_taken_over": set[str](),
    "signoff_runs_set_aside": {"workflow", "group"},
    "signoff_periodic_job_running_seconds": {"job"},
    "signoff_set_aside_items": {"job"},
    "signoff_set_aside_failures": {"job"},
    "signoff_step_threads": {"state"},
    "signoff_step_thread_wait_seconds": {"group"},
    "signoff_runs_suspended": {"namespace", "group", "by"},
    "signoff_step_attempts": {"workflow", "step", "outcome"},
    "signoff_step_attempt_seconds": {"workflow", "step"},
    "signoff_waits_started": {"workflow", "kind"},
    "signoff_wait_seconds": {"workflow", "kind", "state"},
    "signoff_answers": {"outcome"},
    "signoff_deliveries": {"channel", "outcome"},
    "signoff_deadline_late_seconds": {"kind"},
    "signoff_audit_checkpoints": {"anchor", "outcome"},
    "signoff_store_commit_seconds": {"store"},
    "signoff_store_operations": {"store"},
    "signoff_runs": {"namespace", "group", "state"},
    "signoff_group_paused": {"namespace", "group"},
    "signoff_workers": {"namespace", "group"},
    "signoff_store_file_bytes": {"file"},
    "signoff_timers_alive": set[str](),
    "signoff_open_streams": {"kind"},
    "signoff_kept_reply_bytes": set(),
    "signoff_clock_jumps": {"store"},
    "signoff_store_up": set[str](),
}


class Scraped:
    """The samples of an answer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in parse(text)}
        self._samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        found = [
            sample.value
            for sample in self._samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found)

    def labels(self, name: str) -> Iterable[Mapping[str, str]]:
        return [sample.labels for sample in self.families[name].samples]


async def scraped(http: httpx.AsyncClient) -> Scraped:
    response = await http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Scraped(response.text)


def shop(store: Store) -> Signoff:
    app = Signoff(store)

    @app.workflow
    async def measured(ctx: Context, order: str) -> str:
        await ctx.step("fetch_order", lambda: order)
        answer = await ctx.wait_for_user(f"Refund {order}?", input_type="text")
        await ctx.step("pay", lambda: None)
        return answer.value

    return app


@pytest.fixture(autouse=True)
def no_steps_are_counted_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other tests in this process may be as many as have metrics of their own."""
    monkeypatch.setattr(metrics, "_steps", set[tuple[str, str]]())


# A server on a remote store would need keys, which no worker key opens.
@pytest.mark.parametrize("place", sorted(PLACES.keys() - {"remote"}))
@in_asyncio
async def test_a_server_with_a_worker_tells_of_both_and_counts_once(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "FRESH_SECONDS", 0)  # the store is read for each answer
    monkeypatch.setattr(prometheus, "READ_SECONDS", 60.0)
    async with PLACES[place](tmp_path) as new_store:
        app = shop(new_store())
        async with (
            opened(app) as client,
            Server(app, port=0) as server,
            httpx.AsyncClient(base_url=server.url, timeout=60) as http,
        ):
            before = await scraped(http)
            async with app.worker(hot_runs=0):
                run = await client.start("measured", SECRET, id="r-1-id")
                await pauses(app, "r-1-id")
            waiting = await scraped(http)
            async with app.worker(hot_runs=0):
                async with AsyncClient(server.url) as remote:
                    await remote.answer("r-1-id.2", SECRET, user_id="user:ana")
                assert await run.result() == SECRET
                ended = before.value("signoff_runs_ended_total", workflow="measured") + 1

                async def counted() -> Scraped | None:  # a run has ended before its worker tells of it
                    found = await scraped(http)
                    return (
                        found
                        if found.value("signoff_runs_ended_total", workflow="measured") >= ended
                        else None
                    )

                after = await comes(counted)

    def grown(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    of_workflow = {"workflow": "measured"}
    assert grown("signoff_step_attempts_total", step="fetch_order", outcome="succeeded", **of_workflow) == 1
    assert grown("signoff_step_attempts_total", **of_workflow) == 2
    assert grown("signoff_step_attempt_seconds_count", step="pay", **of_workflow) == 1
    assert grown("signoff_runs_ended_total", state="succeeded", group="default", **of_workflow) == 1
    assert grown("signoff_run_duration_seconds_count", **of_workflow) == 1
    assert grown("signoff_run_start_delay_seconds_count", **of_workflow) == 1
    assert grown("signoff_waits_started_total", kind="question", **of_workflow) == 1
    assert grown("signoff_wait_seconds_count", kind="question", state="resolved", **of_workflow) == 1
    assert grown("signoff_answers_total", outcome="accepted") == 1
    assert grown("signoff_store_operations_total") > 0
    assert waiting.value("signoff_runs", namespace="default", group="default", state="paused") == 1
    assert after.value("signoff_runs", state="paused") == 0
    assert after.value("signoff_workers", group="default", namespace="default") == 1
    assert (after.value("signoff_timers_alive"), after.value("signoff_store_up")) == (1, 1)
    assert SECRET not in after.text
    assert "r-1-id" not in after.text
    ours = {name for name in after.families if name.startswith("signoff_") and not name.endswith("_created")}
    assert ours == set(LABELS) - (set() if place == "sqlite" else {"signoff_store_file_bytes"})
    for name, names in LABELS.items():
        assert name not in ours or all(labels.keys() <= names | {"le"} for labels in after.labels(name)), name


@in_asyncio
async def test_a_server_speaks_openmetrics_too(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    async with (
        opened(app),
        Server(app, port=0) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        response = await http.get(
            "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
        )
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert "signoff_store_up" in {family.name for family in parse_openmetrics(response.text)}


@in_asyncio
async def test_metrics_are_for_who_calls_the_server_by_its_name(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    async with (
        opened(app),
        Server(app, port=0) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        assert (await http.get("/metrics", headers={"host": "evil.example"})).status_code == 421


class Broken:
    """A store that cannot be listed: at once, or never."""

    def __init__(self, store: Store, error: Exception | None) -> None:
        self._store = store
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list_groups(self) -> Any:
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


@pytest.mark.parametrize("error", [StoreUnavailable("here", "it is away"), None])
@in_asyncio
async def test_metrics_of_the_process_are_there_when_the_store_is_not(
    tmp_path: Path, error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "READ_SECONDS", 0.1)
    app = new_app(tmp_path)
    broken: Any = Broken(app.store, error)
    async with (
        opened(app),
        Server(broken, port=0) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        found = await scraped(http)
    assert found.value("signoff_store_up") == 0
    assert "signoff_runs" not in found.families
    assert "signoff_runs_claimed" in found.families


def test_step_names_made_at_run_time_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_STEPS", len(metrics._steps) + 2)
    run = RunInfo("default", "r", "endless", "default", 1, "w", None, "")
    for number in range(10):
        info = AttemptInfo(run, 1, f"fetch-{number}", 1, "repeatable", "r.1")
        metrics.count(AttemptSucceeded(info, 0.1))
    names = {
        sample.labels["step"]
        for family in metrics.ATTEMPTS.collect()
        for sample in family.samples
        if sample.labels["workflow"] == "endless"
    }
    assert names == {"fetch-0", "fetch-1", metrics.OTHER}


@pytest.mark.long
@in_asyncio
async def test_two_servers_of_a_process_count_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    async with (
        opened(app),
        Server(app, port=0),
        Server(app, port=0) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        before = await scraped(http)
        events.announce(DeadlineServed(None, "counted", 1.0))
        after = await scraped(http)
    name = "signoff_deadline_late_seconds_count"
    assert after.value(name, kind="counted") - before.value(name, kind="counted") == 1


class Away:
    """A store that cannot be reached for a while, as far as leases go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        if self.is_away:
            raise StoreUnavailable("here", "it is away")
        return await self._store.heartbeat(worker_id, held)


@in_asyncio
async def test_a_worker_is_ready_while_its_leases_are_kept(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    app.store.lease_seconds = 0.5
    store: Any = Away(app.store)
    may_end = asyncio.Event()

    @app.workflow
    async def wait(ctx: Context) -> None:
        await ctx.step("wait", may_end.wait)

    async with opened(app) as client:
        await client.start(wait)
        worker = Worker(store, app.registry, beat_seconds=0.05)
        async with (
            Probes(worker, "127.0.0.1", 0) as probes,
            httpx.AsyncClient(base_url=probes.url, timeout=60) as http,
        ):

            async def becomes(status: int) -> str:
                while (answer := await http.get("/ready")).status_code != status:
                    await asyncio.sleep(0.01)
                return answer.json()["status"]

            assert await becomes(503) == "not ready"  # it does not work yet
            working = asyncio.create_task(worker.run())
            assert await becomes(200) == "ok"
            store.is_away = True
            assert await becomes(503) == "not ready"
            assert (await http.get("/health")).status_code == 200
            store.is_away = False
            assert await becomes(200) == "ok"
            may_end.set()
            await worker.drain()
            assert await becomes(503) == "draining"
            assert "signoff_runs_claimed" in (await scraped(http)).families
            assert (await http.get("/metrics", headers={"host": "evil.example"})).status_code == 421
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


def test_signoff_worker_answers_on_its_port_and_logs_json(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS + LOUD)
    with Running(
        "worker", "orders:app", "--metrics-port", "0", cwd=tmp_path, SIGNOFF_LOG_FORMAT="json"
    ) as worker:
        url = worker.wait_for("metrics")["url"]
        worker.wait_for("working")
        with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60) as http:
            assert http.get("/health").json() == {"status": "ok"}
            assert http.get("/ready").json() == {"status": "ok"}
            app = Signoff(f"sqlite:///{tmp_path / 'signoff.db'}")
            app.start("loud", SECRET, id="loud-1").result()
            app.close()
            loud = {"workflow": "loud", "state": "succeeded"}

            def counted() -> Scraped | None:  # a run has ended before its worker tells of it
                found = Scraped(http.get("/metrics").text)
                return found if found.value("signoff_runs_ended_total", **loud) else None

            found = until(counted)
        assert found.value("signoff_runs_ended_total", **loud) == 1
        assert SECRET not in found.text
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
        lines = [json.loads(line) for line in worker.err.splitlines()]
    [loud] = [line for line in lines if line["message"] == "I am here"]
    assert (loud["run_id"], loud["step"], loud["workflow"]) == ("loud-1", "shout", "loud")
    assert SECRET not in worker.err


@pytest.mark.long
def test_signoff_dev_shows_the_metrics_of_its_worker(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    with Running("dev", "orders:app", "--port", "0", cwd=tmp_path) as dev:
        url = dev.wait_for("listening")["url"]
        dev.wait_for("working")
        with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60) as http:
            run = http.post("/v1/runs", json={"workflow": "add", "args": [1]}).json()
            http.get(f"/v1/runs/{run['id']}/result", params={"wait": 60})
            found = Scraped(http.get("/metrics").text)
    assert found.value("signoff_step_attempts_total", workflow="add", step="sum") == 1


LOUD = """

import logging


@app.workflow
async def loud(ctx: Context, secret: str) -> str:
    await ctx.step("shout", lambda: logging.getLogger("shop").warning("I am here"))
    return secret
"""
