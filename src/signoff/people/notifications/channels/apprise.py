"""Sends notices through apprise, to any of the services it supports: https://github.com/caronc/apprise."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import apprise

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.channel import Undelivered
from signoff.people.notifications.channels.silenced_logging import silenced
from signoff.people.notifications.notices import Notice


class AppriseSender:
    """Sends each notice to one apprise service.

    Args:
        url: The service's URL, such as ``ntfy://topic`` or ``msteams://...``.

    Raises:
        InvalidValue: apprise does not support the URL.
    """

    is_shared = True
    is_record = False
    is_mailbox = False

    def __init__(self, url: str) -> None:
        self._service = apprise.Apprise()
        with silenced():
            is_known = self._service.add(url)  # pyright: ignore[reportUnknownMemberType]
        if not is_known:
            raise InvalidValue("url", "apprise does not know the service, or the URL is incomplete")

    def address_of(self, assignee: str) -> str | None:
        return None

    async def send(self, notice: Notice) -> None:
        parts = [f"{label}: {text}" if label else text for label, text in notice.parts]
        if notice.url is not None:
            parts.append(notice.url)
        notify = cast("Any", self._service).notify
        with silenced():
            sent = await asyncio.to_thread(  # unlike apprise's own threads, it inherits ``silenced``
                notify,
                title=notice.title,
                body="\n\n".join(parts),
                body_format=apprise.NotifyFormat.TEXT,
            )
        if not sent:
            raise Undelivered("the service did not accept it")

    async def close(self) -> None:
        pass
