"""The key of a test's remote workers: one of a key file, so that it closes no other route."""

from __future__ import annotations

from typing import Final, cast

from signoff.records import Origin, OriginWay
from signoff.server.auth.key_file import WorkerKey, WorkerKeys, key_of
from signoff.server.store_api.access import SHOWN_OF_HASH

SECRET: Final = "sgw_shared_" + "t" * 43
"""The same in every process, so that a server and a worker of their own can both have it."""

_KEY: Final = cast("WorkerKey", key_of(SECRET, "default", "tests/worker_keys.py"))
KEYS: Final = WorkerKeys([_KEY])
ORIGIN: Final = Origin(OriginWay.WORKER, _KEY.hash[:SHOWN_OF_HASH], address="127.0.0.1")
"""What the audit trail says of writes with this key."""
