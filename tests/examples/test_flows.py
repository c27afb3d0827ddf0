"""The examples of flows, as real processes: duplicate and reordered webhooks, and a gate on a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.website_summary.processes import REPOSITORY, free_port
from tests.forks import Program, run
from tests.support import PATIENCE_SECONDS

SECRET = "s3cret"


def environ(folder: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(REPOSITORY),
        "SIGNOFF_STORE": f"sqlite:///{folder / 'signoff.db'}",
        "TICKETS_SECRET": SECRET,
    }


class Office:
    """The service and its worker, as processes; ``kill`` ends both at once, ``open`` begins them anew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._running: list[Program] = []
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self._port}",
            headers={"X-Secret": SECRET},
            trust_env=False,
            timeout=60,
        )

    def open(self) -> None:
        serve = ["uvicorn", "examples.ticket_flow.service:service", "--port", str(self._port)]
        work = ["signoff", "worker", "examples.ticket_flow.tickets:app"]
        for module in (serve, work):
            with (self._folder / "log").open("ab") as log:
                self._running.append(
                    Program(module, cwd=self._folder, env=environ(self._folder), stdout=log, stderr=log)
                )
        self.until(lambda: self.http.get("/tickets/none").status_code == 404)

    def kill(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._running.clear()

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self.http.post(path, json=body, timeout=PATIENCE_SECONDS * 2)

    def ticket(self, id: str) -> dict[str, Any]:
        return self.http.get(f"/tickets/{id}", timeout=PATIENCE_SECONDS).json()

    def until(self, look: Callable[[], bool]) -> None:
        end = time.monotonic() + 2 * PATIENCE_SECONDS
        while time.monotonic() < end:
            try:
                if look():
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise AssertionError("it did not come")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    try:
        made.open()
        yield made
    finally:
        made.kill()
        made.http.close()


def test_a_ticket_waits_for_webhooks_across_kill_9_and_counts_each_once(office: Office) -> None:
    ticket = {"id": "T-001", "customer": "bob", "cents": 7000}
    assert office.post("/tickets", ticket).status_code == 202
    assert office.post("/tickets", ticket).status_code == 202
    assert office.post("/tickets", {**ticket, "cents": 1}).status_code == 409
    office.until(lambda: bool(office.ticket("T-001").get("waits_for")))
    assert office.ticket("T-001")["waits_for"] == {"decision": "Refund 70.00 to bob (ticket T-001)?"}
    office.kill()
    office.open()
    said = {"event_id": "e-1", "ticket": "T-001", "approved": True, "by": "ana"}
    bank = {"event_id": "b-1", "ticket": "T-001", "status": "paid"}
    assert office.post("/webhooks/bank", bank).json() == {"taken": True}
    assert office.post("/webhooks/decision", said).json() == {"taken": True}
    assert office.post("/webhooks/decision", said).json() == {"taken": True}
    assert office.post("/webhooks/bank", bank).json() == {"taken": False}
    assert office.post("/webhooks/decision", {**said, "approved": False}).status_code == 409
    assert office.post("/webhooks/decision", {**said, "event_id": "e-2", "by": "eve"}).status_code == 409
    state = {"ticket": ticket, "status": "paid", "order": "order-ticket-T-001"}
    assert office.post("/tickets/T-001/close", {}).json() == {"state": state}
    assert office.ticket("T-001") == {"status": "succeeded", "state": state}
    assert office.post("/webhooks/bank", {**bank, "event_id": "b-2"}).status_code == 409


def test_a_refused_ticket_says_why_and_a_small_one_asks_no_question(office: Office) -> None:
    office.post("/tickets", {"id": "T-2", "customer": "bob", "cents": 7000})
    office.post("/tickets", {"id": "T-3", "customer": "bob", "cents": 900})
    office.until(lambda: bool(office.ticket("T-2").get("waits_for")))
    no = {"event_id": "e", "ticket": "T-2", "approved": False, "by": "ana", "note": "no receipt"}
    assert office.post("/webhooks/decision", no).status_code == 200
    closed = office.post("/tickets/T-2/close", {}).json()["state"]
    assert (closed["status"], closed["reason"]) == ("refused", "no receipt")
    office.until(lambda: office.ticket("T-3")["status"] == "paused")
    assert office.post("/tickets/T-3/close", {}).json()["state"]["status"] == "refunding"


def test_invalid_requests_and_callers_without_the_secret_are_refused(office: Office) -> None:
    assert office.post("/tickets", {"id": "T 1", "customer": "bob", "cents": 1}).status_code == 422
    said = {"event_id": "e", "ticket": "T-9", "approved": True, "by": "ana"}
    assert office.post("/webhooks/decision", said).status_code == 404
    assert office.post("/webhooks/decision", {**said, "approved": "banana"}).status_code == 422
    without = httpx.get(f"{office.http.base_url}/tickets/T-1", trust_env=False, timeout=60)
    assert without.status_code == 401


def reviewed(folder: Path, text: str, said: str) -> subprocess.CompletedProcess[str]:
    (folder / "offer.txt").write_text(text)
    return run(["examples.gated_review", "offer.txt"], cwd=folder, env=environ(folder), said=said)


@pytest.mark.parametrize(
    ("text", "said", "reply"),
    [
        ("We try.", "", "published by the gate\n"),
        ("We guarantee it.", "publish\n", "published by me\n"),
        ("We guarantee it.", "reject\n", "rejected by me\n"),
        ("We guarantee it.", "banana\nreject\n", "rejected by me\n"),
        ("We guarantee it.", "change\nWe always try.\nchange\nWe try.\n", "published by me\n"),
    ],
)
def test_the_gate_asks_only_where_a_person_is_needed_and_reads_the_answer(
    tmp_path: Path, text: str, said: str, reply: str
) -> None:
    done = reviewed(tmp_path, text, said)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(reply)


def test_an_unanswered_review_is_kept(tmp_path: Path) -> None:
    left = reviewed(tmp_path, "Never!", "")
    assert (left.returncode, "The review waits" in left.stderr) == (1, True)
    assert reviewed(tmp_path, "Never!", "publish\n").stdout.endswith("published by me\n")
