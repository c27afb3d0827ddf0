"""docs/integrations.md names a test for each statement about a door, and each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CELLS = re.findall(r'\[yes\]\(\.\./(tests/\S+) "(\w+)"\)', (ROOT / "docs" / "integrations.md").read_text())


def test_the_page_has_its_table() -> None:
    assert len(CELLS) > 60


@pytest.mark.parametrize(("file", "name"), sorted(set(CELLS)))
def test_each_cell_names_a_test(file: str, name: str) -> None:
    assert re.search(rf"def {name}\(", (ROOT / file).read_text())
