"""Commands that list one page of records."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence

import click

from signoff.cli.output import Output
from signoff.cli.target import Command
from signoff.records.paging import Page
from signoff.wire.records import R, to_wire


def page_options(command: Command) -> Command:
    """Add --limit and --after to a command."""
    command = click.option("--after", help="The end of the previous page.")(command)
    return click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=50,
        show_default=True,
        help="Maximum number of items.",
    )(command)


def print_page(
    out: Output,
    page: Page[R],
    columns: Sequence[str],
    row: Callable[[R, float], Sequence[str]],
    empty: str,
) -> None:
    """Print a page as a table, or as JSON.

    Args:
        out: The output.
        page: The page.
        columns: The headings of the table.
        row: Returns the cells of a record, given the time in unix seconds.
        empty: The message if the page is empty.
    """
    if out.as_json:
        out.object({"items": [to_wire(each) for each in page.items], "next": page.next})
        return
    now = time.time()
    out.table(columns, [row(each, now) for each in page.items], empty)
    note_next(out, page)


def note_next(out: Output, page: Page[R]) -> None:
    """Tell the user how to get the next page, if there is one."""
    if page.next:
        out.note(f"there are more: --after {shlex.quote(page.next)}")
