"""Live text in Postgres, on reader connections."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import LiveText
from signoff.stores.contract.live import KEPT_CHARACTERS
from signoff.stores.contract.validation import check_live
from signoff.stores.postgres.reads import Connection
from signoff.stores.shared.touched_runs import TouchedRuns

COLUMNS = ("run_id", "epoch", "seq", "n", "name", "attempt", "position", "kind", "text")

# Live text may be lost, so commits do not wait for the disk.
WAIT_FOR_NO_DISK = "SET LOCAL synchronous_commit TO off"

PUBLISH = """
SELECT signoff.publish(
    %s, %s::text[], %s::integer[], %s::bigint[], %s::integer[], %s::text[], %s::integer[], %s::bigint[], %s::text[],
    %s::text[], %s
)
"""

READ = f"""
SELECT {", ".join(COLUMNS)} FROM signoff.live
WHERE run_id = %(run_id)s AND namespace = %(namespace)s
    AND epoch = (
        SELECT epoch FROM signoff.runs WHERE id = %(run_id)s AND namespace = %(namespace)s AND state = 'running'
    )
    AND (epoch <> %(epoch)s OR seq > %(after)s)
ORDER BY seq
"""


def publish(db: Connection, namespace: str, pieces: Sequence[LiveText]) -> tuple[None, TouchedRuns]:
    """Store live text that was published under valid leases."""
    check_live(pieces)
    columns = ([getattr(piece, column) for piece in pieces] for column in COLUMNS)
    with db.transaction():
        db.execute(WAIT_FOR_NO_DISK)
        rows = db.execute(PUBLISH, (namespace, *columns, KEPT_CHARACTERS)).fetchall()
    touched = TouchedRuns()
    for (run_id,) in rows:
        touched.touch(namespace, run_id)
    return None, touched


def read(db: Connection, namespace: str, run_id: str, epoch: int, after: int) -> list[LiveText]:
    """Return a run's live text after the piece ``after`` of epoch ``epoch``."""
    values = {"namespace": namespace, "run_id": run_id, "epoch": epoch, "after": after}
    return [LiveText(*row) for row in db.execute(READ, values).fetchall()]
