"""Tokens in SQLite. Only their hashes are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from signoff.records import NewToken, Token, TokenKind
from signoff.records.paging import Page, TokenFilter, page_number
from signoff.stores.contract.tokens import TOUCH_SECONDS
from signoff.stores.shared.equality import taken_token
from signoff.stores.shared.listed_payloads import Listing, read_page, size_in_sqlite
from signoff.stores.shared.rows import TOKEN_COLUMNS, found, of_token, to_token
from signoff.stores.sqlite.transaction import Transaction

CREATE = f"""
INSERT INTO tokens ({TOKEN_COLUMNS}) VALUES (
    :namespace, :id, :kind, :hash, :subject, :now, :question_id, :data, :label, :created_by, :expires_at, NULL, NULL
)
ON CONFLICT DO NOTHING
RETURNING {TOKEN_COLUMNS}
"""

FIND = f"SELECT {TOKEN_COLUMNS} FROM tokens WHERE hash = ?"

HAS = """
WITH RECURSIVE named (namespace) AS (
    SELECT min(namespace) FROM tokens
    UNION ALL
    SELECT (SELECT min(namespace) FROM tokens WHERE namespace > named.namespace) FROM named
    WHERE named.namespace IS NOT NULL
)
SELECT 1 FROM named CROSS JOIN tokens INDEXED BY tokens_by_kind
    ON tokens.namespace = named.namespace AND tokens.kind = ?
WHERE tokens.ended_at IS NULL OR tokens.ended_at > ?
LIMIT 1
"""  # visits one namespace after the other, because no index starts with the kind

GET = f"SELECT {TOKEN_COLUMNS} FROM tokens WHERE namespace = ? AND id = ?"

LISTING = Listing(Token, TOKEN_COLUMNS, size_in_sqlite)

LIST = f"""
SELECT {LISTING.columns}, number FROM tokens INDEXED BY {{index}}
WHERE namespace = :namespace AND kind = :kind AND {{filter}} AND number > :after
ORDER BY number LIMIT :limit
"""

LIST_ALL = LIST.format(index="tokens_by_kind", filter="TRUE")
LIST_OF_SUBJECT = LIST.format(index="tokens_by_subject", filter="subject = :subject")
LIST_OF_QUESTION = LIST.format(
    index="tokens_by_question",
    filter="question_id = :question_id AND (:subject IS NULL OR subject = :subject)",
)

REVOKE = f"""
UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE namespace = ? AND id = ? RETURNING {TOKEN_COLUMNS}
"""

EXPIRE = f"""
UPDATE tokens SET expires_at = min(coalesce(expires_at, :at), :at) WHERE namespace = :namespace AND id = :id
RETURNING {TOKEN_COLUMNS}
"""

UNTOUCHED = """
SELECT 1 FROM tokens WHERE namespace = ? AND id = ? AND (used_at IS NULL OR used_at <= ?)
"""

TOUCH = """
UPDATE tokens SET used_at = ? WHERE namespace = ? AND id = ? AND (used_at IS NULL OR used_at <= ?)
"""

DELETE = """
DELETE FROM tokens WHERE number IN (
    SELECT number FROM tokens INDEXED BY tokens_ended
    WHERE namespace = ? AND ended_at < ? AND ended_at IS NOT NULL
    ORDER BY ended_at LIMIT ?
)
"""


def create(tx: Transaction, namespace: str, new: NewToken) -> Token:
    """Create a token, or return the one with the same id and hash. Raises IdConflict."""
    row = keep(tx, namespace, new)
    if row is None:
        row = tx.db.execute(GET, (namespace, new.id)).fetchone()
    if row is None or (token := to_token(row)).hash != new.hash:
        raise taken_token(new)
    return token


def keep(tx: Transaction, namespace: str, new: NewToken) -> Sequence[Any] | None:
    """Create a token. Returns its row; None if its id or hash already exists."""
    tx.has_new_tokens = True
    return tx.db.execute(CREATE, of_token(namespace, new, tx.now)).fetchone()


def find(db: sqlite3.Connection, hash: str) -> Token | None:
    """Return the token with this hash, from any namespace."""
    row = db.execute(FIND, (hash,)).fetchone()
    return None if row is None else to_token(row)


def has(db: sqlite3.Connection, kinds: Sequence[TokenKind], now: float) -> bool:
    """Return whether any namespace has a valid token of these kinds."""
    return any(db.execute(HAS, (kind.value, now)).fetchone() is not None for kind in kinds)


def get(db: sqlite3.Connection, namespace: str, token_id: str) -> Token:
    """Return a token. Raises NotFound."""
    return found("token", token_id, db.execute(GET, (namespace, token_id)).fetchone(), to_token)


def list_tokens(
    db: sqlite3.Connection, namespace: str, which: TokenFilter, after: str | None, limit: int
) -> Page[Token]:
    """Return a page of tokens in creation order."""
    statement = LIST_ALL
    if which.question_id is not None:
        statement = LIST_OF_QUESTION
    elif which.subject is not None:
        statement = LIST_OF_SUBJECT
    values: dict[str, Any] = {
        "namespace": namespace,
        "kind": which.kind.value,
        "subject": which.subject,
        "question_id": which.question_id,
        "after": page_number(after, 0),
        "limit": limit + 1,
    }
    rows, more = read_page(db.execute(statement, values), limit, LISTING.bytes_of)
    return LISTING.page(rows, more, to_token)


def revoke(tx: Transaction, namespace: str, token_id: str) -> Token:
    """Revoke a token. Raises NotFound."""
    return found("token", token_id, tx.db.execute(REVOKE, (tx.now, namespace, token_id)).fetchone(), to_token)


def expire(tx: Transaction, namespace: str, token_id: str, at: float) -> Token:
    """Let a token expire at ``at``, or at its present expiry if that is earlier. Raises NotFound."""
    values = {"namespace": namespace, "id": token_id, "at": at}
    return found("token", token_id, tx.db.execute(EXPIRE, values).fetchone(), to_token)


def is_untouched(db: sqlite3.Connection, namespace: str, token_id: str, now: float) -> bool:
    """Whether the use of a token should be recorded now."""
    return db.execute(UNTOUCHED, (namespace, token_id, now - TOUCH_SECONDS)).fetchone() is not None


def touch(tx: Transaction, namespace: str, token_id: str) -> None:
    """Record that a token was used now, unless a use was recorded shortly before."""
    tx.db.execute(TOUCH, (tx.now, namespace, token_id, tx.now - TOUCH_SECONDS))


def delete(tx: Transaction, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` tokens that were revoked or expired before ``before``. Returns how many."""
    return tx.db.execute(DELETE, (namespace, before, limit)).rowcount
