"""What people have approved in their name for some time, from outside: listing and revoking it."""

from __future__ import annotations

from typing import Protocol

from signoff.records import Rule
from signoff.records.paging import Page, RuleFilter


class RuleBackend(Protocol):
    """What it talks to: a store in this process, or a server."""

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]: ...
    async def revoke_rule(self, rule_id: str, *, by: str | None, reason: str | None) -> Rule: ...


class AsyncRules:
    """Rules by their ids. One is made by approving a question: ``client.answer(id, True, alike=Alike(3600))``.

    Example::

        for rule in (await client.rules.list(user_id="ana", in_force=True)).items:
            await client.rules.revoke(rule.id, by="ana")
    """

    def __init__(self, backend: RuleBackend) -> None:
        self._backend = backend

    async def list(
        self,
        *,
        user_id: str | None = None,
        tool: str | None = None,
        in_force: bool = False,
        session_id: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Rule]:
        """List rules, oldest first.

        Args:
            user_id: Only whose maker this is.
            tool: Only about this tool.
            in_force: Only those that approve something now.
            session_id: Only those for this session; empty: only those for none.
            after: A former page's ``next``.
            limit: How many at most.
        """
        by = None if user_id is None else user_id.removeprefix("user:")
        which = RuleFilter(by, tool, in_force, session_id)
        return await self._backend.list_rules(which, after=after, limit=limit)

    async def revoke(self, rule_id: str, *, by: str | None = None, reason: str | None = None) -> Rule:
        """Have a rule approve nothing more. What it has approved stays; revoking it again changes nothing.

        Raises:
            NotFound: There is no such rule.
        """
        return await self._backend.revoke_rule(rule_id, by=by, reason=reason)
