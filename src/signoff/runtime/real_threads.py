"""Refuses processes whose threads are not threads, and code that runs on no event loop of asyncio."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from signoff.errors import UnsupportedEnvironment

_PATCHES: Final = (
    ("gevent", "gevent.monkey", "is_module_patched", ("threading", "select")),
    ("eventlet", "eventlet.patcher", "is_monkey_patched", ("thread", "select")),
)
"""Libraries that replace threads: the module and function that say whether they have, and its arguments."""


def check_threads(what: str) -> None:
    """Check that threads run in parallel. Clients and workers run event loops of their own on threads.

    Args:
        what: What needs them.

    Raises:
        UnsupportedEnvironment: A library has replaced threads, or the waiting for sockets, by coroutines of its own.
    """
    for library, module, name, parts in _PATCHES:
        is_patched = getattr(sys.modules.get(module), name, None)
        if is_patched is not None and any(map(is_patched, parts)):
            raise UnsupportedEnvironment(
                f"{what} needs threads and event loops, and {library} has patched them in this process. Call "
                "Signoff's HTTP API from here, and run workers in another process"
            )


def check_loop(what: str) -> None:
    """Check that an event loop of asyncio runs here.

    Args:
        what: What needs it.

    Raises:
        UnsupportedEnvironment: None runs on this thread, such as in code of Trio.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UnsupportedEnvironment(
            f"{what} needs a running event loop of asyncio. Code that runs on Trio can use signoff.Client in a thread"
        ) from None
