"""Reads keys from basic authentication, the only kind that SDKs of the protocol of 2024 know."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

_HEADER: Final = b"authorization"


def with_bearer(scope: Scope) -> Scope:
    """Return a request with its basic authentication as a bearer token: the password is the key."""
    sent = Headers(scope=scope).getlist("authorization")
    scheme, _, text = (sent[0] if len(sent) == 1 else "").partition(" ")
    if scheme.lower() != "basic":
        return scope
    try:
        _, _, key = base64.b64decode(text, validate=True).partition(b":")
    except binascii.Error:
        key = b"not base64"  # a wrong key, rather than none
    others = [(name, value) for name, value in scope["headers"] if name != _HEADER]
    return {**scope, "headers": [*others, (_HEADER, b"Bearer " + key)] if key else others}
