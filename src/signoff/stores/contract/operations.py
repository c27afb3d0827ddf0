"""The operations of the contract as they cross the wire. Both ends take them from ``Store`` itself.

A request to a server is ``{"session", "floor", "operations": [{"id", "namespace", "do", "arguments"}, ...]}``, its
reply a line ``{"id", "result"}`` or ``{"id", "problem"}`` for each operation, in the order in which they end.
Below ``floor`` there is no id whose reply the client still waits for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NotRequired, Required, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from signoff.errors import InvalidValue
from signoff.stores.contract.store import Change, Store

PATH: Final = "/v1/store"
CHANGES_PATH: Final = f"{PATH}/changes"
NOW_HEADER: Final = "signoff-now"
"""The server's business time, in unix seconds, when it began to reply."""

CHANGE: Final = TypeAdapter(Change)


class Operation:
    """One operation of ``Store``.

    Args:
        name: The name of the method.
        is_read: Whether it changes nothing.

    Attributes:
        name: The name of the method.
        is_read: Whether it changes nothing.
    """

    def __init__(self, name: str, *, is_read: bool) -> None:
        self.name = name
        self.is_read = is_read

    # Built on first use: all of them together take half a second, and most processes need few.

    @cached_property
    def _arguments(self) -> TypeAdapter[dict[str, Any]]:
        fields: dict[str, Any] = {}
        for parameter in list(inspect.signature(self._method).parameters.values())[1:]:
            kind: Any = Required if parameter.default is inspect.Parameter.empty else NotRequired
            fields[parameter.name] = kind[self._hints[parameter.name]]
        shape: Any = TypedDict(self.name, fields)  # pyright: ignore[reportArgumentType]
        return TypeAdapter(shape)

    @cached_property
    def _result(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._hints["return"])

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._method)

    @property
    def _method(self) -> Any:
        return getattr(Store, self.name)

    def write_arguments(self, arguments: Mapping[str, Any]) -> bytes:
        """Return arguments as JSON."""
        return self._arguments.dump_json(dict(arguments))

    def read_arguments(self, data: object) -> dict[str, Any]:
        """Read arguments back. Raises InvalidValue."""
        try:
            return self._arguments.validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(str(part) for part in (self.name, *first["loc"]))
            raise InvalidValue(path, first["msg"]) from None

    def write_result(self, result: object) -> bytes:
        """Return a result as JSON."""
        return self._result.dump_json(result)

    def read_result(self, data: object) -> Any:
        """Read a result back. Raises ValueError."""
        return self._result.validate_python(data)


_READS = (
    "get_run",
    "ended",
    "list_runs",
    "read_journal",
    "read_messages",
    "get_promise",
    "list_promises",
    "due_questions",
    "get_session",
    "list_sessions",
    "get_rule",
    "list_rules",
    "list_audit",
    "read_chain",
    "last_seal",
    "heads",
    "unsealed",
    "find_token",
    "has_token",
    "get_token",
    "list_tokens",
    "read_cursor",
    "list_deliveries",
    "list_groups",
    "get_schedule",
    "list_schedules",
    "due_schedules",
    "list_workers",
    "list_workflows",
    "read_live",
    "save_run",
)
_WRITES = (
    "create_run",
    "cancel",
    "retry",
    "suspend",
    "resume",
    "terminate",
    "signal",
    "claim",
    "append",
    "pause",
    "complete",
    "create_promise",
    "settle",
    "amend",
    "revoke_rule",
    "record",
    "seal",
    "create_token",
    "revoke_token",
    "expire_token",
    "touch_token",
    "delete_tokens",
    "expand",
    "claim_deliveries",
    "finish_delivery",
    "redeliver",
    "delete_deliveries",
    "due",
    "pause_group",
    "resume_group",
    "limit_group",
    "put_schedule",
    "pause_schedule",
    "resume_schedule",
    "delete_schedule",
    "fire_schedule",
    "delete_ended",
    "enlist",
    "announce",
    "delete_workflows",
    "publish",
    "heartbeat",
    "release",
    "load_run",
)

OPERATIONS: Final[Mapping[str, Operation]] = {
    **{name: Operation(name, is_read=True) for name in _READS},
    **{name: Operation(name, is_read=False) for name in _WRITES},
}
