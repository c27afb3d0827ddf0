"""Names of what flows record beside payloads: clients read it, and paths of redaction do not hide it."""

from __future__ import annotations

from typing import Final

INTERRUPT: Final = "signoff.interrupt"
"""What of a question's metadata says which interrupt it is."""

CLOSE_REFUSED: Final = "signoff.flow: close refused"
"""The progress note with which an execution says that it does not close."""

EVENT_UNHEARD: Final = "signoff.flow: event unheard"
"""The progress note with which an execution says that an event began no line."""
