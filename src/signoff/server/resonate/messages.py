"""Messages to processes as the durable promise protocol has them: ``execute`` and ``unblock``."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from signoff.records.tasks import TaskMessage
from signoff.server.resonate.durable_promises import to_record


class Messages:
    """Writes messages.

    Args:
        server_url: The URL of this server, for the receivers of tasks.
    """

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url

    def to_wire(self, message: TaskMessage) -> dict[str, Any]:
        """Return a message as plain JSON data."""
        if message.task is not None:
            task = {"id": message.task.id, "version": message.task.version}
            return {"kind": "execute", "head": {"serverUrl": self._server_url}, "data": {"task": task}}
        assert message.promise is not None
        return {"kind": "unblock", "head": {}, "data": {"promise": to_record(message.promise)}}

    def event_of(self, message: TaskMessage) -> bytes:
        """Return a message as a server-sent event."""
        return b"data: %b\n\n" % to_json(self.to_wire(message))
