"""Tokens: secrets of 256 random bits that represent a user, a service or a permission. Only their hashes are stored.

A secret is returned once, at creation. It cannot be recovered later, and is in no record, log, error or audit event.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Mapping
from typing import Any, Final

from signoff.records import NewToken, Token, TokenKind
from signoff.stores.contract.store import Store

PREFIXES: Final[Mapping[TokenKind, str]] = {
    TokenKind.API_KEY: "sgk_",
    TokenKind.WORKER_KEY: "sgw_",
    TokenKind.LINK: "sgl_",
    TokenKind.LOGIN: "sgs_",
    TokenKind.CALLBACK: "sgc_",
    TokenKind.RESUME: "sgr_",
}
"""Prefixes of the secrets of a kind, so that people and secret scanners recognize them."""

_BYTES: Final = 32
_SECRET: Final = re.compile("[A-Za-z0-9_-]{43}")  # 32 bytes in urlsafe base64


def new_token(kind: TokenKind, subject: str, *, id: str | None = None, **more: Any) -> tuple[str, NewToken]:
    """Create a token.

    Args:
        kind: Its kind.
        subject: The user or service that it represents.
        id: Its public id; None: a random one.
        more: Further fields of ``NewToken``.

    Returns:
        The secret, which cannot be recovered later, and the record to store.

    Example:
        secret, new = new_token(TokenKind.API_KEY, "service:billing", label="billing")
        token = await store.create_token(new)
    """
    secret = new_secret(kind)
    return secret, NewToken(id or uuid.uuid4().hex, kind, hash_of(secret), subject, **more)


def new_secret(kind: TokenKind) -> str:
    """Return a new random secret."""
    return PREFIXES[kind] + secrets.token_urlsafe(_BYTES)


def hash_of(secret: str) -> str:
    """Return the stored hash of a secret. Its 256 random bits need no slower hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


async def find_token(store: Store, kind: TokenKind, secret: str) -> Token | None:
    """Return the token of a secret, open or not, from any namespace; None if there is none of that kind.

    Malformed secrets are not looked up. The caller has to check the token's namespace, and whether it is open.
    """
    if not secret.startswith(PREFIXES[kind]) or _SECRET.fullmatch(secret[len(PREFIXES[kind]) :]) is None:
        return None
    hash = hash_of(secret)
    token = await store.find_token(hash)
    if token is None or token.kind is not kind or not hmac.compare_digest(token.hash, hash):
        return None
    return token
