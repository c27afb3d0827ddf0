"""A request's effect on a server's memory, as the operating system sees it."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

RESET_PEAK = "5"


class Measured:
    """The memory of a process."""

    def __init__(self, pid: int) -> None:
        self._process = Path(f"/proc/{pid}")

    @property
    def resident_kib(self) -> int:
        return self._of("VmRSS")

    @property
    def highest_kib(self) -> int:
        return self._of("VmHWM")

    @contextmanager
    def rise(self) -> Generator[list[int]]:
        """Give a list that has afterwards by how many KiB memory was higher within than before."""
        (self._process / "clear_refs").write_text(RESET_PEAK)
        before = self.resident_kib
        risen: list[int] = []
        yield risen
        risen.append(self.highest_kib - before)

    def _of(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", (self._process / "status").read_text())
        assert found is not None
        return int(found[1])
