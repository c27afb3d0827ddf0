"""Reads anchors from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from signoff.errors import InvalidValue
from signoff.people.audit.anchors.anchor import Anchor
from signoff.people.audit.anchors.checkpoint import ORIGIN, check_origin
from signoff.people.audit.anchors.file import FileAnchor
from signoff.runtime.clock import Clock, SystemClock

ANCHORS: Final = "SIGNOFF_AUDIT_ANCHORS"
NAME: Final = "SIGNOFF_AUDIT_ORIGIN"
SECRETS: Final = "SIGNOFF_AUDIT_ANCHOR_SECRETS"


@dataclass(frozen=True, slots=True)
class Anchors:
    """The anchors of the audit trail, and the name of the log in them."""

    anchors: tuple[Anchor, ...] = ()
    origin: str = ORIGIN

    async def close(self) -> None:
        """Close the anchors."""
        for anchor in self.anchors:
            await anchor.close()


def anchors_of(environ: Mapping[str, str] = os.environ, clock: Clock | None = None) -> Anchors:
    """Return the anchors configured in the environment.

    Args:
        environ: ``SIGNOFF_AUDIT_ANCHORS`` has URLs, separated by spaces: ``file:///var/log/signoff/audit.anchor``,
            ``https://...`` or ``s3://bucket/prefix``. ``SIGNOFF_AUDIT_ORIGIN`` is the name of the log.
            ``SIGNOFF_AUDIT_ANCHOR_SECRETS`` sign requests to ``https://``, like those of a channel.
        clock: The clock for the time of signatures.

    Raises:
        InvalidValue: A setting is invalid. The message contains no secret.
    """
    urls = environ.get(ANCHORS, "").split()
    try:
        origin = check_origin(environ.get(NAME) or ORIGIN)
        secrets = environ.get(SECRETS, "").split()
        anchors = tuple(_anchor_at(url, secrets, clock or SystemClock()) for url in dict.fromkeys(urls))
    except InvalidValue as error:
        raise InvalidValue(
            {"origin": NAME, "secrets": SECRETS}.get(error.path, ANCHORS), error.reason
        ) from None
    return Anchors(anchors, origin)


def _anchor_at(url: str, secrets: list[str], clock: Clock) -> Anchor:
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise InvalidValue("anchor", "write a file as file:///absolute/path")
        return FileAnchor(Path(unquote(parts.path)))
    if parts.scheme in ("http", "https"):
        try:
            from signoff.people.audit.anchors.webhook import (
                WebhookAnchor,  # brings httpx, which takes a while
            )

            return WebhookAnchor(url, secrets, clock)
        except ModuleNotFoundError as missing:
            raise InvalidValue(
                "anchor", f"a webhook needs {missing.name}: pip install 'signoff[notifications]'"
            ) from None
    if parts.scheme in ("s3", "gs", "az"):
        try:
            from signoff.people.audit.anchors.object_store import ObjectAnchor

            return ObjectAnchor(url)
        except ModuleNotFoundError as missing:
            raise InvalidValue(
                "anchor", f"an object store needs {missing.name}: pip install 'signoff[objects]'"
            ) from None
    raise InvalidValue(
        "anchor",
        "an anchor is file:///absolute/path, https://..., or an object store such as s3://bucket/prefix",
    )
