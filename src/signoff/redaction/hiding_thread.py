"""Does the long work of hiding texts in a thread, so that the server's loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from signoff.redaction.hidden_values import LONGEST_REMEMBERED
from signoff.stores.shared.listed_payloads import bytes_of

T = TypeVar("T")

SHORT_BYTES: Final = 64 * 1024
"""Records of fewer bytes are shown on the loop."""

_thread = ThreadPoolExecutor(1, "signoff redaction")
"""One thread, so that the loop never waits for more than one other thread that hides."""


async def beside(work: Callable[[], T], record: object, secrets: Iterable[str] = ()) -> T:
    """Return what ``work`` returns; in a thread if a record, or what is hidden in it, is long.

    Args:
        work: Hides texts.
        record: The record.
        secrets: What is hidden elsewhere in its run.
    """
    if bytes_of(record) < SHORT_BYTES and sum(map(len, secrets)) <= LONGEST_REMEMBERED:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_thread, work)
