"""What a run can ask of its context. A call takes its number when it is first awaited, not before.

A call is awaitable. ``options`` may change it until then.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from signoff import codec
from signoff.engine.run.call_inputs import CAPTURED, arguments_text, compared_text, folded, inputs_text, own
from signoff.engine.run.loop_callbacks import TimerCallback
from signoff.engine.run.unawaited_context_calls import Built
from signoff.engine.run.value_copies import are_unchanging
from signoff.engine.steps.captured_values import (
    WITH_CODE,
    argument_captures,
    brings_nothing,
    captured_texts,
    is_process_wide,
    note_variables,
    warn_of_unstable_self,
)
from signoff.engine.steps.function_identity import PART as FUNCTION_PART
from signoff.engine.steps.function_identity import identity_of, is_setting, wraps
from signoff.engine.steps.live_stream import Speech, Voice
from signoff.engine.steps.options import UNSAID, Effect, StepOptions
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.steps.step_arguments import Given
from signoff.engine.steps.step_function import Callee
from signoff.errors import (
    BeyondStep,
    CircularWait,
    IdConflict,
    InvalidValue,
    PromiseCancelled,
    PromiseRejected,
    PromiseTimeout,
    RegistrationError,
    RunCancelled,
    SignalTimeout,
    SignoffError,
)
from signoff.observability.trace_context import traceparent_of
from signoff.records import (
    CallKind,
    Entry,
    EntryKind,
    NewPromise,
    NewRun,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
)
from signoff.records.names import LONGEST_ID_BYTES, check_size
from signoff.records.start_options import check_delay, check_id, check_priority, check_seconds, unix_time
from signoff.records.texts import check_text

if TYPE_CHECKING:
    from signoff.engine.run.execution import Execution

T = TypeVar("T")


_NAMED: Final = frozenset(
    (CallKind.STEP, CallKind.SIGNAL, CallKind.CHILD, CallKind.DETACHED, CallKind.PROGRESS)
)

_good_names: set[str] = set()
"""Names of calls of any kind that were checked: most runs use the same."""

_MOST_NAMES: Final = 4_096


class Call(Built, Generic[T]):
    """One thing asked of the context; awaitable.

    Attributes:
        n: Its number in the run; 0 until it is issued.
        name: What it is called in the journal.
        inputs: What it was called with, as JSON, once it is issued; None: with nothing.
        is_journaled: Whether the journal has its inputs.
    """

    kind: ClassVar[CallKind]
    is_kept_elsewhere: ClassVar[bool] = False  # what it asks for has a row of its own: see `refusal`
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
            raise InvalidValue(f"{self.kind} name", "it is empty; give it a name that never changes")

    @property
    def said(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def run(self) -> Run:
        """The run that asks."""
        return self._execution.run

    def begin(self) -> asyncio.Future[T]:
        """Issue the call, once; later awaits share its outcome."""
        if self.future is None:
            self._take()
            self.future = self._execution.issue(self)
        return self.future

    @contextmanager
    def _dropped_if_refused(self) -> Generator[None]:
        """Whoever is told that the options are wrong need not be told that the call was never awaited."""
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
        """Return what it is called with, as JSON for a replay to compare; None: with nothing."""
        return None

    def refusal(self, known: dict[str, int]) -> SignoffError | None:
        """Return why it cannot be a new call of its run, which has had the outcomes of these promises."""
        return None

    def explains(
        self, found: Sequence[tuple[str, str]], recorded: Mapping[str, Any], roots: Sequence[object]
    ) -> bool:
        """Whether the same call may differ so from what the journal has.

        Args:
            found: What differs, see ``differing``.
            recorded: The inputs that the journal has.
            roots: What all runs share, besides modules.
        """
        return False

    def replaced(
        self, functions: Sequence[tuple[str, str]], roots: Sequence[object]
    ) -> Sequence[tuple[str, str]]:
        """Return the functions that it calls in place of those that the journal has.

        Args:
            functions: Those that differ: their identities, as the journal and this call have them.
            roots: What all runs share, besides modules.
        """
        return ()

    def settle(self, entry: Entry) -> None:
        """Give the code what the journal holds as this call's outcome."""
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
        """Turn a ``COMPLETED`` entry into the value, or raise the error."""
        raise NotImplementedError(self.kind)


