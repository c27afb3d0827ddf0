"""Redacts the records of a store. All records that leave a server pass through it.

A path hides a value at one place. The same value is also hidden wherever else it appears: in texts of questions,
messages of models, errors and metadata of the run, of its parent and children, and of the other runs of its session.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from signoff.errors import MissingKey, NotFound
from signoff.records import AuditEvent, CallKind, EntryKind, Promise, Rule, Run, RunState
from signoff.records.invocations import InvocationNode
from signoff.records.paging import Page, RunFilter
from signoff.redaction.cache import Known
from signoff.redaction.hidden_values import PLACEHOLDER
from signoff.redaction.hiding_thread import beside
from signoff.redaction.kept_texts import KeptTexts
from signoff.redaction.records import Redaction
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.encrypted import is_incomplete, withheld

T = TypeVar("T")

MOST_RELATED: Final = 200
"""How many runs are searched for one: the nearest, and the newest of its session."""

OF_A_SESSION: Final = 50
AT_ONCE: Final = 500  # entries


class Redactor:
    """Redacts the records of a store.

    Args:
        store: The store, opened for a namespace.
        redaction: The paths, and the cache that all redactors with this object share.
    """

    def __init__(self, store: Store, redaction: Redaction) -> None:
        self._store = store
        self.redaction = redaction

    @property
    def is_empty(self) -> bool:
        """Whether it hides nothing."""
        return self.redaction.is_empty

    async def shown(self, record: T) -> T:
        """Return a record without hidden values; the same object if it has none."""
        if self.is_empty:
            return record
        if isinstance(record, InvocationNode):
            return cast("T", replace(record, promise=await self.shown(record.promise)))
        run_id = _run_of(record)
        if run_id is None:
            return await beside(partial(self.redaction.shown, record), record)
        try:
            secrets = await self.secrets(run_id, record if isinstance(record, Run) else None)
        except MissingKey as error:
            return withheld(record, f"the hidden values of its run are unknown: {error.undecrypted}")
        if secrets is None:
            return await beside(partial(self._of_a_deleted_run, record), record)
        return await beside(partial(self.redaction.shown, record, secrets), record, secrets)

    async def shown_in(self, result: Any) -> Any:
        """Return a result with all records in it redacted."""
        if self.is_empty:
            return result
        if isinstance(result, Page):
            page = cast("Page[Any]", result)
            return replace(page, items=tuple([await self.shown(each) for each in page.items]))
        if isinstance(result, tuple):
            return tuple([await self.shown_in(each) for each in cast("tuple[Any, ...]", result)])
        if isinstance(result, list):
            return [await self.shown_in(each) for each in cast("list[Any]", result)]
        return await self.shown(result)

    async def secrets(self, run_id: str | None, run: Run | None = None) -> frozenset[str] | None:
        """Return the hidden texts of a run and its related runs; None if the run does not exist.

        Args:
            run_id: The run; None: there is no run, so no hidden text.
            run: The run's record, if it was just read.
        """
        if self.is_empty or run_id is None:
            return frozenset()
        first = await self._known(run_id, run)
        if first is None:
            return None
        found = KeptTexts(first.secrets)
        seen, waiting = {run_id}, deque(await self._related(first))
        while waiting and len(seen) < MOST_RELATED:
            each = waiting.popleft()
            if each in seen:
                continue
            seen.add(each)
            known = await self._known(each)
            if known is not None:
                found.add(known.secrets)
                waiting.extend(await self._related(known))
        return found.frozen

    async def _related(self, known: Known) -> list[str]:
        related = [*([] if known.parent_id is None else [known.parent_id]), *sorted(known.children)]
        if known.session_id is not None:
            related += await self._of_session(known.session_id)
        return related

    async def _of_session(self, session_id: str) -> list[str]:
        """Return the newest runs of a session. Pages may be shorter than their limit."""
        found: list[str] = []
        after: str | None = None
        while len(found) < OF_A_SESSION:
            room = OF_A_SESSION - len(found)
            page = await self._store.list_runs(RunFilter(session_id=session_id), after=after, limit=room)
            found += [run.id for run in page.items]
            if (after := page.next) is None:
                break
        return found

    async def _known(self, run_id: str, run: Run | None = None) -> Known | None:
        """Return the cached facts of a run, after reading its new journal entries."""
        namespace, remembered = self._store.namespace, self.redaction.remembered
        known = remembered.get(namespace, run_id)
        try:
            # The fields that a list leaves out have secrets too.
            run = (
                await self._store.get_run(run_id)
                if run is None or run.left_out or is_incomplete(run)
                else run
            )
        except NotFound:
            return None
        if known is None or known.created_at != run.created_at:
            known = Known(run.workflow, run.created_at, run.parent_id, run.session_id)
        if known.is_over:
            return known
        secrets = KeptTexts(known.secrets)
        secrets.add(await beside(partial(self.redaction.secrets_in, run), run))
        children, seq = set(known.children), known.seq
        while entries := await self._store.read_journal(run_id, after=seq, limit=AT_ONCE):
            for entry in entries:
                secrets.add(await beside(partial(self.redaction.secrets_in, entry, run.workflow), entry))
                if entry.kind is EntryKind.OPENED and entry.call is CallKind.CHILD:
                    children.add(str(entry.fact("id")))
            children = set(sorted(children)[:MOST_RELATED])
            seq = entries[-1].seq
        known = replace(
            known,
            secrets=secrets.frozen,
            children=frozenset(children),
            seq=seq,
            is_over=run.state in (RunState.SUCCEEDED, RunState.CANCELLED),  # a failed one may be retried
        )
        remembered.put(namespace, run_id, known)
        return known

    def _of_a_deleted_run(self, record: T) -> T:
        """Return the record of a deleted run without its texts, because the run's hidden texts are no longer known."""
        if isinstance(record, AuditEvent) and record.details is not None:
            return cast("T", replace(record, details=f'"{PLACEHOLDER}"', redacted=True))
        return self.redaction.shown(record)


def _run_of(record: object) -> str | None:
    """Return the id of a record's run."""
    if isinstance(record, Run):
        return record.id
    return record.run_id if isinstance(record, Promise | AuditEvent | Rule) else None
