"""A flow's own facts in the metadata and notes of its runs. They are not payloads, but may contain hidden texts."""

from __future__ import annotations

from typing import Any, cast

from signoff.records.flow_records import INTERRUPT, INTERRUPT_FACTS
from signoff.redaction.hidden_values import Hidden


def interrupt_in(metadata: Any) -> dict[str, Any] | None:
    """Return the description of a flow's interrupt in a question's metadata; None if there is none."""
    about = cast("dict[str, Any]", metadata).get(INTERRUPT) if isinstance(metadata, dict) else None
    if not isinstance(about, dict):
        return None
    facts = cast("dict[str, Any]", about)
    return facts if facts.keys() <= INTERRUPT_FACTS else None


def own_facts(facts: Any, hidden: Hidden) -> Any:
    """Return a flow's own facts without hidden texts. Chunks may make ids from payloads, so ids are checked too."""
    if not isinstance(facts, dict):
        return hidden.masked_in(facts)
    own = dict(cast("dict[str, Any]", facts))
    if own.get("id") is not None and hidden.masked(own["id"]) != own["id"]:
        own["id"] = None  # readers then use the question's id
    for name in ("interrupts", "event"):
        if name in own:
            own[name] = hidden.masked_in(own[name])
    return own
