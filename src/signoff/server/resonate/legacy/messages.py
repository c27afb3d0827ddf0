"""Messages to processes as the protocol of 2024 has them: ``invoke``, ``resume`` and ``notify``."""

from __future__ import annotations

import json
from typing import Any

from signoff.records.tasks import TaskMessage
from signoff.server.resonate.legacy.records import counter_of, to_legacy_record


def event_of(message: TaskMessage) -> bytes:
    """Return a message as an event. It is ASCII: the SDK's reader also ends lines at other Unicode line ends."""
    return f"data: {json.dumps(to_wire(message))}\n\n".encode()


def to_wire(message: TaskMessage) -> dict[str, Any]:
    """Return a message as plain JSON data."""
    task = message.task
    if task is not None:
        kind = "resume" if task.resumes else "invoke"
        return {"type": kind, "task": {"id": task.id, "counter": counter_of(task)}}
    assert message.promise is not None
    return {"type": "notify", "promise": to_legacy_record(message.promise)}
