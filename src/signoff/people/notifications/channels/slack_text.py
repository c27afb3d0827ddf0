"""Slack's texts: their length as Slack counts, and the blocks made of them."""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import Any, Final

LONGEST_PART: Final = 3_000  # of a section's text, in characters as ``length`` counts
LONGEST_BUTTON: Final = 2_000  # of a button's value


def section(text: str) -> dict[str, Any]:
    """Return a block of plain text, cut to Slack's limit."""
    fitting = fitted(text, LONGEST_PART)
    return {"type": "section", "text": plain(fitting)}


def length(text: str) -> int:
    """Return the length of a text as Slack counts: in UTF-16 code units, with ``&``, ``<`` and ``>`` escaped."""
    return len(escaped(text).encode("utf-16-le", "surrogatepass")) // 2


def fitted(text: str, most: int) -> str:
    """Return a text cut to a length as Slack counts, with an ellipsis if it is cut."""
    if len(text) * 5 <= most or length(text) <= most:
        return text
    lengths = accumulate((length(each) for each in text), initial=1)  # of the ellipsis
    kept = sum(1 for _ in takewhile(lambda used: used <= most, lengths)) - 1
    return f"{text[:kept]}…" if kept >= 0 else ""


def escaped(text: str) -> str:
    """Return text escaped so that Slack shows it literally."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(text: str) -> dict[str, Any]:
    """Return a text object without markup."""
    return {"type": "plain_text", "text": text, "emoji": False}


def button(text: str, action_id: str) -> dict[str, Any]:
    """Return a button."""
    return {"type": "button", "text": {"type": "plain_text", "text": text}, "action_id": action_id}
