"""Commands on runs, on a store with a worker."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from signoff import Context
from tests.cli.commands import Running, environment, signoff, until
from tests.cli.conftest import Here
from tests.support import fails, new_app, running


def shown(here: Here, shop: Path, run_id: str, state: str) -> dict[str, object]:
    """The run, once it is in that state."""

    def look() -> dict[str, object] | None:
        found = here("show", run_id, "--json", cwd=shop).json
        return found if found["run"]["state"] == state else None

    return until(look)


def test_start_prints_the_id_and_starting_again_is_the_same_run(here: Here, open_shop: Path) -> None:
    first = signoff("start", "add", "--arg", "1", "--arg", "2", "--id", "sum-1", cwd=open_shop)
    again = here("start", "add", "--arg", "1", "--arg", "2", "--id", "sum-1", cwd=open_shop)
    other = here("start", "add", "--arg", "1", "--arg", "3", "--id", "sum-1", cwd=open_shop)
    assert (first.code, first.out, first.err) == (0, "sum-1\n", "")
    assert (again.code, again.out) == (0, "sum-1\n")
    assert other.code == 4
    assert "'sum-1' is taken" in other.err


def test_start_says_that_no_worker_has_a_workflow_of_that_name(here: Here, open_shop: Path) -> None:
    until(lambda: here("workflows", "--json", cwd=open_shop).json["items"])
    started = here("start", "refnud", "--id", "slip", cwd=open_shop)
    assert (started.code, started.out) == (0, "slip\n")
    assert "no worker of group 'default' runs 'refnud'" in started.err
    assert "refund" in started.err
    nobody = here("start", "x", "--group", "gpu", "--id", "later", cwd=open_shop)
    assert (nobody.code, nobody.err) == (0, ""), "a group without workers is not known yet"
    assert here("start", "x", "--id", "told", "--json", cwd=open_shop).err == ""


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("add", "'a' must be given"),
        ("add --arg 1 --arg 2 --arg 3", "it takes 2 arguments (a, b), but 3 are given"),
        ('add --kwargs {"a":1,"c":2}', "it has no parameter 'c' (a, b)"),
        ('add --arg 1 --kwargs {"a":1}', "'a' is given by position and by name"),
        ("add --arg true", "a: "),
        ('add --arg "1"', "a: "),
        ("add --arg null --arg 2", "a: "),
    ],
)
def test_start_checks_the_arguments_before_it_starts(
    here: Here, open_shop: Path, line: str, why: str
) -> None:
    until(lambda: here("workflows", "--json", cwd=open_shop).json["items"])  # the worker has announced them
    refused = here("start", *line.split(), "--id", "never", cwd=open_shop)
    assert (refused.code, refused.out) == (2, "")
    assert f"'add' does not take these arguments: {why}" in refused.err
    assert refused.err.count("\n") == 1
    assert here("show", "never", cwd=open_shop).code == 3


def test_a_schedule_of_what_workers_do_not_take_is_refused(here: Here, open_shop: Path) -> None:
    until(lambda: here("workflows", "--json", cwd=open_shop).json["items"])  # the worker has announced them
    seldom = ("--cron", "0 0 29 2 *")
    refused = here("schedules", "create", "s", "add", *seldom, "--arg", '"1"', cwd=open_shop)
    assert (refused.code, refused.out) == (2, "")
    assert "'add' does not take these arguments: a: " in refused.err
    refused = here("schedules", "create", "s", " ", *seldom, cwd=open_shop)
    assert (refused.code, refused.out) == (2, "")
    assert "workflow: it is empty" in refused.err
    created = here("schedules", "create", "s", "ad", *seldom, cwd=open_shop)
    assert (created.code, created.out[:16]) == (0, "schedule s fires")
    assert "no worker of group 'default' runs 'ad'" in created.err
    fits = here("schedules", "create", "s", "add", *seldom, "--arg", "1", cwd=open_shop)
    assert (fits.code, fits.err) == (0, "")
    assert here("schedules", "delete", "s", cwd=open_shop).code == 0


def test_start_wait_prints_the_result(here: Here, open_shop: Path) -> None:
    ended = here("start", "add", "--kwargs", '{"a": 5, "b": 6}', "--wait", cwd=open_shop)
    assert (ended.code, ended.out) == (0, "11\n")
    as_json = here("start", "add", "--arg", "5", "--wait", "--json", cwd=open_shop)
    assert as_json.json["state"] == "succeeded"
    assert as_json.json["result"] == 6
    assert as_json.json["arguments"] == {"args": [5], "kwargs": {}}


def test_start_wait_of_a_failing_run_says_why_and_exits_with_1(open_shop: Path) -> None:
    ended = signoff("start", "fail", "--arg", '"no stock"', "--id", "fail-1", "--wait", cwd=open_shop)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1] == "signoff: run fail-1 failed: ValueError: no stock"
    as_json = signoff("start", "fail", "--arg", '"x"', "--id", "fail-2", "--wait", "--json", cwd=open_shop)
    assert as_json.code == 1
    assert as_json.json["state"] == "failed"
    assert as_json.json["error"]["message"] == "x"
    assert json.loads(as_json.err)["error"] == {
        "message": "run fail-2 failed: ValueError: x",
        "exit_code": 1,
        "run_id": "fail-2",
        "state": "failed",
    }


def test_a_run_may_start_later_and_matter_more(here: Here, open_shop: Path) -> None:
    late = here(
        "start",
        "add",
        "--arg",
        "1",
        "--delay",
        "3600",
        "--priority",
        "-4",
        "--id",
        "late-1",
        "--json",
        cwd=open_shop,
    ).json
    assert (late["state"], late["priority"]) == ("paused", -4)
    assert late["start_at"] == pytest.approx(late["created_at"] + 3600, abs=5)
    at = here(
        "start",
        "add",
        "--arg",
        "1",
        "--start-at",
        "2099-06-01T12:00+01:00",
        "--id",
        "late-2",
        "--json",
        cwd=open_shop,
    ).json
    assert at["start_at"] == 4083994800.0
    listed = here("runs", "--state", "paused", cwd=open_shop).out
    assert "starts in 59 min" in listed or "starts in 1 h" in listed
    assert "starts 2099-06-01" in here("show", "late-2", cwd=open_shop).out
    wrong = here("start", "add", "--start-at", "tomorrow", cwd=open_shop)
    assert wrong.code == 2
    assert "2026-03-01T09:00" in wrong.err
    for id in ("late-1", "late-2"):
        assert here("cancel", id, cwd=open_shop).code == 0


def test_runs_are_listed_newest_first_in_pages_by_state_and_workflow(here: Here, open_shop: Path) -> None:
    for number in range(3):
        here("start", "add", "--arg", str(number), "--id", f"list-{number}", "--wait", cwd=open_shop)
    here("start", "fail", "--arg", '"x"', "--id", "list-failed-before", "--wait", cwd=open_shop)
    here("start", "fail", "--arg", '"x"', "--id", "list-fail", "--wait", cwd=open_shop)
    first = here("runs", "--workflow", "add", "--limit", "2", "--json", cwd=open_shop).json
    assert [run["id"] for run in first["items"]] == ["list-2", "list-1"]
    second = here(
        "runs", "--workflow", "add", "--limit", "2", "--after", first["next"], "--json", cwd=open_shop
    )
    assert second.json["items"][0]["id"] == "list-0"
    failed = here("runs", "--state", "failed", "--limit", "1", "--json", cwd=open_shop).json
    assert [run["id"] for run in failed["items"]] == ["list-fail"]
    table = here("runs", "--state", "failed", "--limit", "1", cwd=open_shop)
    head, row = table.out.splitlines()
    assert head.split() == ["RUN", "WORKFLOW", "STATE", "CREATED", "TOOK"]
    assert row.startswith("list-fail  fail      failed")
    assert row.rstrip().endswith("ValueError: x")
    assert "there are more: --after" in table.err


def test_show_tells_of_attempts_questions_and_the_result(here: Here, open_shop: Path) -> None:
    here("start", "refund", "--arg", '"o-1"', "--id", "refund-1", cwd=open_shop)
    shown(here, open_shop, "refund-1", "paused")
    waiting = here("show", "refund-1", cwd=open_shop).out
    assert "Refund order o-1?  (refund-1.2)" in waiting
    assert "signoff answer refund-1.2" in waiting
    here("answer", "refund-1.2", "--approve", "--user", "ana", "--note", "fine", cwd=open_shop)
    whole = shown(here, open_shop, "refund-1", "succeeded")
    told = here("show", "refund-1", cwd=open_shop).out
    assert 'refund("o-1")' in told
    assert ' for ana: approved "fine"  (command line ' in told
    assert (
        told.index("fetch_order")
        < told.index("Refund order")
        < told.index("pay")
        < told.index("succeeded after")
    )
    assert '"by": "ana"' in told.partition("succeeded after")[2]
    question = next(item for item in whole["timeline"] if item["kind"] == "question")  # type: ignore[attr-defined]
    said = {"at", "kind", "name", "n", "state", "id", "ended_at", "value", "by", "note", "origin"}
    assert question.keys() == said
    assert question["origin"]["way"] == "cli"
    assert (question["id"], question["state"], question["by"]) == ("refund-1.2", "succeeded", "ana")


def test_show_tells_of_failed_attempts(here: Here, open_shop: Path) -> None:
    here("start", "shaky", "--id", "shaky-1", "--wait", cwd=open_shop)
    told = here("show", "shaky-1", cwd=open_shop).out
    assert ", 3 attempts → paid" in told
    assert "attempt 2 failed: ConnectionError: the bank is closed" in told


def test_show_tells_of_every_kind_of_call(here: Here, open_shop: Path) -> None:
    assert here("start", "everything", "--id", "all-1", "--wait", cwd=open_shop).out == '"3, no stock"\n'
    told = here("show", "all-1", cwd=open_shop).out
    for words in (
        "progress  begun done=1 total=2",
        "patch     new-way",
        "child     add  (all-1.2)",
        " → 3",
        "detached  add  (all-1.3)  runs independently: signoff show all-1.3",
        "question  Anybody?  (all-1.4)",
        "not answered within 10 ms",
        "timer     waited",
        "failed: ValueError: no stock",
        "run       succeeded",
    ):
        assert words in told
    assert "child of all-1" in here("show", "all-1.2", cwd=open_shop).out
    items = here("show", "all-1", "--json", cwd=open_shop).json["timeline"]
    assert [item["state"] for item in items if item["kind"] == "child"] == ["succeeded", "failed"]
    assert [item["state"] for item in items if item["kind"] == "question"] == ["timed_out"]


def test_show_follow_is_interrupted_quietly(here: Here, open_shop: Path) -> None:
    here("start", "wait", "--id", "wait-3", cwd=open_shop)
    with Running("show", "wait-3", "--follow", cwd=open_shop) as following:
        until(lambda: following.lines)
        following.signal(signal.SIGINT)
        assert following.ends() == 130
        assert following.err.strip() == ""


def test_show_follow_says_from_where_an_answer_came_while_it_looked(here: Here, open_shop: Path) -> None:
    here("start", "refund", "--arg", '"o-7"', "--id", "seen-1", cwd=open_shop)
    with subprocess.Popen(
        [sys.executable, "-m", "signoff", "show", "seen-1", "--follow"],
        cwd=open_shop,
        env=environment({}),
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        next(line for line in following.stdout if "signoff answer seen-1.2" in line)
        here("answer", "seen-1.2", "--approve", "--user", "ana", cwd=open_shop)
        told = following.stdout.read()
    assert " for ana: approved  (command line " in told


def test_show_follow_ends_with_the_run(here: Here, open_shop: Path) -> None:
    here("start", "wait", "--id", "wait-1", cwd=open_shop)
    with Running("show", "wait-1", "--follow", cwd=open_shop) as following:
        until(lambda: any(line.get("call") == "signal" for line in following.lines))
        sent = here("signal", "wait-1", "go", '{"to": "Rome"}', "--json", cwd=open_shop)
        assert sent.json == {"run_id": "wait-1", "name": "go", "value": {"to": "Rome"}}
        assert following.ends() == 0
        kinds = [line["kind"] for line in following.lines[:-1]]
        assert kinds == ["started", "opened", "signalled", "succeeded"]
        assert following.lines[-1]["state"] == "succeeded"
        assert following.lines[-1]["result"] == {"to": "Rome"}
    told = here("show", "wait-1", "--follow", cwd=open_shop)
    assert told.code == 0
    assert '→ {"to": "Rome"}' in told.out


def test_cancel_keeps_the_reason(here: Here, open_shop: Path) -> None:
    here("start", "wait", "--id", "wait-2", cwd=open_shop)
    shown(here, open_shop, "wait-2", "paused")
    assert here("cancel", "wait-2", "--reason", "a mistake", cwd=open_shop).code == 0
    shown(here, open_shop, "wait-2", "cancelled")
    told = here("show", "wait-2", cwd=open_shop).out
    assert ": a mistake" in told
    assert "not sent when the run ended" in told
    again = here("cancel", "wait-2", "--json", cwd=open_shop)
    assert (again.code, again.json["state"]) == (0, "cancelled")
    assert here("signal", "wait-2", "go", cwd=open_shop).code == 4


def test_a_run_that_succeeded_is_not_retried(here: Here, open_shop: Path) -> None:
    here("start", "add", "--arg", "1", "--id", "done-1", "--wait", cwd=open_shop)
    ended = here("retry", "done-1", cwd=open_shop)
    assert ended.code == 4
    assert "done-1" in ended.err


def test_a_run_that_failed_because_of_its_code_is_ready_when_retried(here: Here, shop: Path) -> None:
    app = new_app(shop)

    @app.workflow
    async def stuck(ctx: Context) -> None:
        await asyncio.Event().wait()  # nothing will ever set it

    async def fail() -> None:
        async with running(app) as client:
            await client.start(stuck, id="stuck-1")
            await fails(app, "stuck-1")

    asyncio.run(fail())
    retried = here("retry", "stuck-1", "--json", cwd=shop).json
    assert (retried["id"], retried["state"]) == ("stuck-1", "ready")


def test_a_run_is_suspended_and_resumed(here: Here, open_shop: Path) -> None:
    here("start", "wait", "--id", "held-1", cwd=open_shop)
    shown(here, open_shop, "held-1", "paused")
    held = here("suspend", "held-1", "--reason", "the bank is down", "--by", "user:olga", cwd=open_shop)
    assert held.out == "run held-1 is suspended; later: signoff resume held-1\n", held.err
    assert "suspended: the bank is down" in here("runs", cwd=open_shop).out
    told = here("show", "held-1", cwd=open_shop).out
    assert "suspended by user:olga" in told
    assert "the bank is down; signoff resume held-1" in told
    here("signal", "held-1", "go", "1", cwd=open_shop)
    assert here("resume", "held-1", "--by", "user:olga", cwd=open_shop).code == 0
    shown(here, open_shop, "held-1", "succeeded")
    told = here("audit", "list", "--run", "held-1", cwd=open_shop).out
    assert "suspended" in told
    assert "resumed" in told


def test_promises_are_resolved_and_rejected_once(here: Here, open_shop: Path) -> None:
    for run_id in ("later-1", "later-2", "later-3"):
        here("start", "pay_later", "--id", run_id, cwd=open_shop)
        shown(here, open_shop, run_id, "paused")
    resolved = here("resolve", "later-1-paid", '{"cents": 5}', "--json", cwd=open_shop)
    assert (resolved.json["state"], resolved.json["value"]) == ("resolved", {"cents": 5})
    assert here("resolve", "later-1-paid", "6", cwd=open_shop).code == 4
    assert (
        here("reject", "later-2-paid", '"no money"', cwd=open_shop).out
        == "promise later-2-paid is rejected\n"
    )
    rejected = here("reject", "later-3-paid", '"no money"', "--json", cwd=open_shop, LOGNAME="ana").json
    assert (rejected["state"], rejected["value"], rejected["settled_by"]) == ("rejected", "no money", "ana")
    assert shown(here, open_shop, "later-1", "succeeded")["run"]["result"] == {"cents": 5}  # type: ignore[index]
    shown(here, open_shop, "later-2", "failed")
    assert "rejected: no money" in here("show", "later-2", cwd=open_shop).out
