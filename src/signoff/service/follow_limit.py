"""What all who follow journals for one caller may hold at a time."""

from __future__ import annotations

import asyncio
from typing import Final

LARGE_PAGES: Final = 2
READS: Final = 1

LARGE_PAGE_BYTES: Final = 64 * 1024
"""A page of a journal that has more takes room."""


class FollowRoom:
    """Room that followers of journals share. One of them that is never read would keep a page of large entries.

    Attributes:
        pages: Taken while a page of large entries is given on.
        reads: Taken while something is read.
    """

    def __init__(self) -> None:
        self.pages = asyncio.Semaphore(LARGE_PAGES)
        self.reads = asyncio.Semaphore(READS)
