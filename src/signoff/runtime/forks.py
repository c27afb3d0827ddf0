"""State that belongs to one process: connections, threads, event loops and the locks around them.

A child forked by ``os.fork`` (multiprocessing, Celery, gunicorn with ``--preload``) has copies of them, except for
threads. Each object with such state drops it in the child, and creates it again on use. The copies stay in memory:
freeing one could close a connection that the parent still uses.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final, Protocol

WAIT_SECONDS: Final = 5.0
"""How long a fork waits for work in other threads."""


class Forked(Protocol):
    """An object with state of one process."""

    def forked(self) -> None:
        """Drop that state, in the child."""
        ...


class Paused(Protocol):
    """An object with state that must not exist during a fork."""

    def before_fork(self) -> None:
        """Remove that state. Blocks for ``WAIT_SECONDS`` at most."""
        ...

    def after_fork(self) -> None:
        """Restore that state, in the parent."""
        ...


NOT_REOPENED: Final = (
    "it was opened before this process was forked, and not in the child. Open it here: begin another "
    "`async with AsyncClient(app)`, or await store.open()"
)

_forked: weakref.WeakSet[Forked] = weakref.WeakSet()
_paused: weakref.WeakSet[Paused] = weakref.WeakSet()
_inherited: list[object] = []


class _Fork:
    """The current fork. One thread at a time forks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.paused: list[Paused] = []


_fork = _Fork()


def in_child(thing: Forked) -> None:
    """Call ``thing.forked`` in each forked child, as long as the object exists."""
    _forked.add(thing)


def around(thing: Paused) -> None:
    """Call ``thing.before_fork`` and ``thing.after_fork`` around each fork, as long as the object exists."""
    _paused.add(thing)


def keep(*inherited: object) -> None:
    """Keep inherited objects alive until the child ends."""
    _inherited.extend(inherited)


def _before() -> None:
    if _fork.lock.acquire(timeout=WAIT_SECONDS):
        for thing in list(_paused):
            _fork.paused.append(thing)
            thing.before_fork()


def _in_parent() -> None:
    while _fork.paused:
        _fork.paused.pop().after_fork()
    if _fork.lock.locked():
        _fork.lock.release()


def _in_child() -> None:
    _fork.__init__()
    for thing in list(_forked):
        thing.forked()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
