"""Names of what flows record beside payloads: clients read it, and paths of redaction do not hide it."""

from __future__ import annotations

from typing import Final

INTERRUPT: Final = "signoff.interrupt"
"""The key of a question's metadata that says which interrupt it is."""

INTERRUPT_FACTS: Final = frozenset(
    {"id", "type", "chunk", "resume_to", "is_wrapped", "resumes", "max_resumes"}
)
"""The keys below ``INTERRUPT``. Metadata with others is a payload, whatever its key."""

CLOSE_REFUSED: Final = "signoff.flow: close refused"
"""The progress note with which an execution says that it does not close."""

EVENT_UNHEARD: Final = "signoff.flow: event unheard"
"""The progress note with which an execution says that an event began no line."""

NOTE_FACTS: Final = frozenset({"requests", "interrupts", "event", "lines_begin_with"})
"""The keys of these notes. A note with others is a payload, whatever its name."""
