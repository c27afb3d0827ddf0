"""State that belongs to one process: connections, threads, event loops and the locks around them.

A child forked by ``os.fork`` (multiprocessing, Celery, gunicorn with ``--preload``) has copies of them, but not the
threads. Each object that has such state drops it in the child, and makes its own when it is used there. The copies stay
in memory: freeing one could close a connection that the parent goes on using.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final, Protocol

WAIT_SECONDS: Final = 5.0
"""How long a fork waits for work that is under way in other threads."""


class Forked(Protocol):
    """Has state of one process."""

    def forked(self) -> None:
        """Drop it, in the child."""
        ...


class Paused(Protocol):
    """Has state that must not exist at the moment of a fork."""

    def before_fork(self) -> None:
        """Put it away. Blocks for ``WAIT_SECONDS`` at most."""
        ...

    def after_fork(self) -> None:
        """Have it again, in the parent."""
        ...


NOT_REOPENED: Final = (
    "it was opened before this process was forked, and not in the child. Open it here: begin another "
    "`async with AsyncClient(app)`, or await store.open()"
)

_forked: weakref.WeakSet[Forked] = weakref.WeakSet()
_paused: weakref.WeakSet[Paused] = weakref.WeakSet()
_inherited: list[object] = []


class _Fork:
    """The fork that is under way, of one thread at a time."""

    def __init__(self) -> None:
        self.under_way = threading.Lock()
        self.put_away: list[Paused] = []


_fork = _Fork()


def in_child(thing: Forked) -> None:
    """Have ``thing.forked`` called in each forked child, for as long as it lives."""
    _forked.add(thing)


def around(thing: Paused) -> None:
    """Have ``thing.before_fork`` and ``thing.after_fork`` called around each fork, for as long as it lives."""
    _paused.add(thing)


def keep(*inherited: object) -> None:
    """Keep what a child has inherited until it ends."""
    _inherited.extend(inherited)


def _before() -> None:
    if _fork.under_way.acquire(timeout=WAIT_SECONDS):
        for thing in list(_paused):
            _fork.put_away.append(thing)
            thing.before_fork()


def _in_parent() -> None:
    while _fork.put_away:
        _fork.put_away.pop().after_fork()
    if _fork.under_way.locked():
        _fork.under_way.release()


def _in_child() -> None:
    _fork.__init__()
    for thing in list(_forked):
        thing.forked()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
