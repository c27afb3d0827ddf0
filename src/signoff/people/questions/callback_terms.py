"""Callbacks: what comes to the address of an external question, and what a workflow says of it beforehand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic_core import to_json

from signoff.codec.strict_json import read_object
from signoff.errors import RegistrationError
from signoff.records import CallKind, Entry, EntryKind

PATH: Final = "/c"
"""Where a server takes callbacks, each under its secret."""

RETURN: Final = "return"
"""What stands for the secret in the one address for all OAuth clients: there the secret comes as ``state``."""

BY_HAND: Final = ("role:operator", "role:admin")
"""Who may answer an external question in the place of whoever should have called back."""

MOST_HEADERS: Final = 20
MOST_FIELDS: Final = 1000
LONGEST_URL: Final = 2000

FORM: Final = "application/x-www-form-urlencoded"

_METHODS: Final = ("GET", "POST")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
SECRET: Final = re.compile(r"sgc_[A-Za-z0-9_-]+")
"""The secret in a callback's address."""


@dataclass(frozen=True, slots=True)
class Callback:
    """All that came to a callback's address: what ``answer.value`` is where no ``answer_type`` was given.

    Attributes:
        method: ``GET`` or ``POST``.
        query: What followed the ``?`` of the address, as it was sent.
        headers: Those that were asked for, under the names they were asked for by.
        content_type: What the body is said to be.
        body: The body as text.
        encoding: How the bytes of the body became that text; ``latin-1`` if they are no UTF-8.

    Example::

        event = (await paid).value
        stripe.Webhook.construct_event(event.raw, event.headers["Stripe-Signature"], secret)  # in a step
    """

    method: Literal["GET", "POST"] = "POST"
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    content_type: str | None = None
    body: str = ""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"

    @property
    def raw(self) -> bytes:
        """The very bytes of the body, for signatures."""
        return self.body.encode(self.encoding)

    @property
    def params(self) -> dict[str, list[str]]:
        """The fields of the query."""
        return parse_qs(self.query, keep_blank_values=True)

    @property
    def form(self) -> dict[str, list[str]]:
        """The fields of a body that is a form; none of any other."""
        return parse_qs(self.body, keep_blank_values=True) if media_type(self.content_type) == FORM else {}

    def json(self) -> Any:
        """Return what the body says as JSON. Raises ValueError if it is none."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Terms:
    """How a callback is taken.

    Attributes:
        methods: By which it is made: ``POST``, ``GET`` or both.
        headers: Which headers are kept of it.
        then: Where a browser that has called back is sent.
        is_whole: Whether all that came is the answer, and not what the body or the query says.
    """

    methods: Sequence[str] = ("POST",)
    headers: Sequence[str] = ()
    then: str | None = None
    is_whole: bool = True

    def check(self, text: str) -> None:
        """Raise RegistrationError if they make no sense for a question."""
        what = f"callback {text!r}"
        methods = list(self.methods)
        if isinstance(self.methods, str) or not methods or not set(methods) <= set(_METHODS):
            raise RegistrationError(f"{what}: methods is a list of 'GET' and 'POST', not {self.methods!r}")
        if isinstance(self.headers, str) or len(self.headers) > MOST_HEADERS:
            raise RegistrationError(f"{what}: headers is a list of at most {MOST_HEADERS} names")
        for name in self.headers:
            if _TOKEN.fullmatch(name) is None:
                raise RegistrationError(f"{what}: {name!r} is no name of a header")
            if name.lower() == "cookie":
                raise RegistrationError(f"{what}: cookies are people's own, and are not kept")
        if self.headers and not self.is_whole:
            raise RegistrationError(
                f"{what}: headers are kept of a whole callback; drop answer_type or headers"
            )
        if self.then is not None and not _is_page(self.then):
            raise RegistrationError(
                f"{what}: then={self.then!r} is not written as https://shop.example.com/paid"
            )

    def to_data(self) -> dict[str, Any]:
        """Return them as plain data."""
        said = {
            "methods": list(dict.fromkeys(self.methods)),
            "headers": list(self.headers),
            "whole": self.is_whole,
        }
        return said if self.then is None else {**said, "then": self.then}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Terms:
        """Read what ``to_data`` returned."""
        return cls(data["methods"], data["headers"], data.get("then"), data["whole"])


def media_type(content_type: str | None) -> str:
    """Return a content type without its parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


def secret_in(url: str) -> str:
    """Return the secret in a callback's address."""
    return url.rpartition("/")[2]


def veiled(entry: Entry) -> Entry:
    """Return a journal entry as it may be shown: without the secret in a callback's address."""
    if entry.kind is not EntryKind.OPENED or entry.call is not CallKind.QUESTION:
        return entry
    if '"url"' not in (entry.details or ""):
        return entry
    details = read_object(entry.details)
    if not isinstance(details.get("url"), str):
        return replace(entry, details=None)  # no version has written it: it may have a secret anywhere
    details["url"] = SECRET.sub("***", details["url"])
    return replace(entry, details=to_json(details).decode())


def _is_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= LONGEST_URL
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)
