"""Attachments of a question: files elsewhere, by URL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, AnyHttpUrl, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from signoff.errors import RegistrationError


def _address(text: str) -> str:
    """Return the URL in normal form. Raises PydanticCustomError."""
    try:
        url = _urls().validate_python(text)
    except ValidationError as error:
        raise PydanticCustomError("address", "{why}", {"why": error.errors()[0]["msg"]}) from None
    if url.username is not None or url.password is not None:
        raise PydanticCustomError("address", "People would be shown the user name or password in it")
    return str(url)


def is_web(address: object) -> bool:
    """Whether a page or message may link to an address: ``javascript:`` and ``data:`` would run in the page itself."""
    if not isinstance(address, str):
        return False
    try:
        _address(address)
    except PydanticCustomError:
        return False
    return True


@with_config(ConfigDict(extra="forbid"))
class Attachment(TypedDict):
    """A file to look at, by URL.

    Attributes:
        name: Its name.
        url: An ``http`` or ``https`` URL without user name and password. Signoff does not fetch it.
        media_type: Its media type, such as ``application/pdf``.
    """

    name: Annotated[str, Field(min_length=1)]
    url: Annotated[str, AfterValidator(_address)]
    media_type: NotRequired[Annotated[str, Field(pattern=r"^[\w.+-]+/[\w.+-]+$")]]


def check_attachments(text: str, attachments: Sequence[Attachment]) -> list[Attachment]:
    """Return attachments with their URLs in normal form.

    Args:
        text: The question's text, for error messages.
        attachments: The attachments given by the workflow.

    Raises:
        RegistrationError: One of them is invalid.
    """
    try:
        return _attachments().validate_python(list(attachments))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise RegistrationError(f"question {text!r}: attachments{where}: {first['msg']}") from None


@cache
def _attachments() -> TypeAdapter[list[Attachment]]:
    return TypeAdapter(list[Attachment])


@cache
def _urls() -> TypeAdapter[Any]:
    return TypeAdapter(AnyHttpUrl)
