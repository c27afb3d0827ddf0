"""Names of the metadata that flows record. Clients read it, and redaction does not hide it."""

from __future__ import annotations

from typing import Final

INTERRUPT: Final = "signoff.interrupt"
"""The key in a question's metadata under which its interrupt is described."""

INTERRUPT_FACTS: Final = frozenset(
    {"id", "type", "chunk", "resume_to", "is_wrapped", "resumes", "max_resumes"}
)
"""The keys below ``INTERRUPT``. An object with any other key is a payload, so redaction applies."""

CLOSE_REFUSED: Final = "signoff.flow: close refused"
"""The name of the progress note of a flow that refused to close."""

EVENT_UNHEARD: Final = "signoff.flow: event unheard"
"""The name of the progress note of an event that no chunk handles."""

NOTE_FACTS: Final = frozenset({"requests", "interrupts", "event", "lines_begin_with"})
"""The keys of these notes. A note with any other key is a payload, so redaction applies."""
