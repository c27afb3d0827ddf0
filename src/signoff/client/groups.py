"""Pausing and limiting the groups that workers poll, from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from signoff.errors import InvalidValue
from signoff.records import Group, Rate
from signoff.records.names import check_size, check_text


class GroupBackend(Protocol):
    """What it talks to: a store in this process, or a server."""

    async def list_groups(self) -> Sequence[Group]: ...
    async def pause_group(self, name: str) -> None: ...
    async def resume_group(self, name: str) -> None: ...
    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None: ...


class AsyncGroups:
    """Groups by their names.

    Example::

        await client.groups.limit("gpu", max_running=2, starts_per=Rate(10, 60))
        await client.groups.pause("gpu")
    """

    def __init__(self, backend: GroupBackend) -> None:
        self._backend = backend

    async def list(self) -> Sequence[Group]:
        """Return the groups that have runs, or were ever paused or limited, by name. Counts stop at 10,000."""
        return await self._backend.list_groups()

    async def pause(self, name: str) -> None:
        """Have no more runs of a group taken by workers. What is running goes on until it pauses or ends."""
        await self._backend.pause_group(check_group(name))

    async def resume(self, name: str) -> None:
        """Have runs of a paused group taken again."""
        await self._backend.resume_group(check_group(name))

    async def limit(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        """Replace the limits of a group; what is not given is without limit.

        Args:
            name: The group.
            max_running: How many of its runs may be running at once. A paused run does not count.
            starts_per: How often runs may start: so many at once, and then one each ``seconds / count``.

        Raises:
            InvalidValue: A limit is not above 0.
        """
        await self._backend.limit_group(check_group(name), max_running=max_running, starts_per=starts_per)


def check_group(name: str) -> str:
    """Return a group's name if it can be one. Raises InvalidValue."""
    check_text("group", name)
    if not 0 < len(name) <= 256 or not name.isprintable() or name != name.strip():
        raise InvalidValue(
            "group", f"{name!r} is not 1 to 256 printable characters without spaces at the ends"
        )
    check_size("group", name)
    return name
