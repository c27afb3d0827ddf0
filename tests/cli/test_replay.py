"""``signoff replay``: recorded journals, checked against the current code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from signoff import AsyncClient, RunState, Signoff
from signoff.stores.sqlite.store import SqliteStore
from tests.cli.commands import ORDERS, PATIENCE_SECONDS, Running, signoff, until
from tests.cli.conftest import Here


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the code as it was and a database with its runs, which have no worker any more."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "orders.py").write_text(ORDERS + FORGETFUL)
    with Running("worker", "orders:app", cwd=folder) as worker:
        worker.wait_for("working")
        asyncio.run(record(folder))
    (folder / "marks").unlink()
    return folder


async def record(folder: Path) -> None:
    app = Signoff(SqliteStore(folder / "signoff.db"))
    async with AsyncClient(app) as client:
        for workflow, *arguments in (("add", 1), ("refund", "o-1"), ("fail", "x"), ("forgetful",)):
            await client.start(workflow, *arguments, id=RUNS[workflow])
        async with asyncio.timeout(PATIENCE_SECONDS):
            for run_id in RUNS.values():
                while (await client.backend.get_run(run_id)).state in (RunState.READY, RunState.RUNNING):
                    await asyncio.sleep(0.02)
    await app.store.close()


RUNS = {"add": "added", "refund": "asked", "fail": "failed", "forgetful": "forgetful"}

FORGETFUL = """

@app.workflow
async def forgetful(ctx: Context) -> object:
    await ctx.step("read", lambda: mark("read"), durable=False)
    return await ctx.wait_for_signal("go")