_OF_FUNCTION: Final = ("args", CAPTURED, "compare")
"""The parts of a step's inputs that ``compare=None`` leaves out."""


class StepCall(Call[Any]):
    """Ordinary code, run by the worker outside the workflow's loop."""

    kind = CallKind.STEP
    own_depth = 4  # and of its own __init__ and of Context.step
    depth = 1  # only flows and agents make steps for users, and these they await
    __slots__ = (
        "args",
        "attempt",
        "blamed",
        "callee",
        "computed",
        "context",
        "context_given",
        "ends",
        "fatal",
        "function",
        "given",
        "has_tasks",
        "kwargs",
        "refused",
        "speech",
        "step_options",
        "task",
        "thread_wait",
        "voice",
    )

    task: asyncio.Task[Any]  # of the attempt, once one was made
    blamed: BeyondStep  # if its code did what ends its worker
    fatal: BaseException  # with which the attempt fails wherever its code waits, if something has ended it

    def __init__(
        self,
        execution: Execution,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        step_options: StepOptions,
        context_given: object = None,
        callee: Callee | None = None,
    ) -> None:
        super().__init__(execution, name)
        self.callee = callee  # what is known of the function
        self.context_given = context_given  # among its arguments; it is not compared
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.step_options = step_options
        self.given: Given | None = None  # copies for its attempts; None: they get what it was called with
        self.computed: Any = UNSAID  # the value just computed here, so that it need not be decoded again
        self.context: contextvars.Context | None = None  # of the code that awaits it, for the step to see
        self.attempt = 0  # that is made, or was last
        self.thread_wait = 0.0  # for how many seconds that attempt has waited for a thread
        self.has_tasks = False  # made by its code
        self.refused: SignoffError | None = None  # what its code may not do, such as to ask a question here
        self.speech: Speech | None = None  # while it is made
        self.voice: Voice | None = None  # of that attempt, once it is asked for
        self.ends: Sequence[tuple[float, Entry]] = ()  # of its attempts, see ``Past.ends``

    @property
    def idempotency_key(self) -> str:
        """The same at every attempt."""
        return self.step_options.key or f"{self.run.id}.{self.n}"

    @property
    def attempt_times(self) -> Sequence[tuple[datetime, datetime]]:
        """When each attempt began and ended (UTC), once the step has its outcome. The same at every replay.

        What lies between two attempts is back-off, or waiting for a person. An attempt that was interrupted has no
        time: nobody knows when it ended.
        """
        times = [_times_of(before, entry) for before, entry in self.ends if entry.state is None]
        return [(datetime.fromtimestamp(began, UTC), datetime.fromtimestamp(at, UTC)) for began, at in times]

    @property
    def shared(self) -> Sequence[object]:
        """What all runs of the workflow share, besides modules."""
        return self._execution.shared

    def is_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it is a step of the run whose code runs on a loop."""
        return self._execution.loop is loop

    def disturb(self, error: SignoffError) -> None:
        """Stop the run, retryably: code of the step has woken code of the run, which a replay would not."""
        self._execution.refuse(error)

    def voice_of(self, attempt: int) -> Voice | None:
        """Return the voice of an attempt; None if it has ended. From any thread."""
        return None if self.speech is None else self.speech.voice(self, attempt)

    def hush(self) -> Voice | None:
        """Silence the attempt that was made. Returns its voice, if it had one."""
        return None if self.speech is None else self.speech.hush(self)

    def begin(self) -> asyncio.Future[Any]:
        if self.future is not None:
            return self.future
        self._take()
        self.future = future = self._execution.issue(self)
        if not (self.step_options.durable and self.n in self._execution.past.completed):
            self.context = contextvars.copy_context()
            callee = self.callee
            # A function of a module, which gets nothing that could be changed in place, gets the very objects.
            if callee is None or not (
                callee.is_own
                or (
                    not self.kwargs
                    and are_unchanging(self.args)
                    and (not callee.is_bound or brings_nothing(self.function))
                )
            ):
                self.given = self._given_now()
        return future

    def _given_now(self) -> Given | None:
        if self.callee is None and own(self.function):
            return None
        given = Given.now(self.function, self.args, self.kwargs, is_known=self.callee is not None)
        return None if given.shares_all else given

    @property
    def _is_own(self) -> bool:
        return own(self.function) if self.callee is None else self.callee.is_own

    def inputs_now(self) -> str | None:
        options, callee = self.step_options, self.callee
        if (
            callee is not None
            and options.compare is UNSAID
            and options.key is None
            and not self.kwargs
            and (not callee.is_bound or brings_nothing(self.function))
        ):
            if callee.is_own:
                return None
            tail = callee.tail_of(self.name, self._execution.program.home, self.function)
            if not self.args:
                return tail and "{" + tail
            if self.context_given is None:
                text = callee.inputs_of(self.name, self.args)
                if text is not None:
                    return f"{text[:-1]},{tail}" if tail else text
        parts = dict[str, str]()
        if options.compare is not UNSAID:
            if options.compare is not None:
                parts["compare"] = compared_text(self.name, self.function, options.compare)
        elif not self._is_own:
            text = arguments_text(self.name, self.function, self.args, self.kwargs, self.context_given)
            if text is not None:
                parts["args"] = text
            captured = captured_texts(self.function) | self._argument_captures()
            if captured:
                parts[CAPTURED] = inputs_text(captured) or "{}"
            elif not isinstance(self.function, FunctionType):
                warn_of_unstable_self(self.name, self.function, self._execution.shared)
            identity = identity_of(self.function)
            if identity != self._execution.function_named(self.name):
                parts[FUNCTION_PART] = json.dumps(identity)
        if options.key is not None:
            parts["key"] = json.dumps(options.key)
        return inputs_text(parts)

    def _argument_captures(self) -> dict[str, str]:
        held = [*self.args, *self.kwargs.values()]
        if isinstance(cast("object", self.function), functools.partial):
            made = cast("functools.partial[Any]", self.function)
            held += [*made.args, *made.keywords.values()]
        found = False
        for each in held:
            if isinstance(each, WITH_CODE):
                note_variables(cast("Any", each), self._execution.codes)
                found = True
        if not found:
            return {}
        return argument_captures(self.function, self.args, self.kwargs)

    def replaced(
        self, functions: Sequence[tuple[str, str]], roots: Sequence[object]
    ) -> Sequence[tuple[str, str]]:
        if self.step_options.compare is not UNSAID:
            return ()
        if own(self.function):  # such as what stands in for a tool that is gone
            return ()
        function = identity_of(self.function)
        return [
            (was, now)
            for was, now in functions
            if now != function or not (wraps(self.function, was) or is_setting(was, self.function, roots))
        ]

    def explains(
        self, found: Sequence[tuple[str, str]], recorded: Mapping[str, Any], roots: Sequence[object]
    ) -> bool:
        compare = self.step_options.compare
        if own(self.function) and ("compare" in recorded) is (compare is None or compare is UNSAID):
            return True  # other code of ours, such as what stands in for a tool that is gone, may know less of it
        if compare is None:
            found = [each for each in found if each[0] not in _OF_FUNCTION]
        names = [name for part, name in found if part == CAPTURED and name]
        if len(names) < len(found):
            return False
        captured: dict[str, Any] = recorded.get(CAPTURED, {})
        return is_process_wide(self.function, names, captured, roots, self.args, self.kwargs)

    def outcome(self, entry: Entry) -> Any:
        self.ends = self._execution.past.ends.get(self.n, ())
        if entry.error is not None:
            raise self._execution.error_of(entry.error)
        if self.computed is not UNSAID:
            value, self.computed = self.computed, UNSAID
            return value
        assert entry.value is not None
        return codec.decode(entry.value, self.step_options.returns)

    def options(
        self,
        *,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        durable: bool | None = None,
        non_retryable: tuple[type[BaseException], ...] | None = None,
        non_retryable_exceptions: tuple[type[BaseException], ...] | None = None,
        effect: Effect | None = None,
        key: str | None = None,
        returns: Any = None,
        operators: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        compare: Any = UNSAID,
    ) -> StepCall:
        """Change how the step is run; what is not given stays as it is.

        ``non_retryable_exceptions`` is another spelling of ``non_retryable``. See ``Context.step`` for the rest.

        Raises:
            RegistrationError: The step is under way already, or the options contradict each other.
        """
        if self.future is not None:
            raise RegistrationError(f"step {self.name!r} has already started: set options before the await")
        old = self.step_options
        changed = StepOptions(
            retry=old.retry if retry is None else retry,
            timeout=old.timeout if timeout is None else timeout,
            durable=old.durable if durable is None else durable,
            non_retryable=non_retryable or non_retryable_exceptions or old.non_retryable,
            effect=old.effect if effect is None else effect,
            key=old.key if key is None else key,
            returns=old.returns if returns is None else returns,
            operators=old.operators if operators is None else operators,
            metadata=old.metadata if metadata is None else metadata,
            compare=old.compare if compare is UNSAID else compare,
            on_failure=old.on_failure,
        )
        with self._dropped_if_refused():
            changed.check(self.said)
            if returns is not None:
                codec.check_type(f"{self.said}: returns", returns)
        self.step_options = changed
        return self


class OwnStepCall(StepCall):
    """A step of Signoff's own code, which always awaits it. Its options are checked already and set ``compare``.

    Its function takes no arguments, and its closure is not compared.
    """

    __slots__ = ()

    def _build(self, execution: Execution) -> None:
        self._execution = execution
        self._is_begun = True  # no line of a user could forget to await it

    def _given_now(self) -> None:
        return None


class PromiseCall(Call[Any]):
    """A promise that something outside settles."""

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
        self.shown = shown  # the code's own part of the data
        self.returns = returns

    @property
    def id(self) -> str:
        """The promise's id."""
        return self.chosen_id or f"{self.run.id}.{self.n}"

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
        """Return why it cannot be a new call of its run, which has had the outcomes of these promises."""
        if (too_long := _too_long(self.id)) is not None:
            return too_long
        if self.chosen_id is None or self.chosen_id not in known:
            return None
        return IdConflict(
            self.chosen_id,
            f"this run has had the outcome of that promise (call {known[self.chosen_id]}), which is settled once; "
            f"in a loop, give each round its own id, such as {self.chosen_id + '-2'!r}",
        )

    def new_promise(self, now: float) -> NewPromise:
        """What the store is to create, for a promise opened at journal time ``now``."""
        due_at = None if self.timeout is None else now + self.timeout
        return NewPromise(self.id, PromiseKind(self.kind), self.run.id, self.n, due_at=due_at, data=self.data)

    def facts(self, new: NewPromise) -> dict[str, Any]:
        """What the journal keeps of its opening."""
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
        """Turn a resolution into the value the code gets."""
        return codec.decode(entry.value or "null", self.returns)

    def cancelled(self, entry: Entry) -> Exception:
        """Make the error of a promise that was cancelled from outside."""
        return PromiseCancelled(self.id)

    def timed_out(self) -> Exception:
        """Make the error of a promise whose deadline passed."""
        return PromiseTimeout(self.id)


