"""Output of commands: JSON for machines, tables and lines for people. Messages go to stderr, results to stdout."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO, cast

from signoff.cli.formatting import one_line

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 10_000  # piped output is not wrapped

LONGEST_MESSAGE = 2_000
"""Maximum length of a failure's message, and of each text beside it, in characters."""


class Output:
    """Prints the results and messages of a command.

    Args:
        as_json: Whether to print JSON for machines.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def object(self, value: Any) -> None:
        """Print one JSON object on one line."""
        _write_json(sys.stdout, value)

    def line(self, text: str, style: str | None = None) -> None:
        """Print a line for people."""
        _print(self._stdout, text, style)

    def note(self, text: str, style: str | None = None) -> None:
        """Print a message for people on stderr. With ``--json`` it is left out."""
        if not self.as_json:
            _print(self._stderr, text, style)

    def event(self, event: str, text: str, **facts: Any) -> None:
        """Report an event of a long-running command: a line for people, an object for machines."""
        if self.as_json:
            self.object({"event": event, **facts})
        else:
            _print(self._stderr, text, None)

    def failure(self, message: str, code: int, facts: dict[str, Any]) -> None:
        """Print to stderr why the command failed."""
        if self.as_json:
            error = {"message": message, "exit_code": code, **facts}
            _write_json(sys.stderr, {"error": _all_elided(error)})
        else:
            _print(self._stderr, f"signoff: {_elided(message)}", "red")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
        """Print rows under a heading, or ``empty`` if there are no rows."""
        if not rows:
            self.note(empty)
            return
        from rich.table import Table

        table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in table.columns[:-1]:
            column.no_wrap = True  # only the last column wraps, so that ids can be copied
        for row in rows:
            table.add_row(*(_text(one_line(cell)) for cell in row))
        self._stdout.print(table)

    @cached_property
    def _stdout(self) -> Console:
        return _console(sys.stdout)

    @cached_property
    def _stderr(self) -> Console:
        return _console(sys.stderr)


def _elided(message: str) -> str:
    """Leave out the middle of a message that repeats a long argument."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]}...{message[-half:]}"


def _all_elided(value: Any) -> Any:
    """Elide each text in plain data."""
    if isinstance(value, dict):
        return {name: _all_elided(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_all_elided(each) for each in cast("list[Any]", value)]
    return _elided(value) if isinstance(value, str) else value


def tolerate_unencodable(*streams: TextIO) -> None:
    """Print the escape code of characters that a terminal cannot encode, such as an emoji."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _write_json(file: TextIO, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(file.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value)  # with JSON escapes
    print(text, file=file, flush=True)


def _console(file: TextIO) -> Console:
    from rich.console import Console

    class Pipe(Console):
        """Raises BrokenPipeError if the reader is gone. rich itself would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = None if file.isatty() else _WIDE
    return Pipe(file=file, width=width, highlight=False, markup=False, emoji=False)


def _print(console: Console, text: str, style: str | None) -> None:
    console.print(_text(text), style=style, soft_wrap=True)


def _text(text: str) -> Any:
    from rich.text import Text

    return Text(text)
