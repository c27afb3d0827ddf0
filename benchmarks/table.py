"""Prints the measurements: one table for people, or JSON."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.profiling import Spent
from benchmarks.row import Line, Measured

Lines = list[dict[str, Any]]


def lines_of(measured: Measured) -> Lines:
    """Return one record per line of a row."""
    row = measured.row
    beside = {"yardstick": row.yardstick.name, "yardstick_unit": row.yardstick.unit}
    return [_line(measured, line) | (beside if line.has_ratio else {}) for line in row.lines]


def _line(measured: Measured, line: Line) -> dict[str, Any]:
    rounds = [figures[line.key] for figures in measured.rounds]
    samples = [sample for round in rounds for sample in round]
    figure = median(samples)
    found: dict[str, Any] = {
        "row": measured.row.name,
        "what": line.what,
        "unit": line.unit,
        "median": figure,
        "best": min(samples) if line.less_is_better else max(samples),
        "worst": max(samples) if line.less_is_better else min(samples),
        "samples": len(samples),
        "target": line.target,
        "target_ratio": line.target_ratio,
        "met": None,
    }
    if line.has_ratio:
        found["yardstick_median"] = median(measured.yardsticks)
        pairs = zip(rounds, measured.yardsticks, strict=True)
        found["ratio"] = median(median(round) / yardstick for round, yardstick in pairs)
    if line.target_ratio is not None:
        found["met"] = found["ratio"] >= line.target_ratio
    elif line.target is not None:
        found["met"] = figure <= line.target if line.less_is_better else figure >= line.target
    return found


def machine(folder: Path) -> dict[str, str]:
    """Return the facts that the figures depend on."""
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": str(os.cpu_count()),
        "load": f"{psutil.getloadavg()[0]:.1f}",
        "disk": _disk(folder),
    }


def _disk(folder: Path) -> str:
    mounts = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
    closest = max(mounts, key=lambda part: len(part.mountpoint), default=None)
    return "unknown" if closest is None else f"{closest.fstype} on {closest.mountpoint}"


def print_table(machine: dict[str, str], lines: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    console = Console(width=max(Console().width, 150), highlight=False)
    table = Table(title=", ".join(f"{key} {value}" for key, value in machine.items()), title_justify="left")
    table.add_column("row")
    table.add_column("measurement")
    for name in ("median", "best", "unit", "target", "met", "yardstick", "ratio"):
        table.add_column(name, justify="left" if name in ("unit", "met", "yardstick") else "right")
    before = None
    for line in lines:
        if before not in (None, line["row"]):
            table.add_section()
        table.add_row(line["row"] if line["row"] != before else "", *_cells(line))
        before = line["row"]
    console.print(table)


def _cells(line: dict[str, Any]) -> list[str]:
    yardstick = ""
    if "ratio" in line:
        yardstick = f"{line['yardstick']}, {_number(line['yardstick_median'])} {line['yardstick_unit']}"
    target, target_ratio = line["target"], line["target_ratio"]
    return [
        line["what"],
        _number(line["median"]),
        _number(line["best"]),
        line["unit"],
        f"{target_ratio:.0%}" if target_ratio is not None else "" if target is None else _number(target),
        {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[line["met"]],
        yardstick,
        ""
        if "ratio" not in line
        else f"{line['ratio']:.0%}"
        if line["ratio"] < 1
        else f"{line['ratio']:.1f}x",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def print_profile(name: str, operations: int, top: Sequence[Spent]) -> None:
    """Print the functions of a thread or process with the most own time."""
    table = Table(title=f"{name}: µs per operation, of {operations:,}", title_justify="left")
    for column in ("own µs", "total µs", "calls"):
        table.add_column(column, justify="right")
    table.add_column("where")
    for spent in top:
        own, total, calls = (each / operations for each in (1e6 * spent.own, 1e6 * spent.total, spent.calls))
        table.add_row(f"{own:.1f}", f"{total:.1f}", f"{calls:.2f}", escape(spent.where))
    Console(width=max(Console().width, 150), highlight=False).print(table)
