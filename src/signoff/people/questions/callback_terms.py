"""Callbacks: the request that answers an external question, and the terms that a workflow sets for it."""

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
"""Path under which the server receives callbacks, each with its secret."""

RETURN: Final = "return"
"""Stands in for the secret in the shared redirect URL of OAuth clients, which send the secret as ``state``."""

BY_HAND: Final = ("role:operator", "role:admin")
"""Roles that may answer an external question by hand, if the callback does not arrive."""

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
    """The request received at a callback's URL: the value of ``answer.value`` if no ``answer_type`` was given.

    Attributes:
        method: ``GET`` or ``POST``.
        query: The query string, as sent.
        headers: The requested headers, spelled as requested.
        content_type: The body's content type.
        body: The body as text.
        encoding: The encoding that the body was decoded with; ``latin-1`` if it is not UTF-8.

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
        """The body's original bytes, for signature checks."""
        return self.body.encode(self.encoding)

    @property
    def params(self) -> dict[str, list[str]]:
        """The parameters of the query string."""
        return parse_qs(self.query, keep_blank_values=True)

    @property
    def form(self) -> dict[str, list[str]]:
        """The fields of a form body; empty for other bodies."""
        return parse_qs(self.body, keep_blank_values=True) if media_type(self.content_type) == FORM else {}

    def json(self) -> Any:
        """Return the body parsed as JSON. Raises ValueError if it is not JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Terms:
    """How a callback is received.

    Attributes:
        methods: Accepted methods: ``POST``, ``GET`` or both.
        headers: Headers to keep.
        then: URL to redirect a browser to after its callback.
        is_whole: Whether the answer is the whole request instead of its body or query.
    """

    methods: Sequence[str] = ("POST",)
    headers: Sequence[str] = ()
    then: str | None = None
    is_whole: bool = True

    def check(self, text: str) -> None:
        """Raise RegistrationError if the terms are invalid."""
        what = f"callback {text!r}"
        methods = list(self.methods)
        if isinstance(self.methods, str) or not methods or not set(methods) <= set(_METHODS):
            raise RegistrationError(
                f"{what}: methods must be a list of 'GET' and 'POST', not {self.methods!r}"
            )
        if isinstance(self.headers, str) or len(self.headers) > MOST_HEADERS:
            raise RegistrationError(f"{what}: headers must be a list of at most {MOST_HEADERS} names")
        for name in self.headers:
            if _TOKEN.fullmatch(name) is None:
                raise RegistrationError(f"{what}: {name!r} is not a valid header name")
            if name.lower() == "cookie":
                raise RegistrationError(f"{what}: cookies are private and are not kept")
        if self.headers and not self.is_whole:
            raise RegistrationError(f"{what}: headers are kept only without answer_type; drop one of them")
        if self.then is not None and not _is_page(self.then):
            raise RegistrationError(
                f"{what}: then={self.then!r} is not a URL such as https://shop.example.com/paid"
            )

    def to_data(self) -> dict[str, Any]:
        """Return the terms as plain data."""
        said = {
            "methods": list(dict.fromkeys(self.methods)),
            "headers": list(self.headers),
            "whole": self.is_whole,
        }
        return said if self.then is None else {**said, "then": self.then}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Terms:
        """Read the result of ``to_data``."""
        return cls(data["methods"], data["headers"], data.get("then"), data["whole"])


def media_type(content_type: str | None) -> str:
    """Return a content type without its parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


def secret_in(url: str) -> str:
    """Return the secret in a callback's URL."""
    return url.rpartition("/")[2]


def without_secret(entry: Entry) -> Entry:
    """Return a journal entry without the secret in a callback's URL."""
    if entry.kind is not EntryKind.OPENED or entry.call is not CallKind.QUESTION:
        return entry
    if '"url"' not in (entry.details or ""):
        return entry
    details = read_object(entry.details)
    if not isinstance(details.get("url"), str):
        return replace(entry, details=None)  # not a known format: the secret may be anywhere
    details["url"] = SECRET.sub("***", details["url"])
    return replace(entry, details=to_json(details).decode())


def _is_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= LONGEST_URL
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)
