"""The benchmarks, one module per subject."""

from collections.abc import Sequence

from benchmarks.postgres import Bench
from benchmarks.row import Row
from benchmarks.rows import (
    agents,
    answered,
    concurrent,
    flows,
    inbox,
    langgraph,
    listeners,
    long_run,
    on_postgres,
    paced,
    paused,
    resonate,
    resumed,
    sequential,
    studio,
)

ON_SQLITE: tuple[Row, ...] = (
    *sequential.ROWS,
    *concurrent.ROWS,
    *resumed.ROWS,
    *answered.ROWS,
    *long_run.ROWS,
    *paused.ROWS,
    *inbox.ROWS,
    *listeners.ROWS,
    *paced.ROWS,
    *studio.ROWS,
    *agents.ROWS,
    *flows.ROWS,
    *resonate.ROWS,
    *langgraph.ROWS,
)

NAMES = {"sqlite": [row.name for row in ON_SQLITE], "postgres": list(on_postgres.NAMES)}


def rows_on(bench: Bench | None) -> Sequence[Row]:
    """The rows for a Postgres server, or for SQLite if there is no server."""
    return ON_SQLITE if bench is None else on_postgres.rows(bench)
