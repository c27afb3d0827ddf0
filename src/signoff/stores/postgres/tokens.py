"""Tokens in Postgres, on reader connections. Only their hashes are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, cast

from signoff.records import NewToken, Token, TokenKind
from signoff.records.paging import Page, TokenFilter, page_number
from signoff.stores.contract.tokens import TOUCH_SECONDS
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.shared.equality import taken_token
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page
from signoff.stores.shared.rows import TOKEN_COLUMNS, found, of_token, to_token

NOW = "coalesce(%(now)s::double precision, extract(epoch FROM clock_timestamp())::double precision)"

CREATE = f"""
INSERT INTO signoff.tokens ({TOKEN_COLUMNS})
VALUES (
    %(namespace)s, %(id)s, %(kind)s, %(hash)s, %(subject)s, {NOW}, %(question_id)s, %(data)s, %(label)s,
    %(created_by)s, %(expires_at)s, NULL, NULL
)
ON CONFLICT DO NOTHING
RETURNING {TOKEN_COLUMNS}
"""

FIND = f"SELECT {TOKEN_COLUMNS} FROM signoff.tokens WHERE hash = %s"

HAS = f"""
SELECT 1 FROM signoff.tokens
WHERE kind || '' = ANY(%(kinds)s) AND (ended_at IS NULL OR ended_at > {NOW})
LIMIT 1
"""

GET = f"SELECT {TOKEN_COLUMNS} FROM signoff.tokens WHERE namespace = %s AND id = %s"

LISTING = Listing(Token, TOKEN_COLUMNS, size_in_postgres)

LIST = within_page(
    f"SELECT {LISTING.columns}, number FROM signoff.list_tokens(%s, %s, %s, %s, %s, %s)", "number"
)

REVOKE = f"""
UPDATE signoff.tokens SET revoked_at = coalesce(revoked_at, {NOW})
WHERE namespace = %(namespace)s AND id = %(id)s
RETURNING {TOKEN_COLUMNS}
"""

EXPIRE = f"""
UPDATE signoff.tokens SET expires_at = least(expires_at, %s) WHERE namespace = %s AND id = %s RETURNING {TOKEN_COLUMNS}
"""

TOUCH = f"""
UPDATE signoff.tokens SET used_at = {NOW}
WHERE namespace = %(namespace)s AND id = %(id)s AND (used_at IS NULL OR used_at <= {NOW} - %(seconds)s)
"""

DELETE = "SELECT signoff.delete_tokens(%s, %s, %s)"


def create(db: Connection, namespace: str, new: NewToken, now: float | None) -> Token:
    """Create a token, or return the one with the same id and hash. Raises IdConflict."""
    row = db.execute(CREATE, of_token(namespace, new, now)).fetchone()
    if row is None:
        row = db.execute(GET, (namespace, new.id)).fetchone()
    if row is None or (token := to_token(row)).hash != new.hash:
        raise taken_token(new)
    return token


def find(db: Connection, hash: str) -> Token | None:
    """Return the token with this hash, from any namespace."""
    row = db.execute(FIND, (hash,)).fetchone()
    return None if row is None else to_token(row)


def has(db: Connection, kinds: Sequence[TokenKind], now: float | None) -> bool:
    """Return whether any namespace has a valid token of these kinds."""
    return db.execute(HAS, {"kinds": [kind.value for kind in kinds], "now": now}).fetchone() is not None


def get(db: Connection, namespace: str, token_id: str) -> Token:
    """Return a token. Raises NotFound."""
    return found("token", token_id, db.execute(GET, (namespace, token_id)).fetchone(), to_token)


def list_tokens(
    db: Connection, namespace: str, which: TokenFilter, after: str | None, limit: int
) -> Page[Token]:
    """Return a page of tokens in creation order."""
    begin = page_number(after, 0)
    values = (namespace, which.kind.value, which.subject, which.question_id, begin, checked(limit) + 1)
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    return LISTING.page(rows, more, to_token)


def revoke(db: Connection, namespace: str, token_id: str, now: float | None) -> Token:
    """Revoke a token. Raises NotFound."""
    row = db.execute(REVOKE, {"namespace": namespace, "id": token_id, "now": now}).fetchone()
    return found("token", token_id, row, to_token)


def expire(db: Connection, namespace: str, token_id: str, at: float) -> Token:
    """Let a token expire at ``at``, or at its present expiry if that is earlier. Raises NotFound."""
    return found("token", token_id, db.execute(EXPIRE, (at, namespace, token_id)).fetchone(), to_token)


def touch(db: Connection, namespace: str, token_id: str, now: float | None) -> None:
    """Record that a token was used now, unless a use was recorded shortly before."""
    values = {"namespace": namespace, "id": token_id, "now": now, "seconds": TOUCH_SECONDS}
    db.execute(TOUCH, values)


def delete(db: Connection, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` tokens that were revoked or expired before ``before``. Returns how many."""
    row = db.execute(DELETE, (namespace, before, checked(limit))).fetchone()
    return 0 if row is None else row[0]
