"""Client operations on rules (standing approvals): list and revoke them."""

from __future__ import annotations

from typing import Protocol

from signoff.records import Rule
from signoff.records.paging import Page, RuleFilter


class RuleBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]: ...
    async def revoke_rule(self, rule_id: str, *, by: str | None, reason: str | None) -> Rule: ...


class AsyncRules:
    """Lists and revokes rules. A rule is created with an approval: ``client.answer(id, True, alike=Alike(3600))``.

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
            user_id: Only rules that this user created.
            tool: Only rules about this tool.
            in_force: Only rules that are in force now.
            session_id: Only rules for this session; empty: only rules without a session.
            after: The ``next`` of the previous page.
            limit: The most to return.
        """
        by = None if user_id is None else user_id.removeprefix("user:")
        which = RuleFilter(by, tool, in_force, session_id)
        return await self._backend.list_rules(which, after=after, limit=limit)

    async def revoke(self, rule_id: str, *, by: str | None = None, reason: str | None = None) -> Rule:
        """Revoke a rule. Questions that it has approved stay approved. A repeated call has no effect.

        Raises:
            NotFound: There is no such rule.
        """
        return await self._backend.revoke_rule(rule_id, by=by, reason=reason)
