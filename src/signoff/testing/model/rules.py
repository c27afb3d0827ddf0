"""Rules in the reference model: created and used by amendments, and revoked."""

from __future__ import annotations

from dataclasses import asdict, replace

from signoff.errors import NotFound
from signoff.records import Amendment, NewAuditEvent, Rule
from signoff.records.paging import RuleFilter
from signoff.testing.model.audit import Audit
from signoff.testing.model.state import State


class Rules:
    """The rules, in order of creation."""

    def __init__(self, state: State, audit: Audit) -> None:
        self._state = state
        self._tables = state.tables
        self._audit = audit

    def allow(self, namespace: str, amendment: Amendment) -> bool:
        """Return whether an amendment may create and use its rules."""
        if amendment.rule is not None and (namespace, amendment.rule.id) in self._tables.rules:
            return False
        if amendment.by_rule is None:
            return True
        used = self._tables.rules.get((namespace, amendment.by_rule))
        return used is not None and used.is_in_force(self._state.now)

    def note(self, namespace: str, amendment: Amendment) -> None:
        """Create and use the rules of an amendment."""
        new = amendment.rule
        if new is not None:
            self._tables.rules[namespace, new.id] = Rule(namespace, created_at=self._state.now, **asdict(new))
        if amendment.by_rule is not None:
            used = self._tables.rules[namespace, amendment.by_rule]
            self._tables.rules[namespace, used.id] = replace(used, uses=used.uses + 1)

    def get(self, namespace: str, rule_id: str) -> Rule:
        if (namespace, rule_id) not in self._tables.rules:
            raise NotFound("rule", rule_id)
        return self._tables.rules[namespace, rule_id]

    def list_rules(self, namespace: str, which: RuleFilter) -> list[tuple[int, Rule]]:
        return [
            (number, rule)
            for number, rule in enumerate(self._tables.rules.values(), start=1)
            if rule.namespace == namespace
            and which.by in (None, rule.by)
            and which.tool in (None, rule.tool)
            and which.session_id in (None, rule.session_id or "")
            and (not which.in_force or rule.is_in_force(self._state.now))
        ]

    def revoke(self, namespace: str, rule_id: str, event: NewAuditEvent) -> Rule:
        rule = self.get(namespace, rule_id)
        if rule.revoked_at is None:
            rule = replace(rule, revoked_at=self._state.now, revoked_by=event.by)
            self._tables.rules[namespace, rule_id] = rule
            self._audit.add(namespace, [event])
        return rule
