"""Limits the number of items in workers' requests: each item is checked, and all are written in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from signoff.errors import InvalidValue
from signoff.stores.remote.store import RECORDS_AT_ONCE

MOST_IDS: Final = 100_000
"""Ids, names or numbers of calls in one operation, such as the runs of a heartbeat."""

MOST_WRITTEN: Final = 20_000
"""Entries of one write of a run. Workers write about 1,000 at a time."""

MOST_OPENED: Final = 10_000
"""Promises or child runs of one write of a run. Workers write about 1,000 at a time."""

MOST_EVENTS: Final = RECORDS_AT_ONCE
"""Records of any other operation. Workers send few at a time, and ``RemoteStore.record`` splits longer lists."""

MOST_PIECES: Final = 10_000
"""Pieces of live text, or assignees of a question."""

MOST_ITEMS: Final = 40_000
"""Items of all operations in one request, or deliveries of a channel.

Workers send at most 2 MiB, about 18,000 items, and a longer operation alone.
"""

_LIMITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("run_ids", "held", "workflows", "kinds", "besides", "open", "unpublishes"), MOST_IDS),
    **dict.fromkeys(("entries", "closes", "cancels", "taken"), MOST_WRITTEN),
    **dict.fromkeys(("opens", "starts"), MOST_OPENED),
    "deliveries": MOST_ITEMS,
    **dict.fromkeys(("pieces", "assignees"), MOST_PIECES),
}

_MAPPINGS: Final = frozenset({"held"})

_OF_OPERATIONS: Final[Mapping[tuple[str, str], int]] = {("announce", "workflows"): MOST_EVENTS}


def check_items(operation: str, arguments: Mapping[str, Any]) -> None:
    """Check the number of items in each list and mapping of an operation.

    Args:
        operation: Its name.
        arguments: Its arguments, as plain data.

    Raises:
        InvalidValue: An argument has too many. The error names it.
    """
    for path, size in _sizes(arguments):
        name = path.rpartition(".")[2]
        most = _OF_OPERATIONS.get((operation, name)) or _LIMITS.get(name, MOST_EVENTS)
        if size > most:
            raise InvalidValue(
                path, f"it has {size:,} items, more than {most:,}; send them in several operations"
            )


def check_batch(operations: Sequence[Mapping[str, Any]]) -> int:
    """Check the number of items in the operations of a request, and return it.

    Args:
        operations: The arguments of each.

    Raises:
        InvalidValue: There are several operations, and too many items in them.
    """
    items = sum(map(count_items, operations))
    if items > MOST_ITEMS and len(operations) > 1:
        raise InvalidValue(
            "operations",
            f"they have {items:,} items, more than {MOST_ITEMS:,}; send them in several requests",
        )
    return items


def count_items(arguments: Mapping[str, Any]) -> int:
    """Return the number of items in the lists and mappings of an operation."""
    return sum(size for _, size in _sizes(arguments))


def _sizes(arguments: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """Yield the path and the size of each list or mapping, including those in arguments that are records."""
    for name, value in arguments.items():
        if isinstance(value, list):
            yield name, len(cast("list[Any]", value))
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            if name in _MAPPINGS:
                yield name, len(fields)
            elif name != "saved":  # a snapshot is one value, with a limit in bytes
                yield from (
                    (f"{name}.{field}", len(cast("list[Any]", part)))
                    for field, part in fields.items()
                    if isinstance(part, list)
                )
