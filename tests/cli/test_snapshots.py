"""``signoff save`` and ``load``: a run as a file, from one store to another."""

from __future__ import annotations

import io
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.commands import signoff
from tests.cli.conftest import Here


def test_a_run_goes_by_a_file_into_another_store_once(here: Here, shop: Path) -> None:
    here("start", "refund", "--arg", '"o-1"', "--id", "r", "--store", "sqlite:///signoff.db", cwd=shop)
    saved = here("save", "r", "-o", "r.json", cwd=shop)
    assert (saved.code, saved.err) == (0, "")
    assert saved.out == "r is saved in r.json; elsewhere: signoff load r.json\n"
    file = shop / "r.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    other = ("--store", "sqlite:///other.db")
    assert here("load", "r.json", *other, cwd=shop).out == "r continues here: ready\n"
    again = here("load", "r.json", *other, cwd=shop)
    assert (again.code, again.out) == (4, "")
    assert "is in this store" in again.err
    assert here("show", "r", *other, cwd=shop).code == 0
    trail = here("audit", "list", "--json", *other, cwd=shop).json["items"]
    assert [each["kind"] for each in trail] == ["loaded"]


def test_of_several_processes_that_load_it_at_once_one_does(here: Here, shop: Path) -> None:
    here("start", "refund", "--arg", '"o-1"', "--id", "r", "--store", "sqlite:///signoff.db", cwd=shop)
    here("save", "r", "-o", "r.json", cwd=shop)
    load = ("load", "r.json", "--store", "sqlite:///other.db")
    with ThreadPoolExecutor(4) as beside:
        ended = list(beside.map(lambda _: signoff(*load, cwd=shop), range(4)))
    assert sorted(each.code for each in ended) == [0, 4, 4, 4], "".join(each.err for each in ended)
    assert all("is in this store" in each.err for each in ended if each.code)
    trail = here("audit", "list", "--json", *load[2:], cwd=shop).json["items"]
    assert [each["kind"] for each in trail] == ["loaded"]


def test_what_is_printed_is_what_is_read(here: Here, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here("start", "refund", "--arg", '"ö-1"', "--id", "r", "--store", "sqlite:///signoff.db", cwd=shop)
    printed = here("save", "r", cwd=shop).out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    loaded = here("load", "-", "--json", "--store", "sqlite:///other.db", cwd=shop)
    assert (loaded.code, loaded.json["id"]) == (0, "r")


def test_a_file_that_is_there_is_not_written_over(here: Here, shop: Path) -> None:
    here("start", "refund", "--arg", '"o-1"', "--id", "r", "--store", "sqlite:///signoff.db", cwd=shop)
    (shop / "r.json").write_text("mine")
    refused = here("save", "r", "-o", "r.json", cwd=shop)
    assert (refused.code, refused.out) == (4, "")
    assert "r.json exists already" in refused.err
    assert (shop / "r.json").read_text() == "mine"
    nowhere = here("save", "r", "-o", "none/r.json", cwd=shop)
    assert (nowhere.code, nowhere.err.count("\n")) == (2, 1)


def test_what_is_no_snapshot_is_refused_in_one_line(here: Here, shop: Path) -> None:
    here("start", "refund", "--arg", '"o-1"', "--id", "r", "--store", "sqlite:///signoff.db", cwd=shop)
    assert here("save", "none", cwd=shop).code == 3
    for text, code in (("banana", 2), ("[]", 2), ('{"a": 1, "a": 2}', 2), ("{}", 2)):
        (shop / "wrong.json").write_text(text)
        refused = here("load", "wrong.json", cwd=shop)
        assert (refused.code, refused.out) == (code, ""), refused.err
        assert "Traceback" not in refused.err
    snapshot = json.loads(here("save", "r", cwd=shop).out)
    (shop / "wrong.json").write_text(json.dumps({**snapshot, "saved_at": 1}))
    refused = here("load", "wrong.json", "--store", "sqlite:///other.db", cwd=shop)
    assert (refused.code, refused.out) == (2, "")
    assert "digest" in refused.err
