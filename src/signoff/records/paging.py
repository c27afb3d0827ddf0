"""Lists: their filters, their pages and the cursors between pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from signoff.errors import InvalidValue
from signoff.records.deliveries import DeliveryState
from signoff.records.names import check_filter, check_optional_text, check_text
from signoff.records.promises import PromiseKind, PromiseState
from signoff.records.runs import RunState
from signoff.records.tokens import TokenKind

T = TypeVar("T")

MAX_NAMES = 200
LOOKED_THROUGH = 1000
"""How many questions are examined for one page, if the filter depends on their runs."""
LAST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; None means any."""

    states: frozenset[RunState] | None = None
    workflow: str | None = None
    group: str | None = None
    parent_id: str | None = None
    session_id: str | None = None
    suspended: bool | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        for name in ("workflow", "group", "parent_id", "session_id"):
            check_filter(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class PromiseFilter:
    """Which promises to list; None means any.

    Attributes:
        kind: Their kind.
        state: Their state.
        run_id: The run that waits for them.
        answerable_by: Questions with one of these assignees, and questions without assignees. Needs ``kind`` question
            and ``state`` pending.
        workflow: Questions that runs of this workflow ask; needs the same. One page examines ``LOOKED_THROUGH``
            questions, so a page with a ``next`` may be short or empty.
        group: Questions that runs of this group ask, likewise.
    """

    kind: PromiseKind | None = None
    state: PromiseState | None = None
    run_id: str | None = None
    answerable_by: frozenset[str] | None = None
    workflow: str | None = None
    group: str | None = None

    @property
    def is_of_runs(self) -> bool:
        """Whether it depends on the questions' runs."""
        return self.workflow is not None or self.group is not None

    def check(self) -> None:
        """Check the filter.

        Raises:
            InvalidValue: ``answerable_by`` is combined with anything but pending questions of all runs, or has more
                than ``MAX_NAMES`` names; ``workflow`` or ``group`` is combined with anything but pending questions;
                or a string is blank or cannot be stored.
        """
        check_filter("run_id", self.run_id)
        check_filter("workflow", self.workflow)
        check_filter("group", self.group)
        names = self.answerable_by or ()
        if len(names) > MAX_NAMES:
            raise InvalidValue("answerable_by", f"{len(names)} names are more than {MAX_NAMES}")
        for name in names:
            check_filter("answerable_by", name)
        asked = (self.kind, self.state, self.run_id)
        if self.answerable_by is not None and asked != (PromiseKind.QUESTION, PromiseState.PENDING, None):
            raise InvalidValue("answerable_by", "it applies to pending questions of all runs only")
        if self.is_of_runs and asked[:2] != (PromiseKind.QUESTION, PromiseState.PENDING):
            raise InvalidValue(
                "workflow" if self.workflow is not None else "group", "it applies to pending questions only"
            )


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which audit events to list; None means any."""

    question_id: str | None = None
    run_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_filter("question_id", self.question_id)
        check_filter("run_id", self.run_id)


@dataclass(frozen=True, slots=True)
class TokenFilter:
    """Which tokens of a kind to list; None means any."""

    kind: TokenKind
    subject: str | None = None
    question_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_filter("subject", self.subject)
        check_filter("question_id", self.question_id)


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries to list; None means any."""

    state: DeliveryState | None = None
    channel: str | None = None
    question_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_filter("channel", self.channel)
        check_filter("question_id", self.question_id)


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """Which rules to list; None means any.

    Attributes:
        by: Their creator, without ``user:``.
        tool: Their tool.
        in_force: Only rules that are in force now.
        session_id: Only rules for this session; empty: only rules without a session.
    """

    by: str | None = None
    tool: str | None = None
    in_force: bool = False
    session_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_filter("by", self.by)
        check_filter("tool", self.tool)
        check_optional_text("session_id", self.session_id)


@dataclass(frozen=True, slots=True)
class WorkflowFilter:
    """Which workflows to list; None means any."""

    name: str | None = None
    group: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_filter("name", self.name)
        check_filter("group", self.group)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and the cursor of the next part (None at the end)."""

    items: tuple[T, ...] = field(default_factory=tuple)
    next: str | None = None


def check_page(after: object, limit: object) -> None:
    """Raise InvalidValue if ``after`` cannot be a page's ``next``, or ``limit`` is not a positive integer."""
    if after is not None and not isinstance(after, str):
        raise InvalidValue("after", f"expected the `next` of an earlier page, not {after!r}")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidValue("limit", f"expected a positive integer, not {limit!r}")


def page_number(after: str | None, otherwise: int) -> int:
    """Return the number of the last row of the page before, from a cursor."""
    if after is None:
        return otherwise
    if re.fullmatch("[0-9]{1,18}", after) is None:
        raise InvalidValue("after", f"{after!r} is not a cursor of this list; pass a page's `next`")
    return int(after)


def searched_page(
    rows: Sequence[tuple[Any, ...]], more: bool, to_item: Callable[[tuple[Any, ...]], T]
) -> Page[T]:
    """Return a page of the matches among the next ``LOOKED_THROUGH`` items.

    Args:
        rows: One row a match: the number of the last item examined, how many were examined, the match's columns, its
            number. One row with nulls for the match if there was none.
        more: Whether there were more matches than these.
        to_item: Makes an item of the match's columns.
    """
    if not rows:  # the limit was 0
        return Page()
    last, looked = rows[0][:2]
    found = [row[2:] for row in rows if row[-1] is not None]
    items = tuple(to_item(row[:-1]) for row in found)
    if more:
        return Page(items, str(found[-1][-1]) if items else None)
    return Page(items, str(last) if looked == LOOKED_THROUGH else None)


def page_place(after: str | None) -> tuple[str, str, str]:
    """Return the name, group and version of the last workflow of the page before, from a cursor."""
    if after is None:
        return "", "", ""
    try:
        place: Any = json.loads(after)
    except (ValueError, RecursionError):
        place = None
    match place:
        case [str(name), str(group), str(version)]:
            for text in (name, group, version):
                check_text("after", text)
            return name, group, version
        case _:
            raise InvalidValue("after", "it is not a cursor of this list; pass a page's `next`")


def place_of(name: str, group: str, version: str) -> str:
    """Return the cursor of the page after this workflow, for ``page_place``."""
    return json.dumps([name, group, version])
