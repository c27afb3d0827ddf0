"""``import signoff`` and its server import no library of a door."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = {
    "a2a",
    "ag_ui",
    "agents",
    "claude_agent_sdk",
    "langchain_core",
    "langgraph",
    "mcp",
    "openai",
    "pydantic_ai",
}
"""One of each extra in docs/integrations.md, as modules."""


@pytest.mark.parametrize("module", ["signoff", "signoff.server", "signoff.cli.root"])
def test_nothing_imports_a_library_of_a_door_unasked(module: str) -> None:
    program = f"import {module}, sys; print(*sorted({{*sys.modules}} & {LIBRARIES!r}))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == []
