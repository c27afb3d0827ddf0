"""How the operations of a store cross the wire.

A request to a server is ``{"client", "floor", "operations": [{"id", "namespace", "do", "arguments"}, ...]}``. The
reply is a line ``{"id", "result"}`` or ``{"id", "problem"}`` for each operation, in the order in which they end. The
client no longer waits for replies to ids below ``floor``.
"""

from __future__ import annotations

from typing import Final

from pydantic import TypeAdapter

from signoff.stores.contract.store import Change

PATH: Final = "/v1/store"
CHANGES_PATH: Final = f"{PATH}/changes"
NOW_HEADER: Final = "signoff-now"
"""The server's business time, in unix seconds, when it began to reply."""

CHANGE: Final = TypeAdapter(Change)