class ChildCall(Call[Any]):
    """Another run, whose result this run waits for."""

    kind = CallKind.CHILD
    is_kept_elsewhere = True
    __slots__ = (
        "arguments",
        "chosen_id",
        "delay",
        "group",
        "priority",
        "returns",
        "slot",
        "start_at",
        "timeout",
        "workflow",
    )

    def __init__(
        self,
        execution: Execution,
        workflow: str,
        group: str,
        arguments: str,
        returns: Any,
        slot: tuple[str | None, int | None] = (None, None),
    ) -> None:
        super().__init__(execution, workflow)
        self.workflow = workflow
        self.group = group
        self.arguments = arguments
        self.returns = returns
        self.chosen_id: str | None = None
        self.timeout: float | None = None
        self.priority = execution.run.priority
        self.slot = slot
        self.start_at: float | None = None
        self.delay: float | None = None

    def _check_circle(self, id: str) -> str:
        """Refuse to wait for this run or its parent. The store finds longer circles, when it is asked for the child."""
        run = self.run
        if self.kind is not CallKind.CHILD:
            return id
        if id == run.id:
            raise CircularWait([id, id])
        if id == run.parent_id and run.parent_n is not None:
            raise CircularWait([run.id, id, run.id])
        return id

    @property
    def id(self) -> str:
        """The child run's id."""
        return self.chosen_id or f"{self.run.id}.{self.n}"

    def refusal(self, known: dict[str, int]) -> SignoffError | None:
        """Return why it cannot be a new call: no store could keep the child run."""
        return _too_long(self.id, workflow=self.workflow, group=self.group)

    def inputs_now(self) -> str | None:
        parts = {"arguments": folded(self.arguments), "group": json.dumps(self.group)}
        if self.chosen_id is not None:
            parts["id"] = json.dumps(self.chosen_id)
        later = {"timeout": self.timeout, "start_at": self.start_at, "delay_seconds": self.delay}
        parts |= {name: json.dumps(value) for name, value in later.items() if value is not None}
        return inputs_text(parts)

    def new_run(self, now: float) -> NewRun:
        """What the store is to create, for a child started at journal time ``now``."""
        parent = self.run
        start_at = self.start_at if self.delay is None else now + self.delay
        starts = now if start_at is None else max(now, start_at)
        return NewRun(
            id=self.id,
            workflow=self.workflow,
            group=self.group,
            arguments=self.arguments,
            parent_id=parent.id,
            parent_n=self.n,
            deadline_at=None if self.timeout is None else starts + self.timeout,
            priority=self.priority,
            start_at=start_at,
            concurrency_key=self.slot[0],
            concurrency_limit=self.slot[1],
            traceparent=traceparent_of(parent.namespace, parent.id, parent.traceparent),
            started_by=parent.started_by,
        )

    def outcome(self, entry: Entry) -> Any:
        if entry.state == RunState.SUCCEEDED:
            return codec.decode(entry.value or "null", self.returns)
        if entry.error is not None:
            raise self._execution.error_of(entry.error)
        raise RunCancelled(self.id)

    def options(
        self,
        *,
        id: str | None = None,
        target: str | None = None,
        timeout: float | None = None,
        returns: Any = None,
        priority: int | None = None,
        start_at: datetime | None = None,
        delay_seconds: float | None = None,
    ) -> ChildCall:
        """Change how the child run is started; what is not given stays as it is.

        Args:
            id: A chosen id. A run that has it already is joined if its workflow and arguments are the same.
            target: Where it runs: ``poll://any@group``, or just the group.
            timeout: Its deadline, in seconds from its start.
            returns: The type its result is brought back as.
            priority: Of the runs that are ready, workers take those of the highest first; by default this run's.
            start_at: When to start it, with a time zone.
            delay_seconds: After how long to start it, instead of ``start_at``.

        Raises:
            RegistrationError: It is under way already.
            InvalidValue: A priority that is no whole number, a time without its zone, or both kinds of delay.
        """
        if self.future is not None:
            raise RegistrationError(f"child {self.name!r} has already started: set options before the await")
        with self._dropped_if_refused():
            self.chosen_id = self.chosen_id if id is None else self._check_circle(check_id(id))
            self.group = self.group if target is None else group_of(target)
            self.timeout = self.timeout if timeout is None else check_seconds("timeout", timeout)
            if returns is not None:
                codec.check_type(f"{self.said}: returns", returns)
                self.returns = returns
            self.priority = self.priority if priority is None else check_priority(priority)
            self.start_at = self.start_at if start_at is None else unix_time(start_at)
            self.delay = self.delay if delay_seconds is None else check_delay("delay_seconds", delay_seconds)
            if self.start_at is not None and self.delay is not None:
                raise InvalidValue("delay_seconds", "there is a start_at, too; give one of them")
        return self


