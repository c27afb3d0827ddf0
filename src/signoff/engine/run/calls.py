"""The calls of a context. A call gets its number when it is first awaited, not when it is built.

A call is awaitable. ``options`` may change it until it is awaited.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from signoff import codec
from signoff.engine.run.call_inputs import folded, inputs_text
from signoff.engine.run.loop_callbacks import TimerCallback
from signoff.engine.run.unawaited_context_calls import Built
from signoff.errors import (
    IdConflict,
    InvalidValue,
    PromiseCancelled,
    PromiseRejected,
    PromiseTimeout,
    SignalTimeout,
    SignoffError,
)
from signoff.records import (
    CallKind,
    Entry,
    EntryKind,
    NewPromise,
    PromiseKind,
    PromiseState,
    Run,
)
from signoff.records.names import LONGEST_ID_BYTES, check_optional_text, check_size
from signoff.records.start_options import check_id, check_seconds

if TYPE_CHECKING:
    from signoff.engine.run.execution import Execution

T = TypeVar("T")


_NAMED: Final = frozenset(
    (CallKind.STEP, CallKind.SIGNAL, CallKind.CHILD, CallKind.DETACHED, CallKind.PROGRESS)
)

_good_names: set[str] = set()
"""Call names that passed the check. Most runs use the same names."""

_MOST_NAMES: Final = 4_096


class Call(Built, Generic[T]):
    """One call of a context; awaitable.

    Attributes:
        n: Its number in the run; 0 until it is issued.
        name: Its name in the journal.
        inputs: Its inputs as JSON, once it is issued; None without inputs.
        is_journaled: Whether the journal has its inputs.
    """

    kind: ClassVar[CallKind]
    # Whether it creates a row of its own in the store: see `refusal`.
    is_kept_elsewhere: ClassVar[bool] = False
    __slots__ = ("future", "inputs", "is_journaled", "n", "name")

    def __init__(self, execution: Execution, name: str) -> None:
        if type(name) is not str or name not in _good_names:
            self._check_name(name)
        self.name = name
        self.n = 0
        self.future: asyncio.Future[T] | None = None
        self.inputs: str | None = None
        self.is_journaled = False
        self._build(execution)

    def _check_name(self, name: str) -> None:
        check_name(f"{self.kind} name", name)
        if name.strip():
            if len(_good_names) >= _MOST_NAMES:
                _good_names.clear()
            _good_names.add(name)
        elif self.kind in _NAMED:
            raise InvalidValue(f"{self.kind} name", "is empty; use a name that never changes")

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def run(self) -> Run:
        """The run that makes the call."""
        return self._execution.run

    def begin(self) -> asyncio.Future[T]:
        """Issue the call, once. Later awaits share its outcome."""
        if self.future is None:
            self._take()
            self.future = self._execution.issue(self)
        return self.future

    @contextmanager
    def _dropped_if_refused(self) -> Generator[None]:
        """Do not report a call with invalid options as never awaited, too."""
        try:
            yield
        except SignoffError:
            self._take()
            raise

    def __await__(self) -> Generator[Any, None, T]:
        future = self.begin()
        try:
            return (yield from future)
        except asyncio.CancelledError:
            if future.cancelled():
                self._execution.abandon(self)
            raise

    def inputs_now(self) -> str | None:
        """Return the inputs as JSON, for replay to compare; None without inputs."""
        return None

    def refusal(self, known: dict[str, int]) -> SignoffError | None:
        """Return why it cannot be a new call of its run, or None if it can.

        Args:
            known: The promises whose outcomes the run has received, with the numbers of their calls.
        """
        return None

    def explains(
        self, found: Sequence[tuple[str, str]], recorded: Mapping[str, Any], roots: Sequence[object]
    ) -> bool:
        """Return whether the call may differ from the journal in this way and still be the same call.

        Args:
            found: The differences; see ``differing``.
            recorded: The inputs in the journal.
            roots: Objects shared by all runs, besides modules.
        """
        return False

    def replaced(
        self, functions: Sequence[tuple[str, str]], roots: Sequence[object]
    ) -> Sequence[tuple[str, str]]:
        """Return the recorded functions that this call replaces by others.

        Args:
            functions: The differing functions, as pairs of recorded and current identity.
            roots: Objects shared by all runs, besides modules.
        """
        return ()

    def settle(self, entry: Entry) -> None:
        """Complete the call's future with its journaled outcome."""
        assert self.future is not None
        if self.future.done():
            return
        try:
            value = self.outcome(entry)
        except Exception as error:
            self._execution.setbacks += 1
            self.future.set_exception(error)
        else:
            self.future.set_result(value)

    def outcome(self, entry: Entry) -> T:
        """Return the value of a ``COMPLETED`` entry, or raise its error."""
        raise NotImplementedError(self.kind)


