"""Limits the memory of all journal followers of one caller."""

from __future__ import annotations

import asyncio
from typing import Final

LARGE_PAGES: Final = 2
READS: Final = 1

LARGE_PAGE_BYTES: Final = 64 * 1024
"""A journal page with more bytes needs room."""


class FollowRoom:
    """The limits that a caller's journal followers share. A follower whose client does not read holds on to its page.

    Attributes:
        pages: Held while a page of large entries is passed on.
        reads: Held while the store is read.
    """

    def __init__(self) -> None:
        self.pages = asyncio.Semaphore(LARGE_PAGES)
        self.reads = asyncio.Semaphore(READS)
