"""The awaitables that the context's methods return, and the handles and promises that they give."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

from signoff.engine.run.calls import Call, ProgressCall, PromiseCall
from signoff.engine.run.child_calls import ChildCall, DetachedCall
from signoff.engine.run.execution import Execution
from signoff.engine.run.unawaited_context_calls import AroundCall, Built
from signoff.workflow.functions import LocalCall

T = TypeVar("T")


class Handle(AroundCall, Awaitable[T], Generic[T]):
    """A call in progress, started with ``lfi`` or ``rfi``. Awaiting it waits for the result.

    Example::

        handle = await ctx.rfi(make_invoice, order.id)
        ...
        invoice = await handle
    """

    _call: Call[T] | asyncio.Task[T]

    def __init__(self, execution: Execution, running: Call[T] | asyncio.Task[T]) -> None:
        self._execution = execution
        self._call = running

    @property
    def label(self) -> str:
        return f"the handle of {self.id!r}"

    @property
    def id(self) -> str:
        """The child run's id; for a function of this run, the name of its task."""
        running = self._call
        if isinstance(running, asyncio.Task):
            return running.get_name()
        return running.id if isinstance(running, ChildCall) else running.name

    def done(self) -> bool:
        """Return whether the result is available."""
        running = self._call
        future = running if isinstance(running, asyncio.Task) else running.begin()
        return future.done()

    def __await__(self) -> Generator[Any, None, T]:
        self._execution.disown(self._call)
        return (yield from self._call.__await__())


class Invocation(AroundCall, Awaitable[Handle[T]], Generic[T]):
    """The awaitable that ``lfi`` and ``rfi`` return. Awaiting it starts the call and returns its handle."""

    def __init__(self, execution: Execution, call: Call[T] | LocalCall) -> None:
        self._execution = execution
        self._call = call
        self._handle: Handle[T] | None = None

    @property
    def label(self) -> str:
        return f"the concurrent call of {self._call.label}"

    def options(self, **options: Any) -> Invocation[T]:
        """Set options of the call; see the options of ``lfc`` or ``rfc``.

        Raises:
            RegistrationError: The call has already started.
        """
        self._call.options(**options)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        return self

    def __await__(self) -> Generator[Any, None, Handle[T]]:
        if self._handle is None:
            begun = self._call.begin()
            running = cast("asyncio.Task[T]", begun) if isinstance(self._call, LocalCall) else self._call
            self._execution.adopt(running)
            self._handle = Handle(self._execution, running)
        return self._handle
        yield


class DurablePromise(AroundCall, Awaitable[Any]):
    """A promise of this run. Awaiting it waits until it is settled from outside."""

    _call: PromiseCall

    def __init__(self, call: PromiseCall) -> None:
        self._call = call

    @property
    def label(self) -> str:
        return f"promise {self.id!r}"

    @property
    def id(self) -> str:
        """The id under which it can be settled from outside."""
        return self._call.id

    def done(self) -> bool:
        """Return whether it is settled, as of the run's latest event."""
        return self._call.begin().done()

    def __await__(self) -> Generator[Any, None, Any]:
        return (yield from self._call.__await__())


class Opening(AroundCall, Awaitable[DurablePromise]):
    """The awaitable that ``ctx.promise()`` returns. Awaiting it creates the promise and returns it."""

    def __init__(self, execution: Execution, call: PromiseCall) -> None:
        self._promise = DurablePromise(call)
        self._call = call

    @property
    def label(self) -> str:
        return "ctx.promise()"

    def __await__(self) -> Generator[Any, None, DurablePromise]:
        self._call.begin()
        return self._promise
        yield


class Detached(AroundCall, Awaitable[str]):
    """The awaitable that ``ctx.detached()`` returns. Awaiting it starts the run and returns its id."""

    def __init__(self, execution: Execution, call: DetachedCall) -> None:
        self._execution = execution
        self._call = call

    @property
    def label(self) -> str:
        return f"detached run {self._call.name!r}"

    def options(self, **options: Any) -> Detached:
        """Set options of the run; see the options of ``rfc``.

        Raises:
            RegistrationError: The run has already been started.
        """
        self._call.options(**options)
        return self

    def __await__(self) -> Generator[Any, None, str]:
        if self._call.future is None:
            self._execution.note(self._call)
        return self._call.id
        yield


class Note(AroundCall, Awaitable[None]):
    """The awaitable that ``ctx.progress()`` returns. Awaiting it journals the progress."""

    def __init__(self, execution: Execution, call: ProgressCall) -> None:
        self._execution = execution
        self._call = call

    @property
    def label(self) -> str:
        return self._call.label

    def __await__(self) -> Generator[Any, None, None]:
        if self._call.future is None:
            self._execution.note(self._call)
        return
        yield


class Sleep(Built, Coroutine[Any, Any, None]):
    """The coroutine that ``ctx.sleep()`` returns."""

    __slots__ = ("_seconds", "_sleeping")

    def __init__(self, execution: Execution, seconds: float) -> None:
        self._build(execution)
        self._seconds = seconds
        self._sleeping: Coroutine[Any, Any, None] | None = None

    @property
    def label(self) -> str:
        return f"sleep of {self._seconds} s"

    def __await__(self) -> Generator[Any, None, None]:
        return self._begin().__await__()

    def send(self, value: Any) -> Any:
        return self._begin().send(value)

    def throw(self, *error: Any) -> Any:
        return self._begin().throw(*error)

    def close(self) -> None:
        self._begin().close()

    def _begin(self) -> Coroutine[Any, Any, None]:
        self._take()
        if self._sleeping is None:
            self._sleeping = asyncio.sleep(self._seconds)
        return self._sleeping
