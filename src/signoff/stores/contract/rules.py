"""The operations on rules: standing approvals.

``amend`` creates and uses a rule in the transaction that settles a question. What a rule approves is decided above the
store (``people/``).
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from signoff.records import NewAuditEvent, Rule
from signoff.records.paging import Page, RuleFilter
from signoff.stores.contract.operations import reads, writes


class RuleStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps rules."""

    @reads
    async def get_rule(self, rule_id: str) -> Rule:
        """Raises NotFound."""

    @reads
    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        """List rules, oldest first."""

    @writes(lane="rule")
    async def revoke_rule(self, rule_id: str, event: NewAuditEvent) -> Rule:
        """Revoke a rule in the name of ``event.by``, and record the event.

        A rule that is already revoked stays as it is, and nothing is recorded.

        Returns:
            The rule as it is afterwards.

        Raises:
            NotFound: There is no such rule.
            InvalidValue: The event cannot be recorded (see ``record``).
        """
