"""``python -m benchmarks``: measure and print one table."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from benchmarks import table
from benchmarks.profiling import Profiler
from benchmarks.row import Line, Measured, Place, Row, Sizes
from benchmarks.rows import ROWS
from benchmarks.yardsticks import ALONE
from signoff import relax_collector


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    relax_collector()  # as `signoff worker` does
    by_name = {row.name: row for row in ROWS}
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=options.folder) as name:
        folder = Path(name).absolute()
        if options.profile:
            _profile(by_name[options.profile], folder, options.sizes)
            return 0
        rows = [by_name[name] for name in options.rows or by_name]
        machine = table.machine(folder)
        lines = [] if options.rows else _alone(folder, options.repeat)
        for row in rows:
            lines += table.lines_of(_measure(row, folder, options.sizes, options.repeat))
    if options.json:
        print(json.dumps({"machine": machine, "lines": lines}, indent=2))
    else:
        table.print_table(machine, lines)
    return 0


def _measure(row: Row, folder: Path, sizes: Sizes, repeat: int) -> Measured:
    """Measure each round between two looks at the yardstick: what else the machine does hits both."""
    measured = Measured(row)
    for number in range(min(repeat, row.most_rounds)):
        print(f"{row.name}: round {number + 1}", file=sys.stderr)
        before = row.yardstick.measure(folder)
        measured.rounds.append(asyncio.run(row.measure(Place(folder, sizes))))
        measured.yardsticks.append((before + row.yardstick.measure(folder)) / 2)
    return measured


def _alone(folder: Path, repeat: int) -> table.Lines:
    """Measure what the machine can do."""
    lines: table.Lines = []
    for yardstick in ALONE:
        less_is_better = not yardstick.unit.endswith("/s")
        line = Line("figure", yardstick.name, yardstick.unit, less_is_better=less_is_better, has_ratio=False)
        row = Row("yardsticks", _nothing, yardstick, (line,), lambda sizes: 1)
        rounds = [{"figure": [yardstick.measure(folder)]} for _ in range(repeat)]
        lines += table.lines_of(Measured(row, rounds))
    return lines


async def _nothing(place: Place) -> dict[str, list[float]]:
    return {}


def _profile(row: Row, folder: Path, sizes: Sizes) -> None:
    profiler = Profiler(folder)
    with profiler.threads():
        asyncio.run(row.measure(Place(folder, sizes, profiler)))
    for name, spent in profiler.spent().items():
        table.print_profile(name, row.operations(sizes), spent)


def _parser() -> argparse.ArgumentParser:
    names = [row.name for row in ROWS]
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure Signoff beside raw SQLite.")
    parser.add_argument("--rows", type=_names, metavar="A,B", help=f"only these of: {', '.join(names)}")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds of each row (3)")
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default=Sizes(),
        metavar="A=N,B=N",
        help="how much to do; by default "
        + ",".join(f"{field.name}={field.default}" for field in fields(Sizes)),
    )
    parser.add_argument("--folder", default=".", help="a folder on the disk to measure (the current one)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--profile", choices=names, metavar="ROW", help="profile one round of a row instead")
    return parser


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = set(names) - {row.name for row in ROWS}
    if unknown:
        raise argparse.ArgumentTypeError(f"no such row: {', '.join(sorted(unknown))}")
    return names


def _sizes(text: str) -> Sizes:
    parts = [part.partition("=") for part in text.split(",")]
    try:
        return replace(Sizes(), **{name: int(number) for name, _, number in parts})
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
