"""Looking for open questions: by what stores know of them, and by words, which are looked for above the stores."""

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
    """Which open questions are looked for; None means any.

    Attributes:
        run_id: The run that asks.
        names: Assignees, one of whom may answer.
        workflow: The workflow of the run that asks.
        group: The group of the run that asks.
        text: Words, all of which are in its text, its id, its run's id or its tool, in either case.
    """

    run_id: str | None = None
    names: frozenset[str] | None = None
    workflow: str | None = None
    group: str | None = None
    text: str | None = None

    @property
    def listed(self) -> PromiseFilter:
        """What a store lists of it. Raises InvalidValue if no store could."""
        names = self.names if self.run_id is None else None
        which = PromiseFilter(
            PromiseKind.QUESTION, PromiseState.PENDING, self.run_id, names, self.workflow, self.group
        )
        which.check()
        PromiseFilter(which.kind, which.state, answerable_by=self.names).check()
        return which

    def finds(self, question: Promise) -> bool:
        """Whether a question that a store lists is looked for."""
        names = None if self.run_id is None else self.names
        if names is not None and question.assignees and names.isdisjoint(question.assignees):
            return False
        words = (self.text or "").lower().split()
        if not words:
            return True
        within = _words_of(question).lower()
        return all(word in within for word in words)


async def look_for(
    search: QuestionSearch,
    read: ReadPage,
    *,
    after: str | None,
    limit: int,
    is_seen: Callable[[Promise], bool] = lambda _: True,
) -> Page[Promise]:
    """Return a page of what is looked for: it may be short, or empty, and have a ``next``.

    Words are looked for in no more questions a page than ``LOOKED_THROUGH``, or ``MOST_PAGES`` times ``limit``.

    Args:
        search: What is looked for.
        read: Reads a page, of which nothing is hidden any more that whoever asks may not know.
        after: A former page's ``next``.
        limit: How many at most.
        is_seen: Whether whoever asks may see a question.

    Raises:
        InvalidValue: No store could list it.
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
