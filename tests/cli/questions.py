"""Asks a question from the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import until
from tests.cli.conftest import Here


def ask(here: Here, shop: Path, run_id: str, workflow: str = "refund", *arguments: str) -> str:
    """Start a run, and return the id of its question once it is asked."""
    here("start", workflow, *arguments, "--id", run_id, cwd=shop)

    def look() -> str | None:
        items = here("inbox", "--run", run_id, "--json", cwd=shop).json["items"]
        return items[0]["id"] if items else None

    return until(look)
