"""The trace of a run, as W3C Trace Context: ``00-{trace id}-{span id}-{flags}``.

A run that was started outside of any trace gets one derived from its namespace and id, which is the same in every
process.
"""

from __future__ import annotations

import hashlib
import re
import sys
from functools import lru_cache
from typing import Any

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_LATER_VERSION = re.compile(r"(?!00|ff)[0-9a-f]{2}-(.{32}-.{16}-.{2})(-.*)?")


def is_traceparent(text: str) -> bool:
    """Whether a string is a trace context of version 00."""
    return _TRACEPARENT.fullmatch(text) is not None


def read_header(text: str | None) -> str | None:
    """Return the trace context of a ``traceparent`` header. An invalid one is ignored, as W3C requires."""
    if text is None:
        return None
    text = text.strip()
    if later := _LATER_VERSION.fullmatch(text):
        text = f"00-{later[1]}"
    return text if is_traceparent(text) else None


def current_traceparent() -> str | None:
    """Return the trace context of the current OpenTelemetry span, if there is one."""
    trace: Any = sys.modules.get("opentelemetry.trace")  # not imported: there are no spans
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"


def traceparent_of(namespace: str, run_id: str, traceparent: str | None) -> str:
    """Return the trace context of a run: that of its start, or its own, which is sampled."""
    return traceparent if traceparent is not None else _own(namespace, run_id)


def trace_id_of(traceparent: str) -> str:
    """Return the trace id of a trace context, in hexadecimal."""
    return traceparent[3:35]


@lru_cache(4096)
def _own(namespace: str, run_id: str) -> str:
    name = f"{namespace}\0{run_id}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(name, digest_size=24, person=b"signoff trace").hexdigest()
    return f"00-{digest[:32]}-{digest[32:]}-01"
