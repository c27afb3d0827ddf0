"""Search of open questions: stores filter by their columns, words are matched here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic_core import from_json

from signoff.records import Promise, PromiseKind, PromiseState
from signoff.records.paging import LOOKED_THROUGH, Page, PromiseFilter

MOST_PAGES: Final = 20


class ReadPage(Protocol):
    """Reads a page of promises."""

    def __call__(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Awaitable[Page[Promise]]: ...


@dataclass(frozen=True, slots=True)
class QuestionSearch:
    """Filter of open questions; None means any.

    Attributes:
        run_id: The run that asks.
        names: Assignees, one of whom may answer.
        workflow: The workflow of the run that asks.
        group: The group of the run that asks.
        text: Words that all occur in its text, its id, its run's id or its tool, in upper or lower case.
    """

    run_id: str | None = None
    names: frozenset[str] | None = None
    workflow: str | None = None
    group: str | None = None
    text: str | None = None

    @property
    def listed(self) -> PromiseFilter:
        """The part of the filter that a store applies. Raises InvalidValue if a value is invalid."""
        names = self.names if self.run_id is None else None
        which = PromiseFilter(
            PromiseKind.QUESTION, PromiseState.PENDING, self.run_id, names, self.workflow, self.group
        )
        which.check()
        PromiseFilter(which.kind, which.state, answerable_by=self.names).check()
        return which

    def finds(self, question: Promise) -> bool:
        """Whether a question from the store's list matches."""
        names = None if self.run_id is None else self.names
        if names is not None and question.assignees and names.isdisjoint(question.assignees):
            return False
        words = (self.text or "").lower().split()
        if not words:
            return True
        within = _words_of(question).lower()
        return all(word in within for word in words)


async def search_questions(
    search: QuestionSearch,
    read: ReadPage,
    *,
    after: str | None,
    limit: int,
    is_seen: Callable[[Promise], bool] = lambda _: True,
) -> Page[Promise]:
    """Return a page of matching questions. It may be short, or empty, and still have a ``next``.

    One page matches words in at most ``LOOKED_THROUGH`` questions, or ``MOST_PAGES`` times ``limit``.

    Args:
        search: The filter.
        read: Reads a page, already without the runs that the caller may not know.
        after: ``next`` of the previous page.
        limit: Maximum number of questions.
        is_seen: Whether the caller may see a question.

    Raises:
        InvalidValue: A value of the filter is invalid.
    """
    which = search.listed
    found: list[Promise] = []
    looked = 0
    for _ in range(MOST_PAGES):
        page = await read(which, after=after, limit=limit - len(found))
        found += [each for each in page.items if is_seen(each) and search.finds(each)]
        after = page.next
        looked += len(page.items)
        if after is None or len(found) >= limit or looked >= LOOKED_THROUGH or not search.text:
            break
    return Page(tuple(found), after)


def _words_of(question: Promise) -> str:
    try:
        data: Any = from_json(question.data or "null")
    except ValueError:
        data = None
    said = [question.id, question.run_id or ""]
    match data:
        case {"text": str(text), "action": {"tool": str(tool)}}:
            said += [text, tool]
        case {"text": str(text)}:
            said.append(text)
        case _:
            pass
    return "\n".join(said)
