"""The refund flow: every path through it, and a worker killed on both sides of the payment."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.refund.__main__ import main
from examples.refund.flow import refund_flow
from examples.website_summary.processes import REPOSITORY
from signoff import Client, Handle, Promise, Signoff
from signoff.records import EntryKind
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from tests.examples.servers import until
from tests.forks import Program

HOUR = 3600


class Office:
    """The flow on a clock of its own, with a worker."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.app = Signoff(SqliteStore(folder / "signoff.db", clock=self.clock))
        self.app.workflow(refund_flow)
        self.ledger = folder / "refunds.jsonl"
        self.client = Client(self.app)

    def start(self, amount_cents: int) -> Handle:
        return self.client.start(refund_flow, "o-1", amount_cents, id="refund-o-1")

    def question(self) -> Promise:
        """Wait for the open question."""
        return until(lambda: self.client.questions(run_id="refund-o-1").items)[0]

    @property
    def effects(self) -> list[dict[str, Any]]:
        """What has happened outside."""
        return read_ledger(self.ledger)


def read_ledger(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setenv("REFUND_LEDGER", str(tmp_path / "refunds.jsonl"))
    office = Office(tmp_path)
    with office.app.worker():
        yield office
    office.client.close()
    office.app.close()


def refund(amount_cents: int, n: int) -> dict[str, Any]:
    return {"effect": "refund", "key": f"refund-o-1.{n}", "order_id": "o-1", "amount_cents": amount_cents}


def test_a_small_refund_asks_no_question(office: Office) -> None:
    assert office.start(4999).result(60) == {"status": "auto_approved", "amount_cents": 4999}
    assert office.effects == [refund(4999, 2)]


def test_an_approved_refund_is_paid_and_names_the_approver(office: Office) -> None:
    run = office.start(5000)
    question = office.question()
    asked = json.loads(question.data or "")
    assert asked["text"] == "Approve $50.00 refund for order o-1?"
    assert asked["metadata"] == {"customer": "customer-of-o-1@shop.invalid"}
    assert office.effects == []
    office.client.answer(question.id, True, user_id="ana")
    assert run.result(60) == {"status": "approved_by_human", "approver": "ana"}
    assert office.effects == [refund(5000, 3)]


def test_a_rejected_refund_is_not_paid_and_gives_the_note_as_the_reason(office: Office) -> None:
    run = office.start(7000)
    office.client.answer(office.question().id, False, user_id="ana", note="not ours")
    assert run.result(60) == {"status": "rejected", "reason": "not ours"}
    assert office.effects == []


def test_an_hour_without_an_answer_escalates_to_one_without_a_deadline(office: Office) -> None:
    run = office.start(7000)
    first = office.question()
    office.clock.advance(HOUR - 1)
    assert office.question().id == first.id
    assert office.effects == []
    office.clock.advance(1)
    second = until(lambda: [each for each in office.client.questions().items if each.id != first.id])[0]
    assert json.loads(second.data or "")["text"] == "ESCALATION: approve?"
    assert office.effects == [{"effect": "slack", "text": "timed out, escalating"}]
    office.clock.advance(1000 * HOUR)
    office.client.answer(second.id, True, user_id="ben")
    assert run.result(60) == {"status": "approved_by_human", "approver": "ben"}
    assert len(office.effects) == 2


# Killed


class Shop:
    """The flow in a worker process, and a client on the same database."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "refunds.jsonl"
        self.database = folder / "signoff.db"
        self._log = folder / "worker.log"
        self._app = Signoff(f"sqlite:///{self.database}")
        self.client = Client(self._app)
        self._worker: Program | None = None

    def start_worker(self) -> None:
        with self._log.open("ab") as log:
            self._worker = Program(
                ["signoff", "worker", "examples.refund.flow:app"],
                cwd=REPOSITORY,
                env=os.environ
                | {"SIGNOFF_STORE": f"sqlite:///{self.database}", "REFUND_LEDGER": str(self.ledger)},
                stdout=log,
                stderr=log,
            )

    def kill_worker(self) -> None:
        assert self._worker is not None
        self._worker.kill()
        self._worker.wait()
        self._worker = None

    @property
    def epoch(self) -> int:
        """How often the run was claimed."""
        return self.client.list().items[0].epoch

    def close(self) -> None:
        if self._worker is not None:
            self.kill_worker()
        self.client.close()
        self._app.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def test_a_worker_killed_around_the_payment_pays_once(shop: Shop) -> None:
    with shop.ledger.open("a") as book:
        fcntl.flock(book, fcntl.LOCK_EX)  # the payment provider is busy
        run = shop.client.start("refund_flow", "o-1", 4000, id="refund-o-1")
        shop.start_worker()
        for entry in run.events():
            if entry.kind is EntryKind.COMPLETED and entry.name == "fetch_order":
                break  # the payment comes next, and waits at the lock
        shop.kill_worker()
        assert read_ledger(shop.ledger) == []
        epoch = shop.epoch
        shop.start_worker()
        until(lambda: shop.epoch > epoch)  # the new worker has the run, and the payment waits at the lock
        database = sqlite3.connect(shop.database, isolation_level=None)
        database.execute("BEGIN IMMEDIATE")  # no process can write to the journal now
    until(lambda: read_ledger(shop.ledger))
    shop.kill_worker()
    database.close()
    shop.start_worker()
    assert run.result(60) == {"status": "auto_approved", "amount_cents": 4000}
    assert read_ledger(shop.ledger) == [refund(4000, 2)]


# On the terminal


def test_wrong_arguments_get_one_line_that_shows_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["o-1", "much"], ["o-1", "0"], ["o-1", "1000", "more"]):
        assert main(wrong) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_program_prints_how_to_answer_and_continues_afterwards(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.refund", "o-1", "7000"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        hint = next(line for line in program.stdout if "signoff answer" in line)
        answer = [sys.executable, "-m", *hint.removeprefix("To answer: ").split(), "--user", "ana"]
        subprocess.run(answer, cwd=tmp_path, check=True)
        ended = json.loads(list(program.stdout)[-1])
    assert ended == {"status": "approved_by_human", "approver": "ana"}
    assert read_ledger(tmp_path / "refunds.jsonl") == [refund(7000, 3)]
