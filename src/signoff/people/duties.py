"""What processes do for questions when time has come."""

from __future__ import annotations

from signoff.people.audit import seal_events
from signoff.people.decisions import serve_questions

DUTIES = (serve_questions, seal_events)
