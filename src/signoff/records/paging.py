"""Lists and their pages: what is listed, and where a page begins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from signoff.errors import InvalidValue
from signoff.records.deliveries import DeliveryState
from signoff.records.promises import PromiseKind, PromiseState
from signoff.records.runs import RunState
from signoff.records.texts import check_chosen, check_text
from signoff.records.tokens import TokenKind

T = TypeVar("T")

MAX_NAMES = 200
LOOKED_THROUGH = 1000
"""How many questions one page is looked for in, where their runs say whether they are on it."""
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
            check_chosen(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class PromiseFilter:
    """Which promises to list; None means any.

    ``answerable_by`` lists what is asked of people: with ``kind`` question and ``state`` pending, the questions that
    one of these names is an assignee of, and those that have no assignees, since anybody may answer them.

    ``workflow`` and ``group`` list pending questions, too: those that runs of such ones ask. A page of them is made of
    the next ``LOOKED_THROUGH`` questions, so it may be short, or empty, and have a ``next``.
    """

    kind: PromiseKind | None = None
    state: PromiseState | None = None
    run_id: str | None = None
    answerable_by: frozenset[str] | None = None
    workflow: str | None = None
    group: str | None = None

    @property
    def is_of_runs(self) -> bool:
        """Whether it depends on the run that asks."""
        return self.workflow is not None or self.group is not None

    def check(self) -> None:
        """Raise InvalidValue if ``answerable_by`` is asked of anything but pending questions of all runs.

        Or ``workflow`` or ``group`` of anything but pending questions; or if there are more than ``MAX_NAMES`` names,
        or a text is blank, or none that a store could keep.
        """
        check_chosen("run_id", self.run_id)
        check_chosen("workflow", self.workflow)
        check_chosen("group", self.group)
        names = self.answerable_by or ()
        if len(names) > MAX_NAMES:
            raise InvalidValue("answerable_by", f"{len(names)} names are more than {MAX_NAMES}")
        for name in names:
            check_chosen("answerable_by", name)
        asked = (self.kind, self.state, self.run_id)
        if self.answerable_by is not None and asked != (PromiseKind.QUESTION, PromiseState.PENDING, None):
            raise InvalidValue("answerable_by", "it lists pending questions, and those of all runs")
        if self.is_of_runs and asked[:2] != (PromiseKind.QUESTION, PromiseState.PENDING):
            raise InvalidValue(
                "workflow" if self.workflow is not None else "group", "it lists pending questions"
            )


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which audit events to list; None means any."""

    question_id: str | None = None
    run_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_chosen("question_id", self.question_id)
        check_chosen("run_id", self.run_id)


@dataclass(frozen=True, slots=True)
class TokenFilter:
    """Which tokens of a kind to list; None means any."""

    kind: TokenKind
    subject: str | None = None
    question_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_chosen("subject", self.subject)
        check_chosen("question_id", self.question_id)


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries to list; None means any."""

    state: DeliveryState | None = None
    channel: str | None = None
    question_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_chosen("channel", self.channel)
        check_chosen("question_id", self.question_id)


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """Which rules to list; None means any.

    Attributes:
        by: Who made them, without ``user:``.
        tool: What they are about.
        in_force: Only those that are in force now.
        session_id: Only those for this session; empty: only those for none.
    """

    by: str | None = None
    tool: str | None = None
    in_force: bool = False
    session_id: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_chosen("by", self.by)
        check_chosen("tool", self.tool)
        check_text("session_id", self.session_id)


@dataclass(frozen=True, slots=True)
class WorkflowFilter:
    """Which workflows to list; None means any."""

    name: str | None = None
    group: str | None = None

    def check(self) -> None:
        """Raises InvalidValue: a text is blank, or none that a store could keep."""
        check_chosen("name", self.name)
        check_chosen("group", self.group)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the next part begins (None at the end)."""

    items: tuple[T, ...] = field(default_factory=tuple)
    next: str | None = None


def check_page(after: object, limit: object) -> None:
    """Raise InvalidValue for what is not a page's ``next``, or not a number of items."""
    if after is not None and not isinstance(after, str):
        raise InvalidValue("after", f"expected a former page's `next`, not {after!r}")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidValue("limit", f"expected a whole number from 1 on, not {limit!r}")


def page_number(after: str | None, otherwise: int) -> int:
    """Return where a page begins: the number of the last row of the page before it."""
    if after is None:
        return otherwise
    if re.fullmatch("[0-9]{1,18}", after) is None:
        raise InvalidValue("after", f"{after!r} is no page of this list; pass a page's `next`")
    return int(after)


def page_looked_for(
    rows: Sequence[tuple[Any, ...]], more: bool, to_item: Callable[[tuple[Any, ...]], T]
) -> Page[T]:
    """Return a page of what was looked for among the next ``LOOKED_THROUGH``.

    Args:
        rows: The number of the last one looked at, how many were, and a found one with its number at the end; if
            there is none, a row without it.
        more: Whether more were found than these.
        to_item: Makes one of the columns between.
    """
    if not rows:  # a page of none was asked for
        return Page()
    last, looked = rows[0][:2]
    found = [row[2:] for row in rows if row[-1] is not None]
    items = tuple(to_item(row[:-1]) for row in found)
    if more:
        return Page(items, str(found[-1][-1]) if items else None)
    return Page(items, str(last) if looked == LOOKED_THROUGH else None)


def page_place(after: str | None) -> tuple[str, str, str]:
    """Return where a page of workflows begins: name, group and version of the last one of the page before it."""
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
            raise InvalidValue("after", "it is no page of this list; pass a page's `next`")


def place_of(name: str, group: str, version: str) -> str:
    """Return where the page after such a workflow begins, for ``page_place``."""
    return json.dumps([name, group, version])
