"""``signoff doctor``: the work in a database, on SQLite and Postgres, and checks specific to SQLite."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from signoff.doctor.findings import Level, TookTooLong, clock, latency, ok, within
from signoff.doctor.findings import examine as run_checks
from signoff.records import AuditKind, NewAuditEvent, NewPromise, NewRun, NewSchedule, PromiseKind, RunState
from signoff.records.deliveries import DeliveryState, NewDelivery, Report
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Store
from signoff.stores.sqlite import inspection
from signoff.stores.sqlite.schema import connect_to_look
from tests.cli.conftest import Here
from tests.cli.diagnoses import examine, findings, levels, on_store, sql, worker
from tests.postgres.databases import fresh_database
from tests.stores.scene import KEPT_FAILURE


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/signoff.db"
        return
    with fresh_database() as url:
        yield url


def new_run(id: str = "r", **more: object) -> NewRun:
    return NewRun(id, "add", "default", '{"args": [1], "kwargs": {}}', **more)  # type: ignore[arg-type]


def test_unsent_and_dead_notifications_are_reported(here: Here, tmp_path: Path, address: str) -> None:
    new = [NewDelivery(f"d{n}", "user:ana", "e", 1, AuditKind.ASKED, f"q{n}") for n in range(3)]

    async def leave(store: Store) -> None:
        await store.expand("mail", None, 1, new[:2])
        for delivery, report in zip(
            (await store.claim_deliveries("mail", 2, 60.0))[0],
            (
                Report(DeliveryState.DEAD, error="no"),
                Report(DeliveryState.PENDING, time.time() + 60, "HTTP 500"),
            ),
            strict=True,
        ):
            await store.finish_delivery(delivery.id, 1, report)
        await store.expand("chat", None, 1, new[2:])

    on_store(address, leave)
    sql(address, "UPDATE signoff.deliveries SET due_at = 1 WHERE channel = 'chat'")
    found = examine(here, "--store", address, cwd=tmp_path)
    [late, failing, dead] = found["deliveries"]
    assert (late[0], "channel chat has at least 1 overdue deliveries" in late[1]) == (
        "failure",
        True,
    )
    assert (
        failing[0],
        "channel mail retries 1 deliveries, the newest after: HTTP 500" in failing[1],
    ) == (
        "warning",
        True,
    )
    assert (dead[0], "channel mail has at least 1 failed deliveries" in dead[1]) == ("warning", True)


def test_a_database_that_is_well_and_at_work_has_no_findings_but_good_ones(
    here: Here, open_shop: Path
) -> None:
    here("start", "add", "--arg", "1", "--wait", cwd=open_shop)
    ended = here("doctor", "orders:app", cwd=open_shop)
    assert (ended.code, ended.err) == (0, "")
    others = [line for line in ended.out.splitlines() if not line.startswith("skipped  audit trail ")]
    assert {line.split()[0] for line in others} == {"ok"}


def test_ready_runs_that_no_live_worker_of_their_group_takes(
    here: Here, tmp_path: Path, address: str
) -> None:
    async def wait(store: Store) -> None:
        await store.create_run(new_run())
        await store.enlist(worker(group="gpu"))

    on_store(address, wait)
    ended = here("doctor", "--store", address, cwd=tmp_path)
    assert ended.code == 1
    assert "group default has 1 ready runs but no live worker" in ended.out
    assert ended.err.endswith("findings are failures\n")
    on_store(address, lambda store: store.enlist(worker("v")))
    assert levels(examine(here, "--store", address, cwd=tmp_path), "ready runs") == ["ok"]
    on_store(address, lambda store: store.pause_group("default"))
    [(level, message)] = examine(here, "--store", address, cwd=tmp_path)["ready runs"]
    assert level == "warning"
    assert "signoff groups resume default" in message


def test_ready_runs_of_other_namespaces_are_found_and_named(here: Here, tmp_path: Path, address: str) -> None:
    on_store(address, lambda store: store.within("acme").create_run(new_run()))
    found = examine(here, "--store", address, cwd=tmp_path)["ready runs"]
    assert [(level, "namespace acme" in message) for level, message in found] == [
        ("ok", False),
        ("failure", True),
    ]


def test_ready_runs_whose_workflow_the_app_does_not_register(here: Here, shop: Path) -> None:
    here("start", "forgotten", "--store", "sqlite:///signoff.db", cwd=shop)
    here("start", "add", "--store", "sqlite:///signoff.db", cwd=shop)
    on_store(f"sqlite:///{shop}/signoff.db", lambda store: store.enlist(worker()))
    assert levels(examine(here, cwd=shop), "ready runs") == ["ok"]
    [(level, message)] = examine(here, "orders:app", cwd=shop)["ready runs"]
    assert (level, "(forgotten)" in message, "at least 1 " in message) == ("warning", True, True)


def test_runs_that_failed_because_of_their_code(here: Here, tmp_path: Path, address: str) -> None:
    async def fail(store: Store) -> None:
        await store.create_run(new_run("broken"))
        [claim] = await store.claim("w", "default", ["add"], 1)
        await store.complete(Write("broken", claim.run.epoch), KEPT_FAILURE)

    on_store(address, fail)
    [(level, message)] = examine(here, "--store", address, cwd=tmp_path)["failed runs"]
    assert level == "warning"
    assert "at least 1 runs failed because of their code (broken)" in message


def test_workers_that_went_silent(here: Here, tmp_path: Path, address: str) -> None:
    on_store(address, lambda store: store.enlist(worker("lost")))
    assert levels(examine(here, "--store", address, cwd=tmp_path), "workers") == ["ok"]
    sql(address, "UPDATE signoff.workers SET seen_at = seen_at - 50")
    [(level, message)] = examine(here, "--store", address, cwd=tmp_path)["workers"]
    assert level == "warning"
    assert "worker lost of group default had its last heartbeat 5" in message


def test_overdue_items_are_reported_and_not_served(here: Here, tmp_path: Path, address: str) -> None:
    past = time.time() - 60

    async def leave(store: Store) -> None:
        await store.create_promise(NewPromise("p", due_at=past))
        await store.create_promise(NewPromise("q", PromiseKind.QUESTION, act_at=past))
        await store.create_run(new_run("late", deadline_at=past))
        await store.create_run(new_run("timer", start_at=time.time() + 60))
        await store.create_run(new_run("held"))
        await store.claim("w", "default", ["add"], 10)
        await store.put_schedule(
            NewSchedule("nightly", "add", "default", "{}", "* * * * *", "UTC", next_at=past)
        )

    on_store(address, leave)
    assert levels(examine(here, "--store", address, cwd=tmp_path), "time") == ["failure"] * 4
    sql(address, f"UPDATE signoff.runs SET wake_at = {past} WHERE id = 'timer'")
    sql(address, f"UPDATE signoff.runs SET lease_until = {past} WHERE id = 'held'")
    found = examine(here, "--store", address, cwd=tmp_path)
    told = [message.partition(", the first")[0] for _, message in found["time"]]
    assert sorted(told) == [
        "deadlines of questions and promises: 1 overdue",
        "deadlines of runs: 1 overdue",
        "leases that ran out: 1 overdue",
        "reminders and escalations of questions: 1 overdue",
        "schedules: 1 overdue",
        "timers and delayed starts: 1 overdue",
    ]
    assert "the first by 6" in found["time"][0][1]
    [(level, message)] = found["schedules"]
    assert (level, "schedule nightly is 6" in message) == ("failure", True)
    assert sql(address, "SELECT state FROM signoff.promises WHERE id = 'p'")[0][0] == "pending"
    assert on_store(address, lambda store: store.get_run("held")).state is RunState.RUNNING


def test_an_old_schema_is_reported_and_left_alone(here: Here, tmp_path: Path) -> None:
    with fresh_database() as url:
        found = examine(here, "--store", url, cwd=tmp_path)
        [(level, message)] = found["schema"]
        assert (level, "run signoff migrate" in message) == ("failure", True)
        assert "workers" not in found
        assert sql(url, "SELECT to_regclass('signoff.runs')") == [(None,)]


# SQLite


@pytest.fixture
def file(here: Here, tmp_path: Path) -> Path:
    here("migrate", cwd=tmp_path)
    return tmp_path / "signoff.db"


def test_a_file_that_is_not_there_is_not_created(here: Here, tmp_path: Path) -> None:
    [(level, message)] = examine(here, "--store", "sqlite:///none.db", cwd=tmp_path)["database"]
    assert (level, "none.db" in message) == ("failure", True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_program_is_not_touched(here: Here, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "signoff.db")) as connection:
        connection.execute("CREATE TABLE theirs (id)")
    before = (tmp_path / "signoff.db").read_bytes()
    found = examine(here, cwd=tmp_path)
    assert found.keys() == {"schema"}
    assert (tmp_path / "signoff.db").read_bytes() == before


def test_a_damaged_file(here: Here, file: Path) -> None:
    async def fill(store: Store) -> None:
        for number in range(200):
            await store.create_run(new_run(f"r-{number}"))

    on_store(f"sqlite:///{file}", fill)
    root = sql(f"sqlite:///{file}", "SELECT rootpage FROM sqlite_schema WHERE name = 'runs_by_workflow'")[0][
        0
    ]
    with file.open("r+b") as content:
        content.seek((root - 1) * 4096)
        content.write(b"\xff" * 64)
    [(level, message)] = examine(here, cwd=file.parent)["integrity"]
    assert (level, "is damaged" in message) == ("failure", True)


def test_looking_for_damage_ends_after_its_time(file: Path) -> None:
    sql(
        f"sqlite:///{file}",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
        "INSERT INTO requests SELECT 'default', i, 'q', 'n', 'v', NULL, NULL FROM n",
    )
    with closing(connect_to_look(file)) as db:
        assert inspection.damage(db, 0.0) == (None, False)
        assert inspection.damage(db, 60.0) == (None, True)


def test_changed_settings_and_indexes_are_reported(here: Here, file: Path) -> None:
    sql(f"sqlite:///{file}", "DROP INDEX runs_timers")
    sql(f"sqlite:///{file}", "PRAGMA journal_mode = DELETE")
    found = examine(here, cwd=file.parent)
    assert found["indexes"] == [
        ("failure", "index runs_timers is missing: create it as in schema/sqlite/*.sql")
    ]
    assert levels(found, "journal") == ["warning"]
    assert found["time"] == [("failure", "no such index: runs_timers")]


def test_a_disk_that_is_nearly_full_and_one_that_is_elsewhere(
    here: Here, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, partition = shutil.disk_usage(file), psutil.disk_partitions(all=True)[0]
    for free, level in ((500 << 20, "warning"), (50 << 20, "failure")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=free))
        assert levels(examine(here, cwd=file.parent), "disk") == [level]
    mounts = [partition._replace(mountpoint="/", fstype="ext4")]
    mounts += [partition._replace(mountpoint=str(file.parent), fstype="nfs4")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    [(level, message)] = examine(here, cwd=file.parent)["file system"]
    assert (level, "nfs4, a network file system" in message) == ("failure", True)


def test_a_skipped_check_is_reported_and_fails_nothing(
    here: Here, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [])
    ended = here("doctor", "--json", cwd=file.parent)
    assert findings(ended)["file system"] == [("skipped", "this system does not report its file system")]
    assert (ended.code, ended.json["failures"], ended.json["skipped"]) == (0, 0, 2)
    assert "skipped  file system " in here("doctor", cwd=file.parent).out


# How checks are run and judged


def test_a_check_that_raises_is_a_failure_and_the_others_are_run() -> None:
    def broken(_: None) -> list[object]:
        raise ValueError("two\nlines")

    found = list(run_checks(None, {"broken": broken, "well": lambda _: [ok("fine")]}))  # type: ignore[dict-item]
    assert [(each.check, each.level, each.message) for each in found] == [
        ("broken", Level.FAILURE, "two lines"),
        ("well", Level.OK, "fine"),
    ]


def test_a_check_that_does_not_end_is_given_up() -> None:
    free = threading.Event()
    with pytest.raises(TookTooLong, match=r"no answer within 0\.05 s"):
        within(free.wait, 0.05)
    free.set()


def test_latencies_and_clocks_are_judged() -> None:
    assert latency([0.001, 0.002, 0.9], "a commit", 0.05, "hint") == ok("a commit takes 2.0 ms (median of 3)")
    assert latency([0.001, 0.2, 0.9], "a commit", 0.05, "hint").level is Level.WARNING
    assert clock(-3.0, 0.1, "the database's").level is Level.WARNING
    assert "3.0 s behind" in clock(-3.0, 0.1, "the database's").message
    assert clock(2.5, 1.0, "the database's").level is Level.OK, "it may be the way there"


def test_runs_that_wait_for_an_operator(here: Here, tmp_path: Path, address: str) -> None:
    async def suspend(store: Store) -> None:
        for id in ("asked", "lost"):
            await store.create_run(new_run(id))
            [claim] = await store.claim("w", "default", ["add"], 1)
            if id == "lost":
                await store.release("w", dead=True)
                [claim] = await store.claim("w", "default", ["add"], 1)
            event = NewAuditEvent(id, AuditKind.SUSPENDED, "", id, "user:ana" if id == "asked" else None)
            await store.suspend(id, event, epoch=claim.run.epoch)

    on_store(address, lambda store: store.enlist(worker()))
    assert levels(examine(here, "--store", address, cwd=tmp_path), "suspended runs") == ["ok"]
    on_store(address, suspend)
    lost, asked = examine(here, "--store", address, cwd=tmp_path)["suspended runs"]
    assert (lost[0], "workers in turn were lost with them (lost)" in lost[1]) == ("failure", True)
    assert (asked[0], "suspended by operators (asked)" in asked[1]) == ("warning", True)
    listed = here("runs", "--suspended", "--store", address, "--json", cwd=tmp_path).json["items"]
    assert {run["id"] for run in listed} == {"asked", "lost"}


def test_steps_that_wait_for_a_thread(here: Here, tmp_path: Path, address: str) -> None:
    full = replace(worker("full"), threads=2, threads_busy=2, threads_waiting=7)
    on_store(address, lambda store: store.enlist(full))
    [(level, message)] = examine(here, "--store", address, cwd=tmp_path)["threads"]
    assert level == "warning"
    assert "all 2 threads of worker full of group default are busy and 7 plain-function steps wait" in message
    assert "2/2 (7 wait)" in here("workers", "--store", address, cwd=tmp_path).out