"""


@pytest.fixture
def build(here: Here, recorded: Path, tmp_path: Path) -> Path:
    """Another build of the code, beside the recorded runs as exported."""
    (tmp_path / "orders.py").write_text(ORDERS + FORGETFUL)
    for run_id in RUNS.values():
        (tmp_path / f"{run_id}.json").write_text(here("export", run_id, cwd=recorded).out)
    return tmp_path


def rewrite(build: Path, old: str, new: str) -> None:
    text = (build / "orders.py").read_text()
    assert old in text
    (build / "orders.py").write_text(text.replace(old, new))


def test_unchanged_code_fits_all_unfinished_runs(here: Here, recorded: Path) -> None:
    before = [here("export", run_id, cwd=recorded).out for run_id in RUNS.values()]
    ended = signoff("replay", "orders:app", "--all", "--json", cwd=recorded)
    assert (ended.code, ended.err) == (0, "")
    found = {line["run_id"]: line for line in ended.lines}
    assert found.keys() == {"asked", "forgetful"}
    assert found["asked"] == {
        "run_id": "asked",
        "workflow": "refund",
        "verdict": "fits",
        "entries": 3,
        "checked": 3,
    }
    assert not (recorded / "marks").exists()  # no step ran
    assert [
        here("export", run_id, cwd=recorded).out for run_id in RUNS.values()
    ] == before  # nothing was written


@pytest.mark.parametrize("run_id", ["added", "asked", "failed"])
def test_unchanged_code_fits_an_exported_run(here: Here, build: Path, run_id: str) -> None:
    ended = here("replay", "orders:app", "--from", f"{run_id}.json", cwd=build)
    assert (ended.code, ended.err) == (0, "")
    assert " fits: " in ended.out
    assert not (build / "marks").exists()


@pytest.mark.parametrize(
    ("run_id", "old", "new", "recorded_as", "issued"),
    [
        ("asked", '"fetch_order"', '"get_order"', "step 'fetch_order'", "step 'get_order'"),
        (
            "asked",
            "Refund order {order}?",
            "Pay {order}?",
            "question 'Refund order o-1?'",
            "question 'Pay o-1?'",
        ),
        (
            "asked",
            "answer = await ctx.wait_for_user(",
            "await __import__('asyncio').Event().wait(); answer = await ctx.wait_for_user(",
            "question 'Refund order o-1?'",
            "nothing: it waits or ends before that",
        ),
        (
            "added",
            'await ctx.step("sum", lambda: a + b)',
            "a + b",
            "step 'sum'",
            "ends before that (succeeded)",
        ),
        ("added", "a: int, b: int = 1", "a: list", "step 'sum'", "(failed with InvalidValue: "),
        (
            "failed",
            "raise ValueError(why)",
            "await ctx.wait_for_signal(why)",
            "the end: failed",
            "signal 'x'",
        ),
        ("failed", "raise ValueError(why)", "return None", "the end: failed", "the end: succeeded"),
    ],
)
def test_changed_code_is_reported_with_both_sides(
    here: Here, build: Path, run_id: str, old: str, new: str, recorded_as: str, issued: str
) -> None:
    rewrite(build, old, new)
    finding = here("replay", "orders:app", "--from", f"{run_id}.json", "--json", cwd=build)
    assert finding.code == 1
    (line,) = finding.lines
    assert (line["run_id"], line["verdict"]) == (run_id, "differs")
    assert recorded_as in line["recorded"]
    assert issued in line["issued"]
    told = here("replay", "orders:app", "--from", f"{run_id}.json", cwd=build)
    assert told.code == 1
    assert f"  journal: {line['recorded']}" in told.out
    assert f"  code:    {line['issued']}" in told.out
    assert told.err == "signoff: 1 of 1 runs do not match this code\n"


def test_the_line_of_the_code_that_differs_is_named(here: Here, build: Path) -> None:
    rewrite(build, '"fetch_order"', '"get_order"')
    line = here("replay", "orders:app", "--from", "asked.json", "--json", cwd=build).lines[0]
    number = next(
        number
        for number, text in enumerate((build / "orders.py").read_text().splitlines(), start=1)
        if '"get_order"' in text
    )
    assert f"orders.py:{number}" in line["where"]


def test_a_workflow_that_is_gone_does_not_fit(here: Here, build: Path) -> None:
    rewrite(build, "async def refund(", "async def repay(")
    ended = here("replay", "orders:app", "--from", "asked.json", cwd=build)
    assert ended.code == 1
    assert "workflow 'refund' is not registered here" in ended.out


def test_a_step_whose_value_was_not_kept_is_not_run_again(here: Here, build: Path) -> None:
    ended = here("replay", "orders:app", "--from", "forgetful.json", "--json", cwd=build)
    assert ended.code == 0
    (line,) = ended.lines
    assert (line["verdict"], line["checked"], line["entries"]) == ("partly", 1, 3)
    assert "step 'read' (call 1): it is durable=False" in line["message"]
    assert not (build / "marks").exists()
    rewrite(build, 'ctx.step("read"', 'ctx.step("load"')
    assert here("replay", "orders:app", "--from", "forgetful.json", cwd=build).code == 1


@pytest.mark.long
def test_code_that_never_waits_is_interrupted(here: Here, build: Path) -> None:
    rewrite(build, "raise ValueError(why)", "\n    while True: pass")
    ended = here("replay", "orders:app", "--from", "failed.json", cwd=build)
    assert ended.code == 1
    assert "without waiting for anything" in ended.out


def test_journals_of_another_place_are_checked(here: Here, recorded: Path, build: Path) -> None:
    store = f"sqlite:///{recorded}/signoff.db"
    rewrite(build, '"fetch_order"', '"get_order"')
    ended = here("replay", "orders:app", "added", "asked", "--store", store, cwd=build)
    assert ended.code == 1
    assert "added  add  fits" in ended.out
    assert ended.err == "signoff: 1 of 2 runs do not match this code\n"


def test_a_mended_run_is_retried(here: Here, shop: Path) -> None:
    broken = ORDERS.replace(
        "raise ValueError(why)", "\n    import socket; socket.create_connection(('localhost', 1))"
    )
    (shop / "orders.py").write_text(broken)
    with Running("worker", "orders:app", cwd=shop) as worker:
        worker.wait_for("working")
        ended = here("start", "fail", "--arg", '"x"', "--id", "mend-1", "--wait", cwd=shop)
        assert ended.code == 1
        assert "signoff retry mend-1" in ended.err
    assert here("replay", "orders:app", "--all", cwd=shop).code == 1
    (shop / "orders.py").write_text(ORDERS.replace("raise ValueError(why)", "return None"))
    assert here("replay", "orders:app", "--all", cwd=shop).code == 0
    assert here("retry", "mend-1", cwd=shop).out == "run mend-1 is ready\n"
    with Running("worker", "orders:app", cwd=shop):
        until(lambda: here("show", "mend-1", "--json", cwd=shop).json["run"]["state"] == "succeeded")
