"""Chunks: functions that run as steps. All effects of a chunk are one record."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import types
import typing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from signoff import codec
from signoff.codec.annotations import Unreadable, reader
from signoff.engine.steps.attempt import current_step
from signoff.engine.steps.loop_containment import let_begin
from signoff.engine.steps.step_options import StepOptions
from signoff.errors import InvalidValue, RegistrationError
from signoff.flows.data import Data, Left, Paused, Resume, Surroundings, Write
from signoff.flows.errors import ChunkHeld, DuplicateInterrupt, NotAwaited, PauseIgnored, reason_of, shortened
from signoff.flows.functions import is_async, unwrapped
from signoff.flows.pauses import Pause
from signoff.workflow.context import Context, own_step

MARK: Final = "signoff_chunk"

LIVE: Final = "chunk"
BEGUN: Final = "begun"
"""The live text of a chunk that begins. The journal has the chunk only once it has ended."""

NEVER_BETTER: Final = (RegistrationError, InvalidValue, DuplicateInterrupt, NotAwaited, PauseIgnored)
"""Errors that another attempt would raise again."""


@dataclass(frozen=True)
class Chunk:
    """A registered chunk.

    Attributes:
        name: Its name in graphs, journals and snapshots.
        function: Its function.
        options: The options of its step.
        input_type: The type of its input.
    """

    name: str
    function: Callable[[Data[Any]], Any]
    options: StepOptions
    input_type: Any = field(default=Any)

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether a call of its function returns a coroutine."""
        return is_async(self.function)

    @functools.cached_property
    def non_retryable(self) -> tuple[type[BaseException], ...]:
        """The exceptions that end the retries."""
        return (*NEVER_BETTER, *self.options.non_retryable)


@dataclass(frozen=True)
class Moment:
    """A line's current position in its data.

    Attributes:
        input: The current value.
        event: The source that started the line.
        index: The index of an item of ``for_each``.
        items: The index and count of each enclosing item, the outermost first.
    """

    input: Any
    event: str
    index: int | None = None
    items: tuple[tuple[int, int], ...] = ()

    def with_input(self, input: Any) -> Moment:
        """Return the moment after an operation that has replaced the value."""
        return Moment(input, self.event, self.index, self.items)

    def of_item(self, item: Any, index: int, count: int) -> Moment:
        """Return the moment of an item of this moment's list."""
        return Moment(item, self.event, index, (*self.items, (index, count)))

    @property
    def text(self) -> str:
        """The value as JSON."""
        return codec.encode(self.input, path="input")

    def data(self, around: Surroundings, resume: Resume | None = None, input_type: Any = Any) -> Data[Any]:
        """Return the data of a chunk.

        Raises:
            InvalidValue: The value does not match the chunk's declared type.
        """
        given = codec.decode(self.text, input_type, path="input")
        return Data(given, self.event, self.index, resume, around)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a chunk."""

    output: Any
    writes: Sequence[Write] = ()
    events: tuple[tuple[str, Any], ...] = ()
    pause: Pause | None = None


async def settled(ctx: Context, chunk: Chunk, place: str, moment: Moment) -> Moment:
    """Decode a chunk's input once, so that every attempt and every resume gets the same value.

    Args:
        ctx: The run's context.
        chunk: The chunk to run.
        place: Its place in the graph.
        moment: Its input.
    """
    text = None if chunk.input_type is Any else codec.settled_value(moment.text, chunk.input_type)
    if text is None:
        return moment

    async def read() -> Any:
        return json.loads(text)

    read_once = await ctx.step(f"{place}: input", read, returns=Any, compare=moment.input)
    return moment.with_input(read_once)


async def run_chunk(
    ctx: Context,
    chunk: Chunk,
    place: str,
    moment: Moment,
    resume: Resume | None,
    around: Surroundings,
) -> Outcome:
    """Run a chunk as one step of the run.

    Args:
        ctx: The run's context.
        chunk: The chunk.
        place: Its place in the graph, which is the step's name.
        moment: Its input.
        resume: The answer, if it runs again with one.
        around: The execution, as the chunk sees it.
    """

    def data() -> Data[Any]:
        return moment.data(around, resume, chunk.input_type)

    async def run_async() -> Any:
        with data().attempt() as given:
            current_step().live(BEGUN, LIVE)
            try:
                output = await cast("Awaitable[Any]", chunk.function(given))
                await let_begin()  # so that a pause in an unawaited task is noticed
            except BaseException as error:
                output = _left(given, error)
            finally:
                given.end()
            return _recorded(given, output, chunk, place, moment.items)

    def run_plain() -> Any:
        with data().attempt() as given:
            current_step().live(BEGUN, LIVE)
            try:
                output = chunk.function(given)
            except BaseException as error:
                output = _left(given, error)
            finally:
                given.end()
            return _recorded(given, output, chunk, place, moment.items)

    options = StepOptions(
        retry=chunk.options.retry,
        timeout=chunk.options.timeout,
        effect=chunk.options.effect,
        non_retryable=chunk.non_retryable,
        compare=moment.input,
        on_failure=lambda error: ChunkHeld(place, shortened(moment.text), reason_of(error)),
    )
    recorded = await own_step(ctx, place, run_async if chunk.is_async else run_plain, options)
    if not isinstance(recorded, dict) or MARK not in recorded:
        return Outcome(recorded)  # an operator has supplied the result
    found = cast("dict[str, Any]", recorded)
    left = found["pause"]
    return Outcome(
        found["output"],
        [(what, key, value) for what, key, value in found["writes"]],
        tuple((name, value) for name, value in found["events"]),
        None if left is None else Pause(**left),
    )


def _left(given: Data[Any], error: BaseException) -> Paused:
    """Return the pause that a chunk left for, or raise its error. Task groups wrap either in an exception group."""
    paused = given.paused
    if paused is None:
        raise error
    if isinstance(error, Exception) and not paused.was_awaited and not isinstance(error, NEVER_BETTER):
        raise PauseIgnored(paused.chunk, paused.line, False, shortened(repr(error))) from error
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        others = group.split(Left)[1]
        if others is not None:
            raise others
    elif not isinstance(error, Left) and not _carries_leaving(error):
        if isinstance(error, Exception) and not isinstance(error, NEVER_BETTER):
            raise PauseIgnored(paused.chunk, paused.line, True, shortened(repr(error))) from error
        raise error
    return paused


def _carries_leaving(error: BaseException) -> bool:
    """Whether an exception replaced a chunk's pause, raised by code that handled the pause."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        if isinstance(each, Left):
            return True
        seen.add(id(each))
        each = each.__cause__ or each.__context__
    return False