class DetachedCall(ChildCall):
    """Another run that this run starts and does not wait for."""

    kind = CallKind.DETACHED
    __slots__ = ()

    def new_run(self, now: float) -> NewRun:
        return replace(ChildCall.new_run(self, now), parent_id=None, parent_n=None)


class SignalCall(Call[Any]):
    """The next signal of a name."""

    kind = CallKind.SIGNAL
    __slots__ = ("due_at", "kept", "returns", "timeout")

    def __init__(self, execution: Execution, name: str, timeout: float | None, returns: Any) -> None:
        checked_timeout = check_seconds("timeout_seconds", timeout)
        codec.check_type("returns", returns)
        super().__init__(execution, name)
        self.timeout = checked_timeout
        self.returns = returns
        self.due_at: float | None = None
        self.kept: Entry | None = None  # the signal it has got, if that was there before the call

    def inputs_now(self) -> str | None:
        return None if self.timeout is None else inputs_text({"timeout_seconds": json.dumps(self.timeout)})

    def outcome(self, entry: Entry) -> Any:
        if entry.kind is EntryKind.COMPLETED and entry.state == PromiseState.TIMED_OUT:
            raise SignalTimeout(f"signal {self.name!r}", self.timeout or 0.0)
        return codec.decode(entry.value or "null", self.returns)


