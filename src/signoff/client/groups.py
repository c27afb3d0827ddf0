"""Client operations on groups: pause and limit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from signoff.errors import InvalidValue
from signoff.records import Group, Rate
from signoff.records.names import check_size, check_text


class GroupBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def list_groups(self) -> Sequence[Group]: ...
    async def pause_group(self, name: str) -> None: ...
    async def resume_group(self, name: str) -> None: ...
    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None: ...


class AsyncGroups:
    """Pauses and limits the groups that workers poll.

    Example::

        await client.groups.limit("gpu", max_running=2, starts_per=Rate(10, 60))
        await client.groups.pause("gpu")
    """

    def __init__(self, backend: GroupBackend) -> None:
        self._backend = backend

    async def list(self) -> Sequence[Group]:
        """Return the groups that have runs, or were once paused or limited, by name. Counts stop at 10,000."""
        return await self._backend.list_groups()

    async def pause(self, name: str) -> None:
        """Pause a group: workers claim no more of its runs. Running runs continue until they pause or end."""
        await self._backend.pause_group(check_group(name))

    async def resume(self, name: str) -> None:
        """Resume a paused group: workers claim its runs again."""
        await self._backend.resume_group(check_group(name))

    async def limit(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        """Replace the limits of a group. A limit that is not given is removed.

        Args:
            name: The group.
            max_running: The most runs running at once. Paused runs do not count.
            starts_per: The rate of starts: up to ``count`` at once, then one per ``seconds / count``.

        Raises:
            InvalidValue: A limit is not above 0.
        """
        await self._backend.limit_group(check_group(name), max_running=max_running, starts_per=starts_per)


def check_group(name: str) -> str:
    """Return a valid group name. Raises InvalidValue for others."""
    check_text("group", name)
    if not 0 < len(name) <= 256 or not name.isprintable() or name != name.strip():
        raise InvalidValue(
            "group", f"{name!r} is not 1 to 256 printable characters without spaces at the ends"
        )
    check_size("group", name)
    return name
