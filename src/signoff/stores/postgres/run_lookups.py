"""Batches lookups of runs: those of one event loop iteration are read in one statement."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence

from signoff.errors import NotFound
from signoff.records import Run
from signoff.stores.shared.group_commit import GroupCommit, Operation, resolve_here


class Lookups:
    """Batches lookups of any number of event loops.

    Args:
        read: Returns the existing runs of a namespace, by id.
    """

    def __init__(self, read: Callable[[str, Sequence[str]], Awaitable[Mapping[str, Run]]]) -> None:
        self._read = read
        self._group_commit = GroupCommit[_Lookup](lambda _: False, self._begin)
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, namespace: str, run_id: str) -> Awaitable[Run]:
        """Return a run.

        Raises:
            NotFound: There is no such run.
        """
        if not _may_exist(run_id):
            raise NotFound("run", run_id)
        return self._group_commit.do(_Lookup(namespace, run_id))

    def _begin(self, lookups: list[_Lookup]) -> None:
        loop = asyncio.get_running_loop()
        # In an empty context, not the one of the step that asked first: the task serves other callers, too, and steps
        # must not cancel it.
        task = contextvars.Context().run(loop.create_task, self._look(lookups), name="signoff lookups")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, lookups: list[_Lookup]) -> None:
        for namespace in {lookup.namespace for lookup in lookups}:
            theirs = [lookup for lookup in lookups if lookup.namespace == namespace]
            try:
                found = await self._read(namespace, list({lookup.run_id for lookup in theirs}))
            except Exception as error:
                for lookup in theirs:
                    lookup.error = error
            else:
                for lookup in theirs:
                    lookup.take(found)
            resolve_here(theirs)


class _Lookup(Operation[Run]):
    __slots__ = ("namespace", "run_id")

    def __init__(self, namespace: str, run_id: str) -> None:
        super().__init__()
        self.namespace = namespace
        self.run_id = run_id

    def take(self, found: Mapping[str, Run]) -> None:
        self.result = found.get(self.run_id)
        if self.result is None:
            self.error = NotFound("run", self.run_id)


def _may_exist(run_id: str) -> bool:
    """Whether Postgres can store this id: it has no NUL character and no lone surrogate."""
    try:
        return b"\0" not in run_id.encode()
    except UnicodeEncodeError:
        return False
