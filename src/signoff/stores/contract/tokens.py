"""What the contract of a store has for tokens: secrets that stand for somebody or something, known by their hashes.

What a token opens is decided above the store. No secret is ever told to a store, nor does one keep or say it.
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
"""How often it is written down that a token was used."""


CALLBACK: Final = "signoff:callback"
"""Whom a callback's token stands for: whoever calls back. No person is called so."""


def callback_token(new: NewPromise) -> NewToken | None:
    """Return the token that a store keeps with a new question that is answered from elsewhere; None for others.

    It is there from the same transaction on as the question, and is deleted with it.
    """
    if new.callback is None:
        return None
    id = new.callback[:32]  # of a hash: it tells nothing of the secret
    return NewToken(id, TokenKind.CALLBACK, new.callback, CALLBACK, question_id=new.id)


class TokenStore:
    """The part of ``stores.contract.store.Store`` that keeps tokens. Those of callbacks come and go with questions."""

    @writes(lane="token")
    async def create_token(self, new: NewToken) -> Token:
        """Keep a token, or find the one that has its id and its hash.

        Returns:
            The token as it is.

        Raises:
            IdConflict: The id is taken by a token with another hash, or the hash by another token of any namespace.
            InvalidValue: Its hash is none, its data are not the JSON of an object, or a text cannot be kept.
        """

    @reads
    async def find_token(self, hash: str) -> Token | None:
        """Return the token with this hash, of whichever namespace, open or not; None if there is none.

        It serves the whole database: who holds a secret need not know its namespace. Whoever asks has to look at the
        token's namespace and kind, and at whether it is open.
        """

    @reads
    async def has_token(self, kinds: Sequence[TokenKind]) -> bool:
        """Return whether any namespace has a token of these kinds that is open. It serves the whole database.

        Args:
            kinds: Those of which there are few: keys.
        """

    @reads
    async def get_token(self, token_id: str) -> Token:
        """Raises NotFound."""

    @reads
    async def list_tokens(
        self, which: TokenFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        """Tokens of a kind, open or not, oldest first. ``after`` is a former page's ``next``."""

    @writes(lane="token")
    async def revoke_token(self, token_id: str) -> Token:
        """Have a token open nothing any more. One that is revoked stays as it is.

        Raises:
            NotFound: There is no such token.
        """

    @writes(lane="token")
    async def expire_token(self, token_id: str, at: float) -> Token:
        """Have a token expire at a time, in unix seconds. One that expires before stays as it is.

        Raises:
            NotFound: There is no such token.
        """

    @writes(lane="token")
    async def touch_token(self, token_id: str) -> None:
        """Note that a token is used now, unless that was noted less than ``TOUCH_SECONDS`` ago, or it is gone."""

    @writes()
    async def delete_tokens(self, before: float, limit: int) -> int:
        """Delete tokens that expired or were revoked before that time, the earliest first.

        Returns:
            How many were deleted; ``limit`` means that there may be more.
        """
