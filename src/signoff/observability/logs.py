"""Log lines with the fields of their run: a filter for your own handlers, and the formatters of the command line.

All lines that are logged inside a step, on the worker's loop and in its threads, have ``run_id``, ``workflow``,
``group``, ``namespace``, ``worker_id``, ``trace_id``, ``step`` and ``attempt``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol

from typing_extensions import override

from signoff.observability.current_run import fields_here, fields_of
from signoff.records import Run

LogFormat = Literal["text", "json"]

FIELDS: Final = ("run_id", "workflow", "group", "namespace", "step", "attempt", "worker_id", "trace_id")
_SHOWN: Final = (("run", "run_id"), ("step", "step"), ("attempt", "attempt"))  # in the text format
_STANDARD: Final = frozenset(
    (*vars(logging.makeLogRecord({})), *FIELDS, "message", "asctime")
)  # all others come from `extra=`


class RunFilter(logging.Filter):
    """Adds the fields of the current run to each record of a handler. Unknown fields are None.

    Add it to a handler, not to a logger. If records are passed to another thread, add it to the first handler.

    Example::

        handler = logging.StreamHandler()
        handler.addFilter(signoff.observability.logs.RunFilter())
        handler.setFormatter(logging.Formatter("%(levelname)s [%(run_id)s] %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record."""
        add_fields(record)
        return True


def add_fields(record: logging.LogRecord) -> None:
    """Add the fields of the current run to a record. Fields that it already has stay."""
    here: dict[str, Any] = {} if "run_id" in record.__dict__ else fields_here()
    for name in FIELDS:
        if name not in record.__dict__:
            setattr(record, name, here.get(name))


class TextFormatter(logging.Formatter):
    """Lines for people, with run and step at the end: ``INFO shop: paid [run=refund-1 step=pay attempt=1]``."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without its traceback."""
        add_fields(record)
        known = [
            f"{shown}={getattr(record, name)}" for shown, name in _SHOWN if getattr(record, name) is not None
        ]
        line = super().formatMessage(record)
        return f"{line} [{' '.join(known)}]" if known else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, the run's fields, and those of ``extra=``.

    A traceback is text in ``exception``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        add_fields(record)
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in FIELDS if getattr(record, name) is not None}
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, ensure_ascii=False, default=str)


def formatter(format: LogFormat) -> logging.Formatter:
    """Return the formatter of the command line."""
    return JsonFormatter() if format == "json" else TextFormatter()


class ReplayedRun(Protocol):
    """A run in memory."""

    @property
    def is_replaying(self) -> bool:
        """Whether its code currently repeats calls from the journal."""
        ...

    @property
    def run(self) -> Run:
        """The run."""
        ...


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger for workflow code, which is silent during replay, so that each line is written once.

    Calls that a worker had not journaled when it died are repeated, and so are their lines.
    """

    def __init__(self, execution: ReplayedRun) -> None:
        super().__init__(logging.getLogger("signoff.workflow"))
        self._execution = execution

    @override
    def isEnabledFor(self, level: int) -> bool:
        """Whether a line of this level is written now."""
        return not self._execution.is_replaying and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the run's fields to the line."""
        kwargs["extra"] = {**fields_of(self._execution.run), **(kwargs.get("extra") or {})}
        return msg, kwargs