class PromiseCall(Call[Any]):
    """A promise that is settled from outside."""

    kind = CallKind.PROMISE
    is_kept_elsewhere = True
    __slots__ = ("chosen_id", "data", "returns", "shown", "timeout")

    def __init__(
        self,
        execution: Execution,
        name: str,
        *,
        chosen_id: str | None = None,
        timeout: float | None = None,
        data: str | None = None,
        returns: Any = Any,
        shown: str | None = None,
    ) -> None:
        checked_id = None if chosen_id is None else check_id(chosen_id)
        checked_timeout = check_seconds("timeout_seconds", timeout)
        super().__init__(execution, name)
        self.chosen_id = checked_id
        self.timeout = checked_timeout
        self.data = data
        self.shown = shown  # the part of the data that the code provides
        self.returns = returns

    @property
    def id(self) -> str:
        """The promise's id."""
        if self.chosen_id is not None:
            return self.chosen_id
        retried = self._execution.past.anew.get(self.n)  # the promise that the call had before is settled
        return f"{self.run.id}.{self.n}" + ("" if retried is None else f"~{retried.seq}")

    def inputs_now(self) -> str | None:
        parts = dict[str, str]()
        if self.chosen_id is not None:
            parts["id"] = json.dumps(self.chosen_id)
        if self.timeout is not None:
            parts["timeout_seconds"] = json.dumps(self.timeout)
        if self.shown is not None:
            parts["data"] = folded(self.shown)
        return inputs_text(parts)

    def refusal(self, known: dict[str, int]) -> SignoffError | None:
        """Return why it cannot be a new call: its id is too long, or its outcome was received already."""
        if (error := size_error(self.id)) is not None:
            return error
        if self.chosen_id is None or self.chosen_id not in known:
            return None
        return IdConflict(
            self.chosen_id,
            f"this run has already received the outcome of that promise (call {known[self.chosen_id]}); "
            f"in a loop, use another id for each iteration, such as {self.chosen_id + '-2'!r}",
        )

    def new_promise(self, now: float) -> NewPromise:
        """Return the promise to create, for a call at journal time ``now``."""
        due_at = None if self.timeout is None else now + self.timeout
        return NewPromise(self.id, PromiseKind(self.kind), self.run.id, self.n, due_at=due_at, data=self.data)

    def facts(self, new: NewPromise) -> dict[str, Any]:
        """Return the journaled details of its opening."""
        return {"id": new.id, "due_at": new.due_at}

    def outcome(self, entry: Entry) -> Any:
        if self.chosen_id is not None:
            self._execution.know_promise(self.chosen_id, self.n)
        state = entry.state
        if state == PromiseState.RESOLVED:
            return self.answered(entry)
        if state == PromiseState.TIMED_OUT:
            raise self.timed_out()
        if state == PromiseState.CANCELLED:
            raise self.cancelled(entry)
        raise PromiseRejected(self.id, codec.decode(entry.value or "null"))

    def answered(self, entry: Entry) -> Any:
        """Return the value of a resolution."""
        return codec.decode(entry.value or "null", self.returns)

    def cancelled(self, entry: Entry) -> Exception:
        """Return the error for a cancelled promise."""
        return PromiseCancelled(self.id)

    def timed_out(self) -> Exception:
        """Return the error for a promise that timed out."""
        return PromiseTimeout(self.id)


class SignalCall(Call[Any]):
    """A wait for the next signal of a name."""

    kind = CallKind.SIGNAL
    __slots__ = ("due_at", "returns", "timeout")

    def __init__(self, execution: Execution, name: str, timeout: float | None, returns: Any) -> None:
        checked_timeout = check_seconds("timeout_seconds", timeout)
        codec.check_type("returns", returns)
        super().__init__(execution, name)
        self.timeout = checked_timeout
        self.returns = returns
        self.due_at: float | None = None

    def inputs_now(self) -> str | None:
        return None if self.timeout is None else inputs_text({"timeout_seconds": json.dumps(self.timeout)})

    def outcome(self, entry: Entry) -> Any:
        if entry.kind is EntryKind.COMPLETED and entry.state == PromiseState.TIMED_OUT:
            raise SignalTimeout(f"signal {self.name!r}", self.timeout or 0.0)
        return codec.decode(entry.value or "null", self.returns)


class OwnSignalCall(SignalCall):
    """A signal that Signoff's own code waits for, and always awaits."""

    __slots__ = ()

    def _build(self, execution: Execution) -> None:
        self._execution = execution
        self._is_begun = True


class TimerCall(Call[None]):
    """A durable timer: the journal time at which the loop runs a callback."""

    kind = CallKind.TIMER
    __slots__ = ("due_at", "timer")

    def __init__(self, execution: Execution, timer: TimerCallback) -> None:
        super().__init__(execution, "")
        self.timer = timer
        self.due_at = timer.when()

    def _build(self, execution: Execution) -> None:
        self._execution = execution
        self._is_begun = True  # timers are never awaited directly

    def inputs_now(self) -> str | None:
        return f'{{"seconds":{round(min(self.due_at - self._execution.loop.time(), 1e15), 6)}}}'

    def settle(self, entry: Entry) -> None:
        self._execution.fire(self)


class ProgressCall(Call[None]):
    """A progress report. It has no outcome to wait for."""

    kind = CallKind.PROGRESS
    __slots__ = ("value",)

    def __init__(self, execution: Execution, name: str, value: str) -> None:
        super().__init__(execution, name)
        self.value = value

    def inputs_now(self) -> str | None:
        return None if self.value == "{}" else inputs_text({"details": folded(self.value)})


def size_error(id: str, **names: str) -> InvalidValue | None:
    """Return the error for an id or a name that is too long for a store's index, or None."""
    try:
        check_size("id", id, LONGEST_ID_BYTES)
        for field, name in names.items():
            check_size(field, name)
    except InvalidValue as error:
        return error
    return None


def check_name(what: str, name: object) -> None:
    """Check the name of a call.

    Raises:
        InvalidValue: The journal cannot keep it.
    """
    if not isinstance(name, str):
        raise InvalidValue(what, f"must be text, not {type(name).__name__}")
    check_optional_text(what, name)
