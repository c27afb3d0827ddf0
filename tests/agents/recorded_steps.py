"""The journaled steps of a run."""

from __future__ import annotations

from signoff.records import EntryKind
from signoff.testing.environment import Environment


async def steps_of(env: Environment, run_id: str) -> list[str]:
    entries = await env.client.backend.read_journal(run_id)
    return [entry.name or "" for entry in entries if entry.kind is EntryKind.COMPLETED]
