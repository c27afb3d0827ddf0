"""Formats times, durations, origins and answers for people."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from signoff.records import Origin, OriginWay
from signoff.wire import timestamps

_SHOWN_OF_ID: Final = 12
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """Format a duration in its two largest units: ``12 ms``, ``4.2 s``, ``3 d 4 h``."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    rest = round(seconds)
    words: list[str] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if words and not count:
            break
        if count:
            words.append(f"{count} {unit}")
        if len(words) == 2:
            break
    return " ".join(words)


def moment(at: float) -> str:
    """Format a date and time, in local time."""
    return timestamps.spell(at, "%Y-%m-%d %H:%M:%S", local=True)


def ago(at: float, now: float) -> str:
    """Format a time relative to now: ``4.2 s ago``, ``in 3 d 4 h``."""
    return f"{duration(now - at)} ago" if at <= now else f"in {duration(at - now)}"


def iso(at: float | None) -> str | None:
    """Format a time in ISO 8601, in UTC."""
    return None if at is None else timestamps.utc(at).isoformat(timespec="milliseconds")


def read(text: str | None) -> Any:
    """Parse JSON text. Text that is not JSON is returned unchanged, since a database row may hold anything."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return text


def brief(text: str | None, width: int = 80) -> str:
    """Shorten JSON text to one line. A string loses its quotes."""
    value = read(text)
    line = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(line, width)


def one_line(text: str, width: int = 160) -> str:
    """Shorten a text to one line of ``width``, without control characters that a terminal would interpret."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


_WAYS: Final = {
    OriginWay.KEY: "key",
    OriginWay.LOGIN: "signed in",
    OriginWay.PROXY: "signed in at the proxy",
    OriginWay.OPEN: "API, not signed in",
    OriginWay.LINK: "link",
    OriginWay.SLACK: "Slack",
    OriginWay.CALLBACK: "callback",
    OriginWay.MCP: "MCP",
    OriginWay.WORKER: "worker",
    OriginWay.APP: "program",
    OriginWay.CLI: "command line",
    OriginWay.RULE: "rule",
    OriginWay.TIMER: "clock",
}
_WITHOUT_ID: Final = (OriginWay.LOGIN, OriginWay.CALLBACK)
"""Origins whose credential id is of no use to people."""


def whence(origin: Origin | None) -> str:
    """Format an origin: ``link 0d9f3c7be5a2, 10.0.0.7``."""
    if origin is None:
        return ""
    words = [_WAYS.get(origin.way, origin.way.value)]
    if origin.credential is not None and origin.way not in _WITHOUT_ID:
        words.append(origin.credential[:_SHOWN_OF_ID])
    if origin.service is not None:
        words.append(f"of {origin.service}")
    said = " ".join(words)
    return one_line(said if origin.address is None else f"{said}, {origin.address}")


def _is_for(vote: Any) -> bool:
    return isinstance(vote, dict) and cast("dict[str, Any]", vote).get("approved") is True


def answered(text: str | None) -> str:
    """Format an answer, given its stored JSON."""
    value = read(text)
    if value is None:
        return "skipped"
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if "approved" in fields and isinstance(fields.get("votes"), list):
        votes = cast("list[Any]", fields["votes"])
        said = "approved" if fields["approved"] is True else "rejected"
        return f"{said}, with {sum(_is_for(vote) for vote in votes)} of {len(votes)} votes for it"
    if fields.keys() == {"approved"}:
        return "approved" if fields["approved"] is True else "rejected"
    if fields.keys() == {"approved", "proposal", "edits"}:
        edits: Any = fields["edits"]
        count = len(cast("list[Any]", edits)) if isinstance(edits, list) else 0
        return "approved" if count == 0 else f"approved with {count} {'edit' if count == 1 else 'edits'}"
    return brief(text)
