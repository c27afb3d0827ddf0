"""The audit trail in the reference model: events of questions, and the seals over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from signoff.records import AuditEvent, AuditKind, NewAuditEvent, Promise, PromiseKind, PromiseState, Seal
from signoff.records.paging import AuditFilter
from signoff.testing.model.state import State


class Audit:
    """Events of questions in the order of recording, and their seals."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables = state.tables

    def record(self, namespace: str, events: Sequence[NewAuditEvent]) -> None:
        """Record events that are not recorded yet."""
        self.add(namespace, events)

    def add(self, namespace: str, events: Sequence[NewAuditEvent]) -> None:
        """Record checked or internal events that are not recorded yet."""
        known = {event.id for event in self._tables.audit if event.namespace == namespace}
        for new in events:
            if new.id not in known:
                known.add(new.id)
                self._tables.audit.append(
                    AuditEvent(
                        namespace,
                        new.id,
                        self._state.now,
                        new.kind,
                        new.question_id,
                        new.run_id,
                        new.by,
                        new.details,
                        origin=new.origin,
                    )
                )

    def record_state(self, question: Promise) -> None:
        """Record that a question was asked or settled. Other promises are not recorded."""
        if question.kind is not PromiseKind.QUESTION:
            return
        if question.state is PromiseState.PENDING:
            kind = AuditKind.ASKED
            details = {
                "data": question.data,
                "assignees": list(question.assignees),
                "due_at": question.due_at,
            }
        else:
            kind = AuditKind(question.state.value)
            details = {"value": question.value, "note": question.note, "request_id": question.request_id}
        new = NewAuditEvent(
            f"event-{len(self._tables.audit)}",
            kind,
            question.id,
            question.run_id,
            question.settled_by,
            json.dumps(details),
            question.origin,
        )
        self.add(question.namespace, [new])

    def list_audit(self, namespace: str, which: AuditFilter) -> list[tuple[int, AuditEvent]]:
        """Return the numbered events of a namespace."""
        return [
            (number, event)
            for number, event in enumerate(self._tables.audit, 1)
            if event.namespace == namespace
            and which.question_id in (None, event.question_id)
            and which.run_id in (None, event.run_id)
        ]

    def read_chain(self, namespace: str, after: int, limit: int) -> list[tuple[Seal, AuditEvent | None]]:
        events = {event.id: event for event in self._tables.audit if event.namespace == namespace}
        seals = self._tables.chains.get(namespace, [])[after + 1 :][:limit]
        return [(seal, events.get(seal.event_id)) for seal in seals]

    def last_seal(self, namespace: str) -> Seal | None:
        chain = self._tables.chains.get(namespace)
        return chain[-1] if chain else None

    def heads(self, after: str, limit: int) -> list[tuple[str, Seal]]:
        chains = sorted(self._tables.chains.items())
        return [(name, chain[-1]) for name, chain in chains if chain and name > after][:limit]

    def unsealed(self, limit: int, besides: Sequence[str]) -> list[AuditEvent]:
        waiting = (event for event in self._tables.audit if event.seq is None)
        return [event for event in waiting if event.namespace not in besides][:limit]

    def seal(self, namespace: str, seals: Sequence[Seal]) -> bool:
        chain = self._tables.chains.setdefault(namespace, [])
        waiting = {
            event.id: place
            for place, event in enumerate(self._tables.audit)
            if event.namespace == namespace and event.seq is None
        }
        follows = [seal.seq for seal in seals] == list(range(len(chain), len(chain) + len(seals)))
        ids = [seal.event_id for seal in seals]
        if not follows or len(set(ids)) != len(ids) or not waiting.keys() >= set(ids):
            return False
        chain.extend(seals)
        for seal in seals:
            place = waiting[seal.event_id]
            event = self._tables.audit[place]
            self._tables.audit[place] = replace(event, seq=seal.seq, hash=seal.hash)
        return True