class OwnSignalCall(SignalCall):
    """A signal that Signoff's own code waits for. It always awaits the call."""

    __slots__ = ()

    def _build(self, execution: Execution) -> None:
        self._execution = execution
        self._is_begun = True


class TimerCall(Call[None]):
    """A moment in journal time at which the loop makes a callback ready."""

    kind = CallKind.TIMER
    __slots__ = ("due_at", "timer")

    def __init__(self, execution: Execution, timer: TimerCallback) -> None:
        super().__init__(execution, "")
        self.timer = timer
        self.due_at = timer.when()

    def _build(self, execution: Execution) -> None:
        self._execution = execution
        self._is_begun = True  # a timer is never awaited itself

    def inputs_now(self) -> str | None:
        return f'{{"seconds":{round(min(self.due_at - self._execution.loop.time(), 1e15), 6)}}}'

    def settle(self, entry: Entry) -> None:
        self._execution.fire(self)


class ProgressCall(Call[None]):
    """A note about how far the run is, for people; it waits for nothing."""

    kind = CallKind.PROGRESS
    __slots__ = ("value",)

    def __init__(self, execution: Execution, name: str, value: str) -> None:
        super().__init__(execution, name)
        self.value = value

    def inputs_now(self) -> str | None:
        return None if self.value == "{}" else inputs_text({"details": folded(self.value)})


def _times_of(before: float, entry: Entry) -> tuple[float, float]:
    """Return when an attempt began and ended, by the entry that says how."""
    began: float | None = entry.fact("started_at")
    return min(before if began is None else began, entry.at), entry.at


def _too_long(id: str, **names: str) -> InvalidValue | None:
    """Return the error of an id or a name that is longer than an index of a store can hold."""
    try:
        check_size("id", id, LONGEST_ID_BYTES)
        for field, name in names.items():
            check_size(field, name)
    except InvalidValue as error:
        return error
    return None


def check_name(what: str, name: object) -> None:
    """Raise InvalidValue for a name that the journal cannot keep."""
    if not isinstance(name, str):
        raise InvalidValue(what, f"it is text, not {type(name).__name__}")
    check_text(what, name)


def group_of(target: str) -> str:
    """Return the group that a target names.

    Args:
        target: ``poll://any@group``, or the group alone.

    Raises:
        RegistrationError: It is neither.
    """
    if "://" not in target and target.strip():
        return target
    scheme, _, rest = target.partition("://")
    _, at, group = rest.rpartition("@")
    if scheme != "poll" or not at or not group:
        raise RegistrationError(f"target {target!r} is not of the form poll://any@group")
    return group