def _recorded(
    given: Data[Any], output: Any, chunk: Chunk, place: str, items: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Return a chunk's record.

    Raises:
        PauseIgnored, NotAwaited: It continued where it had to wait.
        NotSerializable, InvalidValue: Its output would not come back as its declared type.
    """
    record, paused = given.record, given.paused
    if paused is not None:
        if output is not paused:
            raise PauseIgnored(place, paused.line, paused.was_awaited)
        output = None
    if inspect.isawaitable(output):
        if inspect.iscoroutine(output):
            output.close()
        raise NotAwaited(place, f"{type(output).__name__} {getattr(output, '__qualname__', '')}".strip())
    left: dict[str, Any] = {
        MARK: 1,
        "output": None if output is None else json.loads(_text_of(output, chunk)),
        "writes": [list(each) for each in record.writes],
        "events": [list(each) for each in record.events],
        "pause": None if record.pause is None else asdict(record.pause),
    }
    if items:
        left["items"] = [list(each) for each in items]
    return left


def _text_of(output: Any, chunk: Chunk) -> str:
    """Return an output as JSON that the next chunk can read as this chunk's declared type."""
    declared = codec.return_annotation(unwrapped(chunk.function))
    if declared is Any or declared is type(None):
        return codec.encode_for(f"the chunk after {chunk.name!r}", output, path="output")
    return codec.normalize(output, declared, path="output")[0]


def _nonlocals(code: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's nonlocal names that are defined so far."""
    names: Sequence[str] = getattr(getattr(code, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(code, "__closure__", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # the cell is empty
            found[name] = cell.cell_contents
    return found


def input_type_of(function: Callable[..., Any], name: str) -> Any:
    """Return the declared input type of a chunk, from ``data: Data[T]``.

    Raises:
        RegistrationError: It does not take one parameter, or its annotations cannot be evaluated.
    """
    taken = list(codec.shape_of(function).parameters.values())
    if len(taken) != 1 or taken[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise RegistrationError(f"chunk {name!r} takes one parameter, its data")
    holder = types.SimpleNamespace(__annotations__={"data": taken[0].annotation})
    plain = unwrapped(function)
    code = plain if inspect.isroutine(plain) else getattr(type(plain), "__call__", plain)  # noqa: B004
    try:
        hints = typing.get_type_hints(holder, getattr(code, "__globals__", {}), _nonlocals(code))
    except NameError as error:
        raise RegistrationError(f"chunk {name!r}: its annotations cannot be evaluated: {error}") from None
    declared = hints["data"]
    if typing.get_origin(declared) is not Data:
        return Any
    (inner,) = typing.get_args(declared)
    try:
        reader(inner)
    except Unreadable as error:
        raise RegistrationError(f"chunk {name!r}: {error}") from None
    return inner
