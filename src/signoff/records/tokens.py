"""Tokens: stored hashes of secrets."""

from __future__ import annotations

from dataclasses import dataclass, field

from signoff.records.open_enum import OpenEnum


class TokenKind(OpenEnum):
    """Purpose of a token."""

    API_KEY = "api_key"
    WORKER_KEY = "worker_key"
    LINK = "link"
    LOGIN = "login"
    CALLBACK = "callback"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to be stored: the hash of a secret that stands for a user or a resource. See ``stores.tokens``."""

    id: str  # public and random
    kind: TokenKind
    hash: str = field(repr=False)  # hex SHA-256 of the secret
    subject: str  # the user or resource, such as user:ana
    question_id: str | None = None  # of a link: the question that it answers
    data: str | None = None  # JSON object, by kind, such as scopes
    label: str | None = None  # for people
    created_by: str | None = None
    expires_at: float | None = None  # None: never


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token: a secret that stands for a user or a resource. The secret itself is not stored."""

    namespace: str
    id: str
    kind: TokenKind
    hash: str = field(repr=False)  # empty if read over the HTTP API
    subject: str
    created_at: float
    question_id: str | None = None
    data: str | None = None  # JSON object
    label: str | None = None
    created_by: str | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None  # its last use, accurate to a minute

    def is_open(self, now: float) -> bool:
        """Whether it is valid at this time, in unix seconds: not revoked, and not expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
