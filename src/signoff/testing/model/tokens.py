"""Tokens in the reference model: hashes of secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from signoff.errors import NotFound
from signoff.records import NewToken, Token, TokenKind
from signoff.records.paging import TokenFilter
from signoff.stores.contract.tokens import TOUCH_SECONDS
from signoff.stores.shared.equality import taken_token
from signoff.testing.model.state import State


class Tokens:
    """The tokens of all namespaces, in order of creation."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables = state.tables

    def create(self, namespace: str, new: NewToken) -> Token:
        known = self._tables.tokens.get((namespace, new.id))
        if known is not None and known.hash == new.hash:
            return known
        if known is not None or self.find(new.hash) is not None:
            raise taken_token(new)
        fields = {field: getattr(new, field) for field in NewToken.__dataclass_fields__}
        token = Token(namespace, created_at=self._state.now, **fields)
        self._tables.token_numbers[namespace, new.id] = self._state.next_number()
        self._tables.tokens[namespace, new.id] = token
        return token

    def find(self, hash: str) -> Token | None:
        return next((token for token in self._tables.tokens.values() if token.hash == hash), None)

    def has(self, kinds: Sequence[TokenKind]) -> bool:
        return any(
            token.kind in kinds and token.is_open(self._state.now) for token in self._tables.tokens.values()
        )

    def get(self, namespace: str, token_id: str) -> Token:
        if (namespace, token_id) not in self._tables.tokens:
            raise NotFound("token", token_id)
        return self._tables.tokens[namespace, token_id]

    def list_tokens(self, namespace: str, which: TokenFilter) -> list[tuple[int, Token]]:
        """Return the numbered tokens of a namespace."""
        return [
            (self._tables.token_numbers[key], token)
            for key, token in self._tables.tokens.items()
            if token.namespace == namespace
            and token.kind == which.kind
            and which.subject in (None, token.subject)
            and which.question_id in (None, token.question_id)
        ]

    def revoke(self, namespace: str, token_id: str) -> Token:
        token = self.get(namespace, token_id)
        if token.revoked_at is None:
            token = self._tables.tokens[namespace, token_id] = replace(token, revoked_at=self._state.now)
        return token

    def expire(self, namespace: str, token_id: str, at: float) -> Token:
        token = self.get(namespace, token_id)
        ends = at if token.expires_at is None else min(token.expires_at, at)
        token = self._tables.tokens[namespace, token_id] = replace(token, expires_at=ends)
        return token

    def touch(self, namespace: str, token_id: str) -> None:
        token = self._tables.tokens.get((namespace, token_id))
        now = self._state.now
        if token is not None and (token.used_at is None or token.used_at <= now - TOUCH_SECONDS):
            self._tables.tokens[namespace, token_id] = replace(token, used_at=now)

    def delete(self, namespace: str, before: float, limit: int) -> int:
        ended: list[tuple[float, str]] = []
        for (owner, token_id), token in self._tables.tokens.items():
            ends = [at for at in (token.expires_at, token.revoked_at) if at is not None]
            if owner == namespace and ends and min(ends) < before:
                ended.append((min(ends), token_id))
        ended.sort(key=lambda each: each[0])
        for _, token_id in ended[:limit]:
            del self._tables.tokens[namespace, token_id], self._tables.token_numbers[namespace, token_id]
        return min(len(ended), limit)
