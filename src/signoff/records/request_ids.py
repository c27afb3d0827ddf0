"""Request ids: their length, and the reserved ones."""

from __future__ import annotations

from typing import Final

from signoff.errors import InvalidValue
from signoff.records.names import check_text

LONGEST_REQUEST_ID: Final = 256  # characters: the audit trail keeps those of refused answers permanently

_RESERVED: Final = ("link:", "slack:", "callback:", "resume:")
"""Prefixes of the request ids that Signoff makes for answers of these ways."""


def check_length(request_id: str | None) -> None:
    """Raise InvalidValue if a request id is empty or too long."""
    if request_id is None:
        return
    check_text("request_id", request_id)
    if not request_id.strip():
        raise InvalidValue("request_id", "it is empty; leave it out, or give each request its own")
    if len(request_id) > LONGEST_REQUEST_ID:
        raise InvalidValue(
            "request_id",
            f"has {len(request_id):,} characters, over the limit of {LONGEST_REQUEST_ID}",
        )


def check_free(request_id: str | None) -> None:
    """Raise InvalidValue if a caller's request id for a question has a reserved prefix."""
    if request_id is not None and check_text("request_id", request_id).lower().startswith(_RESERVED):
        raise InvalidValue("request_id", f"the prefixes {', '.join(_RESERVED)} are reserved; use another one")
