"""``python -m benchmarks``: measures, and prints one table."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path

from benchmarks import table
from benchmarks.postgres import Bench, bench
from benchmarks.profiling import Profiler
from benchmarks.row import Line, Measured, Place, Row, Sizes
from benchmarks.rows import NAMES, rows_on
from benchmarks.yardsticks import ALONE, CALL, ROUND_TRIP
from signoff import relax_collector


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    relax_collector()  # as `signoff worker` does
    unknown = {*(options.rows or ()), *filter(None, [options.profile])} - set(NAMES[options.store])
    if unknown:
        print(f"no such row on {options.store}: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix=".bench-", dir=options.folder))
        server = stack.enter_context(bench()) if options.store == "postgres" else None
        by_name = {row.name: row for row in rows_on(server)}
        folder = Path(name).absolute()
        place = Place(folder, options.sizes, databases=None if server is None else server.new_database)
        if options.profile:
            _profile(by_name[options.profile], replace(place, profiler=Profiler(folder)))
            return 0
        rows = [by_name[name] for name in options.rows or by_name]
        machine = table.machine(folder)
        if server is not None:
            machine["postgres"] = server.version
        lines = [] if options.rows else _alone(folder, options.repeat, server)
        for row in rows:
            lines += table.lines_of(_measure(row, place, options.repeat))
    if options.json:
        print(json.dumps({"machine": machine, "lines": lines}, indent=2))
    else:
        table.print_table(machine, lines)
    return 0


def _measure(row: Row, place: Place, repeat: int) -> Measured:
    """Measure each round between two measurements of the yardstick: other load on the machine hits both."""
    measured = Measured(row)
    for number in range(min(repeat, row.most_rounds)):
        print(f"{row.name}: round {number + 1}", file=sys.stderr)
        before = row.yardstick.measure(place.folder)
        measured.rounds.append(asyncio.run(row.measure(place)))
        measured.yardsticks.append((before + row.yardstick.measure(place.folder)) / 2)
    return measured


def _alone(folder: Path, repeat: int, server: Bench | None) -> table.Lines:
    """Measure the machine without Signoff."""
    lines: table.Lines = []
    for yardstick in ALONE if server is None else (server.commits, server.batches, CALL, ROUND_TRIP):
        less_is_better = not yardstick.unit.endswith("/s")
        line = Line("figure", yardstick.name, yardstick.unit, less_is_better=less_is_better, has_ratio=False)
        row = Row("yardsticks", _nothing, yardstick, (line,), lambda sizes: 1)
        rounds = [{"figure": [yardstick.measure(folder)]} for _ in range(repeat)]
        lines += table.lines_of(Measured(row, rounds))
    return lines


async def _nothing(place: Place) -> dict[str, list[float]]:
    return {}


def _profile(row: Row, place: Place) -> None:
    assert place.profiler is not None
    with place.profiler.threads():
        asyncio.run(row.measure(place))
    for name, spent in place.profiler.spent().items():
        table.print_profile(name, row.operations(place.sizes), spent)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description="Measure Signoff beside raw statements on the database."
    )
    parser.add_argument("--store", choices=list(NAMES), default="sqlite", help="the store (sqlite)")
    names = "; ".join(f"on {store}: {', '.join(names)}" for store, names in NAMES.items())
    parser.add_argument("--rows", type=_names, metavar="A,B", help=f"only these ({names})")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds of each row (3)")
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default=Sizes(),
        metavar="A=N,B=N",
        help="the size of each row; by default "
        + ",".join(f"{field.name}={field.default}" for field in fields(Sizes)),
    )
    parser.add_argument("--folder", default=".", help="a folder on the disk to measure (the current one)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--profile", metavar="ROW", help="profile one round of a row instead")
    return parser


def _names(text: str) -> list[str]:
    return text.split(",")


def _sizes(text: str) -> Sizes:
    parts = [part.partition("=") for part in text.split(",")]
    try:
        return replace(Sizes(), **{name: int(number) for name, _, number in parts})
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
