"""``signoff ask``: a script asks a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PATIENCE_SECONDS, Running, signoff, until
from tests.cli.conftest import Here

FORM = '{"type": "object", "properties": {"parcels": {"type": "integer"}}, "required": ["parcels"]}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, and nothing that works for it."""
    folder = tmp_path_factory.mktemp("asks")
    assert signoff("migrate", "--store", "sqlite:///signoff.db", cwd=folder).code == 0
    return folder


def _is_listed(here: Here, folder: Path, question: str) -> bool:
    listed: list[dict[str, Any]] = here("inbox", "--json", cwd=folder).json["items"]
    return any(each["id"] == question for each in listed)


@pytest.mark.parametrize(("decision", "code"), [("approve", 0), ("reject", 1)])
def test_only_an_approval_lets_a_script_go_on(here: Here, folder: Path, decision: str, code: int) -> None:
    asking = ("ask", "Delete?", "--id", decision, "--assignee", "group:ops")
    with Running(*asking, cwd=folder) as first:
        until(lambda: _is_listed(here, folder, decision))
        first.process.kill()  # kill -9
    with Running(*asking, cwd=folder) as second:
        who = ("--user", "ana", "--in-group", "ops")
        assert here("answer", decision, f"--{decision}", *who, cwd=folder).code == 0
        assert second.process.wait(PATIENCE_SECONDS) == code
    again = here(*asking, cwd=folder)
    assert (again.code, again.out) == (code, "approved\n" if code == 0 else "rejected\n")
    other = here("ask", "Delete all?", "--id", decision, cwd=folder)
    assert (other.code, "other terms" in other.err) == (4, True)


def test_without_waiting_the_answer_is_printed_once_there_is_one(here: Here, folder: Path) -> None:
    asking = ("ask", "How many?", "--id", "form", "--type", "form", "--schema", FORM, "--no-wait")
    assert here(*asking, cwd=folder).out == "form\n"
    assert here("answer", "form", "--value", '{"parcels": "two"}', cwd=folder).code == 4
    assert here(*asking, cwd=folder).out == "form\n"
    assert here("answer", "form", "--value", '{"parcels": 2}', cwd=folder).code == 0
    assert here(*asking, cwd=folder).out == '{"parcels": 2}\n'
    assert here(*asking, "--json", cwd=folder).json["value"] == {"parcels": 2}


def test_a_skipped_approval_is_a_failure(here: Here, folder: Path) -> None:
    asking = ("ask", "Delete?", "--id", "skipped", "--skippable")
    here(*asking, "--no-wait", cwd=folder)
    assert here("answer", "skipped", "--value", "null", cwd=folder).code == 0
    for way in ("--wait", "--no-wait"):
        again = here(*asking, way, cwd=folder)
        assert (again.code, "not approved" in again.err) == (1, True)


def test_no_answer_in_time_is_a_failure(here: Here, folder: Path) -> None:
    late = here("ask", "Delete?", "--id", "late", "--deadline", "0.1", cwd=folder)
    assert (late.code, late.out) == (1, "")
    assert "nothing arrived" in late.err


def test_the_requester_may_not_answer(here: Here, folder: Path) -> None:
    asking = ("ask", "Delete?", "--id", "four-eyes", "--requester", "ana", "--no-wait")
    assert here(*asking, cwd=folder).code == 0
    assert here("answer", "four-eyes", "--approve", "--user", "ana", cwd=folder).code == 4
    assert here("answer", "four-eyes", "--approve", "--user", "bob", cwd=folder).code == 0


@pytest.mark.parametrize(
    "wrong",
    [["--type", "form"], ["--option", "a"], ["--quorum", "0"], ["--deadline", "nan"], ["--type", "x"], []],
)
def test_wrong_terms_ask_nothing(here: Here, folder: Path, wrong: list[str]) -> None:
    id = [] if not wrong else ["--id", "wrong"]
    assert here("ask", "Delete?", *id, *wrong, "--no-wait", cwd=folder).code == 2
    assert not _is_listed(here, folder, "wrong")
