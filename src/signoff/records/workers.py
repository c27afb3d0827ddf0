"""Workers, and the workflows that they announce."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker process, with the facts that another process of its host needs to check that it is alive."""

    id: str
    host: str
    pid: int
    process_started_at: float
    group: str
    namespace: str = "default"
    signoff_version: str | None = None  # None: a version that did not report it
    python_version: str | None = None
    build: str | None = None  # of its code, such as a commit, if configured
    threads: int | None = None  # how many plain-function steps run at once; None: not reported
    threads_busy: int = 0  # at its last heartbeat
    threads_waiting: int = 0  # how many steps waited for a thread then
    seen_at: float | None = None  # its last heartbeat
    held: int = 0  # how many runs it holds


@dataclass(frozen=True, slots=True)
class WorkflowInfo:
    """One version of a workflow that workers of a group run, as announced by the worker that started last."""

    group: str
    name: str
    version: str
    is_current: bool  # whether new runs get this version
    description: str | None = None  # the first paragraph of its docstring
    parameters: str | None = None  # JSON Schema of an object; None: not known, or too long
    namespace: str = "default"
    seen_at: float | None = None  # when a worker last announced it
