"""Each claim of docs/security.md names the tests that show it, and the tests named in the docs exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "security.md").read_text()
COLUMNS = ("threat", "what stops it", "shown by")
NAME = re.compile(r"`([a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")
"""A test as the table names it: its file below tests/, and its function."""
FILE = re.compile(r"(?:[\w.-]+/)*test_\w+\.py(?:::\w+)?|\btests/[\w./-]*\w")
"""A file or folder of tests, wherever the page names one."""


@cache
def functions(file: Path) -> frozenset[str]:
    """The functions of a module, by its text alone: to import all of them takes long, and some need extras."""
    return frozenset(
        each.name
        for each in ast.parse(file.read_text()).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def rows(page: str) -> list[list[str]]:
    """The rows of the table of threats, without its heading."""
    _, heading, section = page.partition("\n## Threats\n")
    assert heading, "there is no section 'Threats'"
    lines = [line for line in section.partition("\n## ")[0].splitlines() if "|" in line]
    cells = [[cell.strip() for cell in line.strip().removeprefix("|").split("|")] for line in lines]
    assert [tuple(row[:-1]) for row in cells[:1]] == [COLUMNS], f"the table's columns are not {COLUMNS}"
    return cells[2:]


def faults(page: str, tests: Path = TESTS) -> Iterator[str]:
    """Say what is wrong with the tests that a page names."""
    for row in rows(page):
        if len(row) != 4 or row[3] or not all(row[:3]):
            yield f"not three columns: {' | '.join(row)}"
            continue
        threat, _, shown_by, _ = row
        names = shown_by.split(", ")
        if len(set(names)) != len(names):
            yield f"a test twice: {threat}"
        for name in names:
            if NAME.fullmatch(name) is None:
                yield f"not a test's name: {name!r}, of: {threat}"
    for name in FILE.findall(page):
        path, _, function = name.removeprefix("tests/").partition("::")
        file = tests / path
        if not file.exists():
            yield f"no such file: {name}"
        elif function and (not function.startswith("test_") or function not in functions(file)):
            yield f"no such test: {name}"


def test_each_claim_names_tests_that_exist() -> None:
    assert len(rows(PAGE)) > 70
    assert list(faults(PAGE)) == []


GOOD = "| a forged name | headers do not count | `server/test_a.py::test_it`, `server/test_a.py::test_this` |"
AROUND = """# Security

See `tests/server/test_a.py::test_it`, `server/test_a.py` and tests/server/.

## Threats

| threat | what stops it | shown by |
| --- | --- | --- |
{row}

The limits.

## Dependencies
{below}
"""


@pytest.mark.parametrize(
    ("row", "below", "found"),
    [
        (GOOD, "", []),
        ("| a | b |  |", "", ["not three columns"]),
        ("| a |  | `server/test_a.py::test_it` |", "", ["not three columns"]),
        ("| a | b `c|d` | `server/test_a.py::test_it` |", "", ["not three columns"]),
        ("| a | b | `server/test_a.py::test_it`", "", ["not three columns"]),
        ("| a | b | `server/test_a.py::test_it` | c |", "", ["not three columns"]),
        ("| a | b |", "", ["not three columns"]),
        ("| a | b | - |", "", ["not a test's name"]),
        ("| a | b | see above |", "", ["not a test's name"]),
        ("| a | b | `server/test_a.py` |", "", ["not a test's name"]),
        ("| a | b | `server/test_a.py::test_it` and more |", "", ["not a test's name"]),
        ("| a | b | `server/test_a.py::test_it`, |", "", ["not a test's name"]),
        ("| a | b | `server/test_a.py::helper` |", "", ["not a test's name", "no such test"]),
        ("| a | b | `server/test_a.py::test_it`, `server/test_a.py::test_it` |", "", ["a test twice"]),
        ("| a | b | `server/test_a.py::test_of_a_class` |", "", ["no such test"]),
        ("| a | b | `server/test_a.py::test_gone` |", "", ["no such test"]),
        ("| a | b | `server/test_gone.py::test_it` |", "", ["no such file"]),
        (f"{GOOD}\n| a | b | `server/test_a.py::test_gone` |", "", ["no such test"]),
        (GOOD, "As `server/test_a.py::test_gone` shows.", ["no such test"]),
        (GOOD, "As `server/test_gone.py` shows.", ["no such file"]),
        (GOOD, "Those of tests/gone/ show it.", ["no such file"]),
    ],
)
def test_a_page_that_names_no_test_or_none_that_exists_is_found_out(
    tmp_path: Path, row: str, below: str, found: list[str]
) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "test_a.py").write_text(
        "def test_it(): ...\nasync def test_this(): ...\ndef helper(): ...\n"
        "class TestAll:\n    def test_of_a_class(self): ...\n"
    )
    said = list(faults(AROUND.format(row=row, below=below), tmp_path))
    assert [each.partition(":")[0] for each in said] == found, said


@pytest.mark.parametrize(
    "page", ["# Security\n", "## Threats\n", "\n## Threats\n\n| threat | shown by |\n| --- | --- |\n"]
)
def test_a_page_without_the_table_is_found_out(page: str) -> None:
    with pytest.raises(AssertionError):
        rows(page)


@pytest.mark.parametrize("page", sorted((TESTS.parent / "docs").glob("*.md")), ids=lambda page: page.name)
def test_tests_that_other_pages_name_exist(page: Path) -> None:
    named = NAME.findall(page.read_text())
    missing = [(file, name) for file, name in named if name not in functions(TESTS / file)]
    assert missing == []
