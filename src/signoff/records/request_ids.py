"""Request ids: how long one is, and which are Signoff's own."""

from __future__ import annotations

from typing import Final

from signoff.errors import InvalidValue
from signoff.records.names import check_text

LONGEST_REQUEST_ID: Final = 256  # characters: the audit trail keeps those of refused answers for ever

_OWN: Final = ("link:", "slack:", "callback:", "resume:")
"""How those begin that say from where an answer came."""


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
    """Raise InvalidValue if a request id that a caller says for a question is not theirs to say."""
    if request_id is not None and check_text("request_id", request_id).lower().startswith(_OWN):
        raise InvalidValue(
            "request_id", f"{', '.join(_OWN)} are what Signoff's own begin with; begin it otherwise"
        )
