"""The private names of Python and of libraries that Signoff relies on, where no public name does the same.

No other module uses one. ``tests/test_private_names.py`` has a test for each: when a new version changes a name, its
test fails and says what no longer works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def running(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Make ``loop`` the running loop of the calling thread, in place of the one that runs there, if any.

    The outer loop's current task is set aside meanwhile: from Python 3.14 on asyncio enters no task while another
    task of the thread is current.

    asyncio exports these names for other implementations of loops and tasks. The public ways to run a loop refuse to
    run one inside another.
    """
    outer = asyncio._get_running_loop()  # pyright: ignore[reportPrivateUsage]
    task = None if outer is None else asyncio.current_task(outer)
    if outer is not None and task is not None:
        asyncio._leave_task(outer, task)  # pyright: ignore[reportPrivateUsage]
    asyncio._set_running_loop(loop)  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)  # pyright: ignore[reportPrivateUsage]
        if outer is not None and task is not None:
            asyncio._enter_task(outer, task)  # pyright: ignore[reportPrivateUsage]


def agent_run_here() -> str | None:
    """Return the id of the Pydantic AI run whose code runs here; None: there is none.

    Pydantic AI hands its run context to those functions that ask for it. ``pause`` has to know of one that it was not
    handed.
    """
    from pydantic_ai._run_context import get_current_run_context  # an optional dependency

    context = get_current_run_context()
    return None if context is None else context.run_id
