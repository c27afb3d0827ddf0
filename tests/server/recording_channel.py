"""A channel's sender that records every notice."""

from __future__ import annotations

from dataclasses import dataclass, field

from signoff.people.notifications.notices import Notice


@dataclass
class RecordingChannel:
    """A channel's sender that keeps what it is given."""

    notices: list[Notice] = field(default_factory=list[Notice])
    is_shared: bool = True
    is_record: bool = True

    def address_of(self, assignee: str) -> str | None:
        return None

    async def send(self, notice: Notice) -> None:
        self.notices.append(notice)

    async def close(self) -> None:
        pass
