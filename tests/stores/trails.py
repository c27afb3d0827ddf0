"""Invariants of audit trails, whatever the operations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from signoff.records import AuditEvent, AuditKind, Promise, PromiseKind, PromiseState, Seal

Creation = tuple[str, int]  # a question's id, and which of that id it is
Pairs = Sequence[tuple[AuditEvent, AuditEvent]]

SETTLING = frozenset(AuditKind(state.value) for state in PromiseState if state is not PromiseState.PENDING)


class Trails:
    """The trails of the namespaces of a store, as they were seen so far."""

    def __init__(self) -> None:
        self._recorded: dict[tuple[str, str], AuditEvent] = {}
        self._created: dict[str, set[Creation]] = {}
        self._versions: dict[tuple[str, Creation], int] = {}

    def check_questions(self, namespace: str, questions: Mapping[Creation, Promise]) -> None:
        """No version goes down."""
        for creation, question in questions.items():
            if question.kind is PromiseKind.QUESTION:
                self._created.setdefault(namespace, set()).add(creation)
                assert question.version >= self._versions.get((namespace, creation), 0)
                self._versions[namespace, creation] = question.version

    def check_trail(
        self, namespace: str, trail: Sequence[AuditEvent], questions: Mapping[Creation, Promise]
    ) -> None:
        """Nothing is gone or changed; each question was asked once and settled at most once, as it is now."""
        found = {(event.namespace, event.id): event for event in trail}
        assert len(found) == len(trail)
        assert [event.at for event in trail] == sorted(event.at for event in trail)
        for key, event in self._recorded.items():
            if key[0] == namespace:
                unsealed = {"seq": None, "hash": None} if event.seq is None else {}
                assert replace(found[key], **unsealed) == event
        self._recorded.update(found)
        asked = Counter(event.question_id for event in trail if event.kind is AuditKind.ASKED)
        assert asked == Counter(id for id, _ in self._created.get(namespace, ()))
        states = {question.id: question.state for question in questions.values()}
        for id in asked:
            [*former, last] = _settlings(event for event in trail if event.question_id == id)
            assert all(len(each) == 1 for each in former), (
                "what was asked again was deleted, so it was settled"
            )
            if states.get(id) is PromiseState.PENDING:
                assert last == []
            elif id in states:
                assert last == [AuditKind(states[id].value)]


def _settlings(events: Iterable[AuditEvent]) -> list[list[AuditKind]]:
    """How the questions of one id were settled, each since it was asked."""
    found: list[list[AuditKind]] = []
    for event in events:
        if event.kind is AuditKind.ASKED:
            found.append([])
        elif event.kind in SETTLING:
            found[-1].append(event.kind)
    return found


def paired(found: Sequence[AuditEvent], expected: Sequence[AuditEvent]) -> Pairs:
    """Pair a store's events with the model's. Of each question they come in the same order, the seals' in any."""
    pairs: list[tuple[AuditEvent, AuditEvent]] = []
    by_question = [
        groupby(sorted(trail, key=lambda event: event.question_id), key=lambda event: event.question_id)
        for trail in (found, expected)
    ]
    for (id, mine), (other_id, theirs) in zip(*by_question, strict=True):
        assert id == other_id
        pairs += zip(mine, theirs, strict=True)
    return pairs


def check_pairs(pairs: Pairs) -> None:
    """What is recorded is the same but for the ids that stores give themselves."""
    for mine, theirs in pairs:
        is_own = theirs.kind is AuditKind.ASKED or theirs.kind in SETTLING
        assert is_own or mine.id == theirs.id
        assert _facts(mine) == _facts(theirs)


def check_chain(
    chain: Sequence[tuple[Seal, AuditEvent | None]], pairs: Pairs, expected: Sequence[Seal]
) -> None:
    """It has no hole, no fork, and nothing twice."""
    seals = [seal for seal, _ in chain]
    names = {mine.id: theirs.id for mine, theirs in pairs}
    assert [seal.seq for seal in seals] == list(range(len(expected)))
    assert [replace(seal, event_id=names[seal.event_id]) for seal in seals] == list(expected)
    trail = {mine.id: mine for mine, _ in pairs}
    assert [event for _, event in chain] == [trail[seal.event_id] for seal in seals]
    assert len({seal.event_id for seal in seals}) == len(seals)


def _facts(event: AuditEvent) -> Any:
    return replace(event, id="", details=None), event.details and json.loads(event.details)
