"""A person's inbox among a million open questions."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import psycopg

from benchmarks.programs import new_app
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT, Yardstick
from signoff import AsyncClient, Question
from signoff.stores.sqlite.schema import path_of

LOOKS = 50
PAGE = 50

# Each question is for one of a thousand users and one of a hundred groups; every hundredth one is for any user.
ANA = {"user_id": "7", "groups": ["3", "14", "15"]}

OPEN_ON_SQLITE = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
INSERT INTO promises (namespace, id, kind, state, created_at, data, assignees)
SELECT 'default', 'q' || n, 'question', 'pending', n, :data,
    CASE n % 100 WHEN 0 THEN '[]' ELSE json_array('user:' || n % 1000, 'group:' || n % 100) END
FROM numbers
"""

OPEN_ON_POSTGRES = """
INSERT INTO signoff.promises (shard, namespace, id, kind, state, created_at, data, assignees)
SELECT 'q' || n, 'default', 'q' || n, 'question', 'pending', n, %(data)s,
    CASE n %% 100 WHEN 0 THEN '{}' ELSE ARRAY['user:' || n %% 1000, 'group:' || n %% 100] END
FROM generate_series(1, %(count)s) AS n
"""

# The work of the trigger for each of them, in one statement.
FILL_ON_POSTGRES = """
INSERT INTO signoff.inbox (shard, namespace, question_id, assignee, number)
SELECT shard, namespace, id, assignee, number
FROM signoff.promises, unnest(CASE assignees WHEN '{}' THEN ARRAY[''] ELSE assignees END) AS assignee
"""


async def inbox(place: Place) -> Figures:
    """Milliseconds per page of an inbox: the first page, and one in the middle."""
    address = place.new_store()
    app = new_app(address)
    async with AsyncClient(app) as client:
        _open_questions(address, place.sizes.open)
        first = await client.questions(**ANA, limit=PAGE)
        middle = str(place.sizes.open // 2)
        figures: Figures = {"first": [], "middle": []}
        with place.measured():
            for key, after in (("first", None), ("middle", middle)) * LOOKS:
                began = time.perf_counter()
                page = await client.questions(**ANA, limit=PAGE, after=after)
                figures[key].append(1_000 * (time.perf_counter() - began))
                assert len(page.items) == len(first.items) == PAGE
    await app.store.close()
    return figures


def _open_questions(address: str, count: int) -> None:
    values = {"count": count, "data": Question.make("Refund?").to_json()}
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(path_of(address))) as db:
            db.execute(OPEN_ON_SQLITE, values)
            db.commit()
        return
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # a million triggers take minutes
        connection.execute(OPEN_ON_POSTGRES, values)
        connection.execute(FILL_ON_POSTGRES)
        connection.execute("VACUUM (ANALYZE) signoff.promises, signoff.inbox")


def row(yardstick: Yardstick) -> Row:
    """The row, with one raw commit of the database as its yardstick."""
    return Row(
        "inbox",
        inbox,
        yardstick,
        (
            Line(
                "first",
                f"{PAGE} questions for a person of 3 groups, of a million open ones",
                "ms",
                target=20,
                less_is_better=True,
            ),
            Line("middle", "... a page in the middle", "ms", target=20, less_is_better=True),
        ),
        lambda sizes: 2 * LOOKS,
        most_rounds=1,
    )


ROWS = (row(COMMIT),)
