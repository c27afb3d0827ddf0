"""The operations on tokens: secrets that give access, identified by their hashes.

What a token gives access to is decided above the store. A store never receives, keeps or returns a secret.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import NewPromise, NewToken, Token, TokenKind
from signoff.records.paging import Page, TokenFilter
from signoff.stores.contract.operations import reads, writes

TOUCH_SECONDS: Final = 60.0
"""The shortest time between two records of a token's use."""


CALLBACK: Final = "signoff:callback"
"""The subject of a callback's token. No user has this name."""


def callback_token(new: NewPromise) -> NewToken | None:
    """Return the token that a store creates with a question that a callback answers; None for other promises.

    It is created in the same transaction as the question, and deleted with it.
    """
    if new.callback is None:
        return None
    id = new.callback[:32]  # a part of the hash, which does not reveal the secret
    return NewToken(id, TokenKind.CALLBACK, new.callback, CALLBACK, question_id=new.id)


class TokenStore:
    """The part of ``stores.contract.store.Store`` that keeps tokens. Questions create and delete those of callbacks."""

    @writes(lane="token")
    async def create_token(self, new: NewToken) -> Token:
        """Create a token, or return the existing one with its id and hash.

        Returns:
            The token as it is.

        Raises:
            IdConflict: A token with another hash has the id, or another token of any namespace has the hash.
            InvalidValue: The hash is not valid, the data are not the JSON of an object, or a text cannot be kept.
        """

    @reads
    async def find_token(self, hash: str) -> Token | None:
        """Return the token with this hash, of any namespace, open or not; None if there is none.

        It searches the whole database: the holder of a secret need not know its namespace. The caller must check the
        token's namespace and kind, and whether it is open.
        """

    @reads
    async def has_token(self, kinds: Sequence[TokenKind]) -> bool:
        """Return whether any namespace has an open token of these kinds. It searches the whole database.

        Args:
            kinds: Kinds with few tokens: keys.
        """

    @reads
    async def get_token(self, token_id: str) -> Token:
        """Raises NotFound."""

    @reads
    async def list_tokens(
        self, which: TokenFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        """List tokens of a kind, open or not, oldest first. ``after`` is the ``next`` of the previous page."""

    @writes(lane="token")
    async def revoke_token(self, token_id: str) -> Token:
        """Revoke a token: it gives no access from then on. A revoked one stays as it is.

        Raises:
            NotFound: There is no such token.
        """

    @writes(lane="token")
    async def expire_token(self, token_id: str, at: float) -> Token:
        """Let a token expire at a time, in unix seconds. One that expires earlier stays as it is.

        Raises:
            NotFound: There is no such token.
        """

    @writes(lane="token")
    async def touch_token(self, token_id: str) -> None:
        """Record that a token is used now, unless a use was recorded less than ``TOUCH_SECONDS`` ago."""

    @writes()
    async def delete_tokens(self, before: float, limit: int) -> int:
        """Delete tokens that expired or were revoked before a time, earliest first.

        Returns:
            The number of deleted tokens. If it equals ``limit``, there may be more.
        """
