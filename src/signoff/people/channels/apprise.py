"""Whatever else a service is reached by: https://github.com/caronc/apprise."""

from __future__ import annotations

import apprise

from signoff.errors import InvalidValue
from signoff.people.channels.channel import Undelivered
from signoff.people.notices import Notice


class AppriseSender:
    """Sends each notice to one of apprise's services.

    Args:
        url: Such as ``ntfy://topic`` or ``msteams://...``.

    Raises:
        InvalidValue: apprise knows no such service.
    """

    is_shared = True
    is_record = False

    def __init__(self, url: str) -> None:
        self._service = apprise.Apprise()
        if not self._service.add(url):  # pyright: ignore[reportUnknownMemberType]
            raise InvalidValue("url", "apprise knows no such service, or the URL lacks something")

    def address_of(self, assignee: str) -> str | None:
        return None

    async def send(self, notice: Notice) -> None:
        parts = [f"{label}: {text}" if label else text for label, text in notice.parts]
        if notice.url is not None:
            parts.append(notice.url)
        sent = await self._service.async_notify(
            title=notice.title, body="\n\n".join(parts), body_format=apprise.NotifyFormat.TEXT
        )
        if not sent:
            raise Undelivered("the service has not taken it")

    async def close(self) -> None:
        pass
