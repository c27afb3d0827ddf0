"""Steps: calls that run ordinary code outside the run's event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from signoff import codec
from signoff.engine.run.call_inputs import (
    CAPTURED,
    ComparedTexts,
    arguments_text,
    compared_text,
    inputs_text,
    own,
)
from signoff.engine.run.calls import Call
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
from signoff.engine.steps.function_identity import identity_of, is_setting, shortened, wraps
from signoff.engine.steps.live_stream import LiveStream, LiveStreams
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.steps.step_arguments import StepArguments
from signoff.engine.steps.step_function import StepFunction
from signoff.engine.steps.step_options import UNSAID, Effect, StepOptions
from signoff.engine.steps.threads import StepThreads
from signoff.errors import (
    BeyondStep,
    RegistrationError,
    SignoffError,
)
from signoff.observability.current_run import Occupied
from signoff.records import (
    CallKind,
    Entry,
)

if TYPE_CHECKING:
    from signoff.engine.run.execution import Execution

_OF_FUNCTION: Final = ("args", CAPTURED, "compare")
"""The inputs of a step that ``compare=None`` ignores."""


class StepCall(Call[Any]):
    """A step: ordinary code that the worker runs outside the run's event loop."""

    kind = CallKind.STEP
    own_depth = 4  # plus its own __init__ and Context.step
    depth = 1  # only flows and agents make steps on behalf of users, and they always await them
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
        "live_stream",
        "live_streams",
        "refused",
        "step_options",
        "task",
        "thread_wait",
        "threads",
        "worker",
    )

    task: asyncio.Task[Any]  # the current attempt's, if there is one
    blamed: BeyondStep  # set if its code did something that would end the worker
    # Set if the attempt was ended from outside: the error it fails with, wherever its code waits.
    fatal: BaseException

    def __init__(
        self,
        execution: Execution,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        step_options: StepOptions,
        context_given: object = None,
        callee: StepFunction | None = None,
    ) -> None:
        super().__init__(execution, name)
        self.callee = callee  # known facts about the function
        self.context_given = context_given  # an argument that is not compared
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.step_options = step_options
        self.given: StepArguments | None = None  # copied arguments for its attempts; None: use the originals
        self.computed: Any = UNSAID  # the value computed here, to save decoding it
        self.context: contextvars.Context | None = None  # that of the awaiting code, for the step
        self.attempt = 0  # the current or latest attempt
        self.thread_wait = 0.0  # seconds that the attempt has waited for threads
        self.threads: StepThreads | None = None  # of the worker that makes the attempt
        self.worker: Occupied | None = None
        self.has_tasks = False  # whether its code has created tasks
        self.refused: SignoffError | None = None  # a call that is not allowed inside a step
        self.live_streams: LiveStreams | None = None  # while an attempt runs
        self.live_stream: LiveStream | None = None  # the attempt's live stream, once used
        self.ends: Sequence[tuple[float, Entry]] = ()  # ends of its attempts; see `ReplayIndex.ends`

    @property
    def idempotency_key(self) -> str:
        """The idempotency key, identical for all attempts."""
        return self.step_options.key or f"{self.run.id}.{self.n}"

    @property
    def attempt_times(self) -> Sequence[tuple[datetime, datetime]]:
        """The start and end time (UTC) of each attempt, once the step has its outcome. Identical at every replay.

        The time between two attempts is back-off, or a wait for a person. An interrupted attempt is not listed: its end
        is unknown.
        """
        times = [_times_of(before, entry) for before, entry in self.ends if entry.state is None]
        return [(datetime.fromtimestamp(began, UTC), datetime.fromtimestamp(at, UTC)) for began, at in times]

    @property
    def shared(self) -> Sequence[object]:
        """Objects shared by all runs of the workflow, besides modules."""
        return self._execution.shared

    def is_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether it is a step of the run that the loop belongs to."""
        return self._execution.loop is loop

    def disturb(self, error: SignoffError) -> None:
        """Stop the run retryably, because the step's code has woken workflow code, which replay could not repeat."""
        self._execution.refuse(error)

    def live_of(self, attempt: int) -> LiveStream | None:
        """Return the live stream of an attempt, or None if the attempt has ended. Thread-safe."""
        return None if self.live_streams is None else self.live_streams.live_stream(self, attempt)

    def close_live(self) -> LiveStream | None:
        """Close the attempt's live stream and return it, if one was opened."""
        return None if self.live_streams is None else self.live_streams.close_live(self)

    def begin(self) -> asyncio.Future[Any]:
        if self.future is not None:
            return self.future
        self._take()
        self.future = future = self._execution.issue(self)
        if not (self.step_options.durable and self.n in self._execution.past.completed):
            self.context = contextvars.copy_context()
            callee = self.callee
            # A module-level function gets the original arguments if they are immutable.
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

    def _given_now(self) -> StepArguments | None:
        if self.callee is None and own(self.function):
            return None
        given = StepArguments.now(self.function, self.args, self.kwargs, is_known=self.callee is not None)
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
            if isinstance(options.compare, ComparedTexts):
                parts |= options.compare.texts
            elif options.compare is not None:
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
                parts[FUNCTION_PART] = json.dumps(shortened(identity, self._execution.program.home))
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
        if own(self.function):  # such as the stub of a removed tool
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
            # Signoff's own code, such as the stub of a removed tool, may know fewer of the inputs.
            return True
        if compare is None:
            found = [each for each in found if each[0] not in _OF_FUNCTION]
        names = [name for part, name in found if part == CAPTURED and name]
        if len(names) < len(found):
            return False
        captured: dict[str, Any] = recorded.get(CAPTURED, {})
        return is_process_wide(self.function, names, captured, roots, self.args, self.kwargs)

    def ask_operators(self, operators: Sequence[str], metadata: Mapping[str, Any] | None = None) -> None:
        """Set the question about an interrupted attempt that the journal shows, whatever effect this code declares.

        Args:
            operators: The people to ask; empty: the app's.
            metadata: The data to show; None: that of the step's options.
        """
        options = self.step_options
        options.operators = operators or options.operators
        options.metadata = options.metadata if metadata is None else metadata

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
        """Set options of the step. Options that are not given stay unchanged.

        ``non_retryable_exceptions`` is an alias of ``non_retryable``. See ``Context.step`` for the others.

        Raises:
            RegistrationError: The step has already started, or the options contradict each other.
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
            changed.check(self.label)
            if returns is not None:
                codec.check_type(f"{self.label}: returns", returns)
        self.step_options = changed
        return self


class OwnStepCall(StepCall):
    """A step of Signoff's own code, which always awaits it. Its options are already checked and set ``compare``.

    Its function takes no arguments, and its closure is not compared.
    """

    __slots__ = ()

    def _build(self, execution: Execution) -> None:
        self._execution = execution
        self._is_begun = True  # no user code can forget to await it

    def _given_now(self) -> None:
        return None


def _times_of(before: float, entry: Entry) -> tuple[float, float]:
    """Return when an attempt began and ended, from the entry of its end."""
    began: float | None = entry.fact("started_at")
    return min(before if began is None else began, entry.at), entry.at
