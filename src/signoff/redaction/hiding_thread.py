"""Redacts large records in a thread, so that the server's event loop is not blocked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from signoff.redaction.kept_texts import bytes_of as bytes_of_texts
from signoff.redaction.spellings import LONGEST_REMEMBERED
from signoff.stores.shared.listed_payloads import bytes_of

T = TypeVar("T")

SHORT_BYTES: Final = 64 * 1024
"""Smaller records are redacted on the loop."""

_thread = ThreadPoolExecutor(1, "signoff redaction")
"""A single thread, so that the loop competes with at most one other thread for the interpreter."""


async def beside(work: Callable[[], T], record: object, secrets: Iterable[str] = ()) -> T:
    """Call ``work``, in a thread if the record or its hidden texts are large.

    Args:
        work: Redacts the record.
        record: The record.
        secrets: Texts that are hidden elsewhere in its run.
    """
    if bytes_of(record) < SHORT_BYTES and bytes_of_texts(secrets) <= LONGEST_REMEMBERED:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_thread, work)
