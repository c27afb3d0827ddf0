"""``signoff workflows``, on a store with a worker."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Here


def test_workflows_are_listed(here: Here, open_shop: Path) -> None:
    items = here("workflows", "--json", cwd=open_shop).json["items"]
    while not items:
        items = here("workflows", "--json", cwd=open_shop).json["items"]
    [add] = [each for each in items if each["name"] == "add"]
    assert (add["group"], add["version"], add["is_current"]) == ("default", "1", True)
    assert "properties" in add["parameters"]
    heading, *rows = here("workflows", "--name", "add", cwd=open_shop).out.splitlines()
    assert heading.split() == ["WORKFLOW", "VERSION", "GROUP", "SEEN", "ABOUT"]
    assert [row.split()[:3] for row in rows] == [["add", "1", "default"]]
    first = here("workflows", "--limit", "1", cwd=open_shop)
    assert "there are more: --after" in first.err


def test_where_no_worker_has_begun_it_says_so(here: Here, shop: Path) -> None:
    here("start", "add", "--arg", "1", "--store", "sqlite:///signoff.db", cwd=shop)
    assert here("workflows", cwd=shop).err == "no workflows: no worker has started yet\n"
