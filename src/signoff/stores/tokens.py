"""Tokens: secrets of 256 random bits that stand for somebody or something. Only their hashes are kept.

The secret is told once, to whoever has it made. Nobody can be told it again, and it stands in no record, log, error
or audit event.
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
"""What the secrets of a kind begin with, so that people and scanners know one that lies about."""

_BYTES: Final = 32
_SECRET: Final = re.compile("[A-Za-z0-9_-]{43}")  # what 32 bytes are in urlsafe base64


def new_token(kind: TokenKind, subject: str, *, id: str | None = None, **more: Any) -> tuple[str, NewToken]:
    """Make a token.

    Args:
        kind: What it is good for.
        subject: Who or what it stands for.
        id: Its public id, if not a random one.
        more: What else ``NewToken`` has.

    Returns:
        The secret, which nobody can be told again, and what a store keeps.

    Example:
        secret, new = new_token(TokenKind.API_KEY, "service:billing", label="billing")
        token = await store.create_token(new)
    """
    secret = new_secret(kind)
    return secret, NewToken(id or uuid.uuid4().hex, kind, hash_of(secret), subject, **more)


def new_secret(kind: TokenKind) -> str:
    """Return a secret that nobody has had before."""
    return PREFIXES[kind] + secrets.token_urlsafe(_BYTES)


def hash_of(secret: str) -> str:
    """Return what is kept of a secret. It is 256 random bits, so no slower hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


async def find_token(store: Store, kind: TokenKind, secret: str) -> Token | None:
    """Return the token of a secret, open or not, of whichever namespace; None if there is none of that kind.

    What cannot be a secret of the kind is not looked for. Whoever asks has to look at the token's namespace, and at
    whether it is open.
    """
    if not secret.startswith(PREFIXES[kind]) or _SECRET.fullmatch(secret[len(PREFIXES[kind]) :]) is None:
        return None
    hash = hash_of(secret)
    token = await store.find_token(hash)
    if token is None or token.kind is not kind or not hmac.compare_digest(token.hash, hash):
        return None
    return token
