"""Processes to be killed, forked from one that has imported what they need: a new one works at once."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerProcess
from typing import Any

_MODULES = [
    "tests.crash.processes",
    "tests.crash.servers",
    "tests.crash.worker",
    "tests.crash.helper",
    "tests.remote.processes",
]

_context = multiprocessing.get_context("forkserver")


def fork(function: Any, *arguments: object) -> ForkServerProcess:
    """Start a process that calls a function of a module with arguments that can be pickled."""
    # One server is for all tests of a process: it has what any of them needs.
    _context.set_forkserver_preload(_MODULES)
    process = _context.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process
