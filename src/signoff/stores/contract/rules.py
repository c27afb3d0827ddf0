"""What the contract of a store has for rules: what people have approved in their name for some time.

A rule is made and used by ``amend``, in the transaction that settles a question. What it approves is decided above the
store (``people/``).
"""

from __future__ import annotations

from typing import Protocol

from signoff.records import NewAuditEvent, Rule
from signoff.records.paging import Page, RuleFilter


class RuleStore(Protocol):
    """The part of ``signoff.stores.contract.store.Store`` that keeps rules."""

    async def get_rule(self, rule_id: str) -> Rule:
        """Raises NotFound."""
        ...

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        """Oldest first."""
        ...

    async def revoke_rule(self, rule_id: str, event: NewAuditEvent) -> Rule:
        """Have a rule be in force no more, and record that: ``event.by`` has revoked it.

        One that is revoked already stays as it is, and nothing is recorded.

        Returns:
            The rule as it is afterwards.

        Raises:
            NotFound: There is no such rule.
            InvalidValue: The event cannot be recorded (see ``record``).
        """
        ...
