"""Client operations on answer links: create, list and revoke them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from signoff.people.links.answer_links import LIFETIME_SECONDS, NewLink
from signoff.records import Token
from signoff.records.paging import Page
from signoff.records.responders import Responder


class LinkBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def create_link(
        self, question_id: str, responder: Responder, *, lifetime_seconds: float, by: str | None = None
    ) -> NewLink: ...
    async def list_links(
        self, question_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]: ...
    async def revoke_link(self, link_id: str, *, by: str | None = None) -> Token: ...


class AsyncLinks:
    """Manages answer links: addresses with which one user answers one question once, without signing in.

    Example::

        link = await client.links.create(question.id, user_id="ana")
        send(to="ana@example.com", text=link.at("https://signoff.example.com"))
    """

    def __init__(self, backend: LinkBackend) -> None:
        self._backend = backend

    async def create(
        self,
        question_id: str,
        *,
        user_id: str,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        lifetime_seconds: float = LIFETIME_SECONDS,
        by: str | None = None,
    ) -> NewLink:
        """Create a link. Anyone with its address can answer as this user. The address is returned this once.

        Args:
            question_id: The question.
            user_id: The user who answers with it.
            groups: The user's groups, which the caller vouches for.
            roles: The user's roles, likewise.
            lifetime_seconds: How long it is valid, at most until the question's deadline.
            by: The user who creates it.

        Raises:
            NotFound, AlreadySettled
            NotAllowed: The user may not answer the question.
            InvalidValue: A name is not valid, or the lifetime is not above 0.
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.create_link(
            question_id, responder, lifetime_seconds=lifetime_seconds, by=by
        )

    async def list(self, question_id: str, *, after: str | None = None, limit: int = 100) -> Page[Token]:
        """List a question's links, oldest first, ended ones included. Raises NotFound."""
        return await self._backend.list_links(question_id, after=after, limit=limit)

    async def revoke(self, link_id: str, *, by: str | None = None) -> Token:
        """Revoke a link. Raises NotFound."""
        return await self._backend.revoke_link(link_id, by=by)
