"""Groups tests that share something slow to create, so that one process runs them in sequence.

xdist's own ``xdist_group`` groups nothing from pytest 9.2 on: it changes ids of tests, which can no longer be changed.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT: Final = Path(__file__).parents[1]

GROUPS: Final = {
    # Two browsers are there at once, one of them for the pages as such.
    "places": ("tests/studio/test_places.py", "tests/studio/test_prefix.py"),
    "browser": ("tests/studio/", "tests/server/test_link_browser.py"),
    # A worker each.
    "orders": ("tests/cli/test_runs.py", "tests/cli/test_workers.py", "tests/cli/test_workflows.py"),
    "people": ("tests/cli/test_inbox.py", "tests/cli/test_links.py"),
    # One changes files that the next one changes, too.
    "dev": ("tests/cli/test_dev.py",),
}
"""By name: the beginnings of ids. The first that fits holds."""

SPREAD: Final = ("tests/stores/test_sqlite.py",)
"""Files whose tests share what is made in a moment."""

DATABASES: Final = (
    re.compile(r"tests/stores/test_postgres_plans\.py.*\[((?:un)?counted-postgres-\d+)-"),
    # A store full of large rows: "sqlite" or "postgres".
    re.compile(
        r"tests/attacks/test_(?:many_requests|memory|memory_of_every_route|unread_replies)\.py"
        r".*\b(sqlite|postgres)\b"
    ),
)
"""Patterns of ids whose one group is the name of a database that takes long to fill."""


def group_of(id: str) -> str:
    """Return the name of a test's group. A test that shares nothing is a group of its own, named by its id."""
    for name, beginnings in GROUPS.items():
        if id.startswith(beginnings):
            return name
    for pattern in DATABASES:
        if database := pattern.match(id):
            return database[1]
    file = id.partition("::")[0]
    return file if file not in SPREAD and _shares(file) else id


@functools.cache
def _shares(file: str) -> bool:
    """Whether a file's tests share a fixture."""
    path = ROOT / file
    return path.is_file() and 'scope="module"' in path.read_text()


class Grouped(LoadScopeScheduling):
    """Gives each group to one process, and the largest groups first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget groups that have ended: after each test xdist counts what is left of all that it has ever given out.

        Of thousands of groups that takes longer than to run many a test.
        """
        given = self.assigned_work[node]
        id = self.registered_collections[node][item_index]
        group = self._split_scope(id)
        given[group][id] = True
        if all(given[group].values()):
            del given[group]
        self._reschedule(node)
