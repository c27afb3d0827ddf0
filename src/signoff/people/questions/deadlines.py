"""Fires deadlines, reminders and escalations of questions in every namespace."""

from __future__ import annotations

from signoff.errors import NotFound
from signoff.people.questions.question_operations import overdue_amendment
from signoff.people.questions.question_state import QuestionState
from signoff.records import PromiseState
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems

log = own_logger("signoff.people")

AT_ONCE = 100


async def serve_questions(store: Store, aside: FailedItems | None = None) -> float | None:
    """Apply what is due for questions, in every namespace. Any number of processes may do this at the same time.

    Args:
        store: The store.
        aside: The questions that failed before; None: none.

    Returns:
        When something is due next, in unix seconds; None if nothing is. Questions that fail are set aside and tried
        again later.
    """
    aside = new_failed_items() if aside is None else aside
    return await aside.serve_due(
        store, store.due_questions, lambda due: _serve(store.within(due.namespace), due.id), at_once=AT_ONCE
    )


def new_failed_items() -> FailedItems:
    """Return an empty record of questions that failed."""
    return FailedItems("question", log)


async def _serve(store: Store, question_id: str) -> bool:
    """Apply what is due for a question. Returns whether its due time has changed."""
    try:
        question = await store.get_promise(question_id)
    except NotFound:
        return True  # it was deleted meanwhile
    if question.state is not PromiseState.PENDING:
        return True
    amendment = await overdue_amendment(store, QuestionState.of(question, store.clock.now()))
    if amendment is None:
        return False  # the database's clock is ahead of our estimate
    await store.amend(question.id, amendment)
    return True
