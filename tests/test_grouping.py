"""Tests that share something slow to create run in one process, whatever their ids look like."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.grouping import GROUPS, ROOT, SPREAD, group_of

WHO = """
from pathlib import Path

import pytest

@pytest.fixture(scope="module")
def shared():
    with Path(__file__).with_name(f"{Path(__file__).stem}.made").open("a") as file:
        file.write("x")

@pytest.mark.parametrize("number", range(20))
def test(shared, number): ...
"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tests/studio/test_places.py::test_a[x-light]", "tests/studio/test_prefix.py::test_b"),
        ("tests/studio/test_inbox.py::test_a", "tests/server/test_link_browser.py::test_b"),
        ("tests/cli/test_runs.py::test_a", "tests/cli/test_workers.py::test_b"),
        ("tests/server/test_bulk.py::test_a", "tests/server/test_bulk.py::test_b[x::y]"),
        (
            "tests/attacks/test_many_requests.py::test_a[sqlite-/v1/runs]",
            "tests/attacks/test_memory.py::test_b[sqlite-what is read]",
        ),
        (
            "tests/attacks/test_unread_replies.py::test_a[postgres-true]",
            "tests/attacks/test_memory.py::test_b[postgres]",
        ),
        (
            "tests/attacks/test_memory_of_every_route.py::test_a[Role.ADMIN-reads-sqlite]",
            "tests/attacks/test_memory.py::test_b[sqlite]",
        ),
        (
            "tests/stores/test_postgres_plans.py::test_a[counted-postgres-18-rules]",
            "tests/stores/test_postgres_plans.py::test_a[counted-postgres-18-keys]",
        ),
    ],
)
def test_these_share_something(one: str, other: str) -> None:
    assert group_of(one) == group_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tests/studio/test_places.py::test_a", "tests/studio/test_inbox.py::test_b"),
        ("tests/crash/test_kill.py::test_a[agent]", "tests/crash/test_kill.py::test_a[flow]"),
        ("tests/stores/test_sqlite.py::test_a", "tests/stores/test_sqlite.py::test_b"),
        (
            "tests/attacks/test_memory.py::test_a[sqlite-what is read]",
            "tests/attacks/test_memory.py::test_a[postgres-what is read]",
        ),
        (
            "tests/stores/test_postgres_plans.py::test_a[counted-postgres-18-rules]",
            "tests/stores/test_postgres_plans.py::test_a[uncounted-postgres-18-rules]",
        ),
    ],
)
def test_these_share_nothing(one: str, other: str) -> None:
    assert group_of(one) != group_of(other)


def test_what_is_named_is_there() -> None:
    named = [beginning for beginnings in GROUPS.values() for beginning in beginnings]
    for name in (*named, *SPREAD):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(), name


@pytest.mark.long
def test_a_fixture_of_a_module_is_made_once_by_all_processes_together(tmp_path: Path) -> None:
    """With the scheduler of these tests, as pytest and xdist are installed."""
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text(WHO)
    ran = _run(tmp_path)
    assert "40 passed" in ran.stdout, ran.stdout + ran.stderr
    for name in ("one", "two"):
        assert (tmp_path / f"test_{name}.made").read_text() == "x"


CRASHING = """
import os

import pytest

@pytest.mark.parametrize("number", range(20))
def test(number):
    if number == 15:
        os.abort()
"""


@pytest.mark.long
def test_a_process_that_crashes_ends_the_tests_and_the_test_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_crashing.py").write_text(CRASHING)
    ran = _run(tmp_path)
    assert "crashed while running 'test_crashing.py::test[15]'" in ran.stdout, ran.stdout + ran.stderr


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder with the scheduler and the options of these, but in two processes."""
    (folder / "conftest.py").write_text((ROOT / "tests/grouping.py").read_text() + SCHEDULER)
    places = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={folder}", str(folder)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n2", *places],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


SCHEDULER = """

ROOT = Path(__file__).parent


def pytest_xdist_make_scheduler(config, log):
    return Grouped(config, log)
"""
