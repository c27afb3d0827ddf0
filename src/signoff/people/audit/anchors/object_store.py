"""An anchor in an object store: one object per checkpoint, never overwritten."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import obstore
from obstore import exceptions
from obstore.store import from_url

from signoff.errors import InvalidValue
from signoff.people.audit.anchors.anchor import AnchorUnavailable, Kept
from signoff.people.audit.anchors.checkpoint import Checkpoint, read_checkpoint

SCHEMES: Final = ("s3", "gs", "az")
LONGEST_ERROR: Final = 300  # characters
AT_ONCE: Final = 1000
MICROSECONDS: Final = 1_000_000
TIMEOUT_SECONDS: Final = 20
"""Timeout of a request, and of its retries together."""

_KEY: Final = re.compile(
    r"(?P<size>\d{19})-(?P<hash>[0-9a-f]{64})-(?P<at>-?\d{1,18})(?P<restart>-restart)?\.txt"
)

_Failed: Final = (
    exceptions.BaseError,
    OSError,
    ValueError,
)  # Python's own for what is not found, and for odd paths

LONGEST_PART: Final = 200
"""Maximum length of an origin or namespace in a key, which has up to 1,024 bytes. Longer ones are cut and hashed."""

_CUT: Final = "~"
"""Precedes the hash of a cut part. ``quote`` does not escape it, so names that contain it are hashed, too."""


class ObjectAnchor:
    """Writes each checkpoint as an object of its own, ``PREFIX/ORIGIN/NAMESPACE/SIZE-HASH-TIME.txt``.

    Existing objects are never changed. Use object lock or a retention policy of the bucket to enforce that for
    everyone. Credentials, region and endpoint come from the environment variables of the provider's tools
    (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``,
    ``AZURE_STORAGE_ACCOUNT_NAME`` ...), or from the machine's role.

    Args:
        url: ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.

    Raises:
        InvalidValue: The URL or the environment's settings are invalid.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.netloc or "@" in parts.netloc:
            raise InvalidValue("anchor", "write an object store as s3://bucket/prefix (or gs://, az://)")
        if parts.query or parts.fragment:
            raise InvalidValue("anchor", "the URL of an object store must not have a query or fragment")
        self._name = url.rstrip("/")
        try:
            self._store = from_url(
                self._name,
                client_options={
                    "timeout": timedelta(seconds=TIMEOUT_SECONDS),
                    "allow_http": True,  # for self-hosted endpoints; the providers' use https
                },
                retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=TIMEOUT_SECONDS)},
            )
        except (exceptions.BaseError, ValueError) as error:
            raise InvalidValue("anchor", f"{self._name}: {_first_line(error)}") from None

    @property
    def name(self) -> str:
        return self._name

    async def keep(self, checkpoint: Checkpoint) -> None:
        try:
            await obstore.put_async(
                self._store, _key_of(checkpoint), checkpoint.text.encode(), mode="create", use_multipart=False
            )
        except exceptions.AlreadyExistsError:
            pass  # it was stored before
        except _Failed as error:
            raise AnchorUnavailable(self._name, _first_line(error)) from None

    async def read(self, origin: str, namespace: str | None = None) -> Kept | None:
        """Return the stored checkpoints of a log, read from the names of its objects; only restarts are downloaded."""
        prefix = _part(origin) + ("" if namespace is None else f"/{_part(namespace)}")
        found: list[tuple[float, Checkpoint]] = []
        unreadable = 0
        try:
            pages = obstore.list(self._store, prefix, chunk_size=AT_ONCE)  # pyright: ignore[reportUnknownMemberType]
            async for page in pages:
                for each in page:
                    checkpoint = await self._read(origin, each["path"])
                    if checkpoint is None:
                        unreadable += 1
                    else:
                        found.append((each["last_modified"].timestamp(), checkpoint))
        except _Failed as error:
            raise AnchorUnavailable(self._name, _first_line(error)) from None
        # Some object stores have a resolution of one second. Within it the checkpoint's own time decides.
        found.sort(key=lambda each: (each[0], each[1].at))
        return Kept([checkpoint for _, checkpoint in found], unreadable)

    async def _read(self, origin: str, path: str) -> Checkpoint | None:
        parts = path.split("/")
        key = _KEY.fullmatch(parts[-1])
        if key is None or len(parts) < 3:
            return None
        if key["restart"] is None and _CUT not in parts[-2]:
            at = int(key["at"]) / MICROSECONDS
            return Checkpoint(origin, unquote(parts[-2]), int(key["size"]), key["hash"], at)
        reply = await obstore.get_async(self._store, path)
        try:
            return read_checkpoint(bytes(await reply.bytes_async()).decode())
        except (InvalidValue, UnicodeDecodeError):
            return None

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""


def _key_of(checkpoint: Checkpoint) -> str:
    at = int(checkpoint.at * MICROSECONDS)
    restart = "" if checkpoint.restart is None else "-restart"
    folder = f"{_part(checkpoint.origin)}/{_part(checkpoint.namespace)}"
    return f"{folder}/{checkpoint.size:019d}-{checkpoint.hash}-{at}{restart}.txt"


def _part(name: str) -> str:
    """Return a name as a part of a key. Object stores refuse ``.`` and ``..``."""
    part = quote(name, safe="")
    if len(part) > LONGEST_PART or _CUT in part:
        return (
            f"{part[: LONGEST_PART // 2].replace(_CUT, '_')}{_CUT}{hashlib.sha256(name.encode()).hexdigest()}"
        )
    return part.replace(".", "%2E") if part in (".", "..") else part


def _first_line(error: Any) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}..."
