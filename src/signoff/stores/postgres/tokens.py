"""Tokens in Postgres, on reader connections. Only their hashes are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString, cast

from signoff.errors import NotFound
from signoff.records import NewToken, Token, TokenKind
from signoff.records.paging import Page, TokenFilter, page_number
from signoff.stores.contract.tokens import TOUCH_SECONDS
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.shared.equality import taken_token
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page

COLUMNS = """namespace, id, kind, hash, subject, created_at, question_id, data, label, created_by, expires_at,
    revoked_at, used_at"""

NOW = "coalesce(%(now)s::double precision, extract(epoch FROM clock_timestamp())::double precision)"

CREATE = f"""
INSERT INTO signoff.tokens ({COLUMNS})
VALUES (
    %(namespace)s, %(id)s, %(kind)s, %(hash)s, %(subject)s, {NOW}, %(question_id)s, %(data)s, %(label)s,
    %(created_by)s, %(expires_at)s, NULL, NULL
)
ON CONFLICT DO NOTHING
RETURNING {COLUMNS}
"""

FIND = f"SELECT {COLUMNS} FROM signoff.tokens WHERE hash = %s"

HAS = f"""
SELECT 1 FROM signoff.tokens
WHERE kind || '' = ANY(%(kinds)s) AND (ended_at IS NULL OR ended_at > {NOW})
LIMIT 1
"""

GET = f"SELECT {COLUMNS} FROM signoff.tokens WHERE namespace = %s AND id = %s"

LISTING = Listing(Token, COLUMNS, size_in_postgres)

LIST = within_page(
    f"SELECT {LISTING.columns}, number FROM signoff.list_tokens(%s, %s, %s, %s, %s, %s)", "number"
)

REVOKE = f"""
UPDATE signoff.tokens SET revoked_at = coalesce(revoked_at, {NOW})
WHERE namespace = %(namespace)s AND id = %(id)s
RETURNING {COLUMNS}
"""

EXPIRE = f"""
UPDATE signoff.tokens SET expires_at = least(expires_at, %s) WHERE namespace = %s AND id = %s RETURNING {COLUMNS}
"""

TOUCH = f"""
UPDATE signoff.tokens SET used_at = {NOW}
WHERE namespace = %(namespace)s AND id = %(id)s AND (used_at IS NULL OR used_at <= {NOW} - %(seconds)s)
"""

DELETE = "SELECT signoff.delete_tokens(%s, %s, %s)"


def create(db: Connection, namespace: str, new: NewToken, now: float | None) -> Token:
    """Create a token, or return the one with the same id and hash. Raises IdConflict."""
    values = {
        "namespace": namespace,
        "id": new.id,
        "kind": new.kind.value,
        "hash": new.hash,
        "subject": new.subject,
        "question_id": new.question_id,
        "data": new.data,
        "label": new.label,
        "created_by": new.created_by,
        "expires_at": new.expires_at,
        "now": now,
    }
    row = db.execute(CREATE, values).fetchone()
    if row is None:
        row = db.execute(GET, (namespace, new.id)).fetchone()
    if row is None or (token := _token(row)).hash != new.hash:
        raise taken_token(new)
    return token


def find(db: Connection, hash: str) -> Token | None:
    """Return the token with this hash, from any namespace."""
    row = db.execute(FIND, (hash,)).fetchone()
    return None if row is None else _token(row)


def has(db: Connection, kinds: Sequence[TokenKind], now: float | None) -> bool:
    """Return whether any namespace has a valid token of these kinds."""
    return db.execute(HAS, {"kinds": [kind.value for kind in kinds], "now": now}).fetchone() is not None


def get(db: Connection, namespace: str, token_id: str) -> Token:
    """Return a token. Raises NotFound."""
    return _found(token_id, db.execute(GET, (namespace, token_id)).fetchone())


def list_tokens(
    db: Connection, namespace: str, which: TokenFilter, after: str | None, limit: int
) -> Page[Token]:
    """Return a page of tokens in creation order."""
    begin = page_number(after, 0)
    values = (namespace, which.kind.value, which.subject, which.question_id, begin, checked(limit) + 1)
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    return Page(
        tuple(LISTING.read(row, _token) for row in rows), str(rows[-1][-1]) if more and rows else None
    )


def revoke(db: Connection, namespace: str, token_id: str, now: float | None) -> Token:
    """Revoke a token. Raises NotFound."""
    row = db.execute(REVOKE, {"namespace": namespace, "id": token_id, "now": now}).fetchone()
    return _found(token_id, row)


def expire(db: Connection, namespace: str, token_id: str, at: float) -> Token:
    """Let a token expire at ``at``, or at its present expiry if that is earlier. Raises NotFound."""
    return _found(token_id, db.execute(EXPIRE, (at, namespace, token_id)).fetchone())


def touch(db: Connection, namespace: str, token_id: str, now: float | None) -> None:
    """Record that a token was used now, unless a use was recorded shortly before."""
    values = {"namespace": namespace, "id": token_id, "now": now, "seconds": TOUCH_SECONDS}
    db.execute(TOUCH, values)


def delete(db: Connection, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` tokens that were revoked or expired before ``before``. Returns how many."""
    row = db.execute(DELETE, (namespace, before, checked(limit))).fetchone()
    return 0 if row is None else row[0]


def _token(row: Sequence[Any]) -> Token:
    namespace, id, kind, *rest = row
    return Token(namespace, id, TokenKind(kind), *rest)


def _found(token_id: str, row: Sequence[Any] | None) -> Token:
    if row is None:
        raise NotFound("token", token_id)
    return _token(row)
