"""Stand-ins for other systems: orders, payments and a chat. Their effects are recorded in a file, one per line."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from signoff import current_step


def get_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return {"order_id": order_id, "customer_email": f"customer-of-{order_id}@shop.invalid"}


def issue_refund(order_id: str, amount_cents: int) -> dict[str, Any]:
    """Pay money back, once per idempotency key, like a payment provider.

    The step that calls this may run again with the same key if its worker died in the middle.
    """
    key = current_step().idempotency_key
    with ledger() as book:
        for line in book:
            paid = json.loads(line)
            if paid.get("key") == key:
                return paid
        refund = {"effect": "refund", "key": key, "order_id": order_id, "amount_cents": amount_cents}
        write(book, refund)
    return refund


def post_slack(text: str) -> None:
    """Notify the team. A chat has no idempotency keys: after a crash the message may appear twice."""
    with ledger() as book:
        write(book, {"effect": "slack", "text": text})


@contextmanager
def ledger() -> Iterator[TextIO]:
    """Open the file of effects, for one process at a time."""
    path = Path(os.environ.get("REFUND_LEDGER", "refunds.jsonl"))
    with path.open("a+", encoding="utf-8") as book:
        fcntl.flock(book, fcntl.LOCK_EX)  # released when the file is closed, or its process dies
        book.seek(0)
        yield book


def write(book: TextIO, effect: dict[str, Any]) -> None:
    """Append a line. It is on disk when this returns."""
    book.seek(0, os.SEEK_END)
    book.write(json.dumps(effect) + "\n")
    book.flush()
    os.fsync(book.fileno())
