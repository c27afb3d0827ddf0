"""Answer links from outside: made for a person, listed, revoked."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from signoff.people.links.answer_links import LIFETIME_SECONDS, NewLink
from signoff.records import Token
from signoff.records.paging import Page
from signoff.records.responders import Responder


class LinkBackend(Protocol):
    """What it talks to: a store in this process, or a server."""

    async def create_link(
        self, question_id: str, responder: Responder, *, lifetime_seconds: float, by: str | None = None
    ) -> NewLink: ...
    async def list_links(
        self, question_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]: ...
    async def revoke_link(self, link_id: str, *, by: str | None = None) -> Token: ...


class AsyncLinks:
    """Addresses by which one person answers one question, once, without signing in.

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
        """Make a link. Whoever has its address is taken for that person; nobody can be told it again.

        Args:
            question_id: The question.
            user_id: Who answers by it.
            groups: The groups they are in; the caller vouches for it.
            roles: The roles they have; likewise.
            lifetime_seconds: How long it is good; never longer than until the question's deadline.
            by: Who makes it.

        Raises:
            NotFound, AlreadySettled
            NotAllowed: They may not answer the question.
            InvalidValue: A name is none, or the lifetime no number of seconds above 0.
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.create_link(
            question_id, responder, lifetime_seconds=lifetime_seconds, by=by
        )

    async def list(self, question_id: str, *, after: str | None = None, limit: int = 100) -> Page[Token]:
        """List a question's links, open or not, oldest first. Raises NotFound."""
        return await self._backend.list_links(question_id, after=after, limit=limit)

    async def revoke(self, link_id: str, *, by: str | None = None) -> Token:
        """Have a link open nothing any more. Raises NotFound."""
        return await self._backend.revoke_link(link_id, by=by)
