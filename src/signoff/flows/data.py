"""The data of a chunk: its input, the state, and its ways to emit and pause."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar, cast

from signoff.errors import InvalidValue, NotSerializable, RegistrationError
from signoff.flows.errors import NotACondition, PauseIgnored
from signoff.flows.functions import calling_line
from signoff.flows.interrupt_ids import InterruptIds, check_interrupt_id
from signoff.flows.pauses import (
    OPTIONS,
    TYPES,
    Pause,
    check_question,
    check_target,
    checked,
    given,
    plain_option,
    unchanged,
)
from signoff.flows.state_size import Change, Room, grown
from signoff.flows.state_types import StateTypes, TypedState
from signoff.people.questions.proposals import full_json
from signoff.people.schemas.answer_schemas import form_of
from signoff.records.flow_records import INTERRUPT

T = TypeVar("T")


class Left(BaseException):
    """Ends a chunk's code. It is a BaseException, so that ``except Exception`` does not catch it."""


@dataclass(frozen=True)
class Resume:
    """The answer with which a chunk runs again.

    Attributes:
        value: The answer's value; for an approval ``{"approved": ...}``.
        user_id: The user who answered, if known.
        note: Their comment.
        count: How often the chunk has been resumed, from 1.
    """

    value: Any
    user_id: str | None
    note: str | None
    count: int


class Done:
    """An awaitable that is already done: ``await data.set_state(...)`` works with and without ``await``."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class Paused(Coroutine[Any, Any, Any]):
    """A pause: ``await`` it, or return it from a plain function.

    It is a coroutine, so that ``asyncio.create_task`` accepts it.

    Attributes:
        chunk: The chunk's place.
        line: The line that called ``pause_for``.
        was_awaited: Whether it was awaited.
    """

    def __init__(self, chunk: str, line: str) -> None:
        self.chunk = chunk
        self.line = line
        self.was_awaited = False

    def __await__(self) -> Generator[Any, None, Any]:
        self.was_awaited = True
        yield from ()
        raise Left

    def send(self, value: Any) -> Any:
        self.was_awaited = True
        raise Left

    def throw(self, *error: Any) -> Any:
        self.was_awaited = True
        raise error[0]

    def close(self) -> None:
        """Do nothing, since nothing is running."""

    def __bool__(self) -> bool:
        raise PauseIgnored(self.chunk, self.line, was_awaited=False)


@dataclass(frozen=True)
class Surroundings:
    """The execution, as a running chunk sees it.

    Attributes:
        execution_id: The run.
        started_by: The user who started it, if known.
        flow: The chunk's flow.
        chunk: Its place in the graph.
        state: The state when it began.
        room: The sizes of the state.
        listened: The events that start lines of the graph.
        interrupts: The chosen ids of interrupts in use.
        resources: The resources that the flow requires, as this worker provides them.
        types: The declared types of the state.
        is_condition: Whether this is for a condition, which only reads.
        owner: Identifies the running chunk.
    """

    execution_id: str
    started_by: str | None
    flow: str
    chunk: str
    state: Mapping[str, Any]
    room: Room
    listened: Collection[str]
    interrupts: InterruptIds
    resources: Mapping[str, Any]
    types: StateTypes
    is_condition: bool = False
    owner: object = field(default_factory=object)


Write = tuple[Change, str, Any]
"""A write to a key of the state."""


class _Copy(MutableMapping[str, Any]):
    """A chunk's own view of the state. Values are copied on first read, so unread parts cost nothing."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state
        self._own: dict[str, Any] = {}
        self._keys = dict.fromkeys(state)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        if key not in self._own:
            self._own[key] = copied(self._state[key])
        return self._own[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        self._own[key] = value

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        self._own.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return repr(dict(self))


def copied(plain: Any) -> Any:
    """Return a copy of plain data."""
    if isinstance(plain, dict):
        return {key: copied(value) for key, value in cast("dict[str, Any]", plain).items()}
    if isinstance(plain, list):
        return [copied(value) for value in cast("list[Any]", plain)]
    return plain


def written(state: MutableMapping[str, Any], writes: Sequence[Write], *, is_commit: bool = False) -> None:
    """Apply a chunk's writes to a state.

    Args:
        state: The state.
        writes: The writes, in order.
        is_commit: Whether concurrent chunks may have written in between: the last commit of a key wins.

    Raises:
        TypeError: A value is appended to something other than a list, or added to something other than a number.
        NotSerializable, OverflowError: A sum is not a JSON number.
    """
    for what, key, value in writes:
        match what:
            case "set":
                state[key] = value
            case "append":
                known = state.get(key, [])
                if not isinstance(known, list):
                    if not is_commit:
                        raise TypeError(f"state.{key} is not a list: {known!r}")
                    known = []
                state[key] = [*cast("list[Any]", known), value]
            case "add":
                number = state.get(key, 0)
                if isinstance(number, bool) or not isinstance(number, (int, float)):
                    if not is_commit:
                        raise TypeError(f"state.{key} is not a number: {number!r}")
                    number = 0
                try:
                    state[key] = unchanged(number + value, f"state.{key}")
                except (NotSerializable, OverflowError):
                    if not is_commit:
                        raise
                    state[key] = value
            case "delete":
                state.pop(key, None)


@dataclass
class Record:
    """A chunk's result. It commits as a whole, or not at all."""

    writes: list[Write] = field(default_factory=list[Write])
    events: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    pause: Pause | None = None


class Data(Generic[T]):
    """The data of a chunk.

    Attributes:
        input: The result of the chunk before it; an instance of ``T`` for a chunk that declares ``data: Data[T]``.
        event: The name of the source that started this line: an event, ``state.key``, a chunk, or ``start``.
        index: The index of an item of ``for_each``.
        execution_id: The execution's id.
        resume: The answer, if this chunk resumes to itself; otherwise None.
    """

    def __init__(
        self,
        input: T,
        event: str,
        index: int | None,
        resume: Resume | None,
        around: Surroundings,
    ) -> None:
        self.input = input
        self.event = event
        self.index = index
        self.resume = resume
        self.execution_id = around.execution_id
        self._around = around
        self._types = around.types
        self._state = _Copy(around.state)
        self._typed = TypedState(self._state, self._types)
        self._sizes: dict[str, int] = {}  # sizes of the keys it has written
        self._growth = 0
        self.record = Record()
        self.paused: Paused | None = None
        self.misused: Exception | None = None
        self._has_ended = False

    @contextmanager
    def attempt(self) -> Generator[Self]:
        """Release the interrupt ids and room of an attempt if it fails."""
        try:
            yield self
        except BaseException:
            self._around.interrupts.free(self._around.owner)
            self._around.room.end(self._around.owner)
            raise

    def end(self) -> None:
        """Accept no more calls: the effects of code that still runs, such as a task of its own, would be lost."""
        self._has_ended = True

    def _check_takes(self, what: str) -> None:
        """Check that the chunk may write, emit and pause."""
        if self._around.is_condition:
            self.misused = NotACondition(
                self._around.chunk,
                f"uses {what}, at {calling_line()}: a condition only reads its data; do that in a chunk",
            )
            raise self.misused
        if self._has_ended:
            raise RegistrationError(
                f"chunk {self._around.chunk!r} uses {what} after it has ended, at {calling_line()}: "
                "await the tasks that it has started"
            )

    @property
    def is_resume(self) -> bool:
        """Whether this chunk runs again with an answer."""
        return self.resume is not None

    # State

    @property
    def state(self) -> Mapping[str, Any]:
        """The state as of the chunk's beginning, with the chunk's own writes."""
        return MappingProxyType(self._typed)

    def get_state(self, key: str, default: Any = None) -> Any:
        """Return a value of the state, as the type that ``Flow(state=...)`` declares."""
        return self._typed.get(key, default)

    def set_state(self, key: str, value: Any) -> Done:
        """Write a key of the state. It commits with the chunk's result.

        Args:
            key: The key.
            value: The new value.

        Raises:
            NotSerializable: The value would come back changed, and no declared type prevents that.
            InvalidValue: It does not match the type that ``Flow(state=...)`` declares.
            PayloadTooLarge: It is over the limit, or the state would be.
        """
        return self._write("set", key, self._types.write(checked(key, "state key"), value))

    def append_state(self, key: str, value: Any) -> Done:
        """Append to a list in the state. It commits with the chunk's result; a missing list is created.

        Unlike ``set_state`` with a value that was read before, it keeps the values that concurrent chunks append.

        Raises:
            TypeError: The key does not hold a list.
            NotSerializable, InvalidValue, PayloadTooLarge: As for ``set_state``.
        """
        return self._write("append", key, self._types.write_item(checked(key, "state key"), value))

    def add_state(self, key: str, number: float = 1) -> Done:
        """Add to a number in the state. It commits with the chunk's result; a missing number counts as 0.

        Unlike ``set_state`` with a value that was read before, it keeps the values that concurrent chunks add.

        Raises:
            TypeError: The key does not hold a number.
            NotSerializable: It, or the sum, is not a JSON number, such as a ``Decimal``.
        """
        return self._write("add", key, unchanged(number, f"state.{key}"))

    def del_state(self, key: str) -> Done:
        """Remove a key of the state, if it exists. It commits with the chunk's result."""
        return self._write("delete", key, None)

    def _write(self, what: Change, key: str, value: Any) -> Done:
        self._check_takes("set_state" if what == "set" else f"{what}_state".replace("delete", "del"))
        write: Write = (what, checked(key, "state key"), value)
        room = self._around.room
        before = self._sizes.get(key, room.of(key))
        size = grown(before, what, key, value)
        growth = self._growth + size - before
        room.grow(self._around.owner, growth)
        written(
            self._state, [(what, key, copied(value))]
        )  # values that were read may be modified in place; a write must not
        self._sizes[key], self._growth = size, growth
        self._typed.forget(key)
        self.record.writes.append(write)
        return Done()

    # Events, resources

    def emit(self, event: str, value: Any = None) -> Done:
        """Emit an event. It commits with the chunk's result.

        Args:
            event: The event's name.
            value: Its value.

        Raises:
            NotSerializable, PayloadTooLarge: The value cannot be stored.
        """
        self._check_takes("emit")
        name = checked(event, "event")
        plain_value = given(f"a line that begins with event {name!r}", value, f"event {name}")
        self.record.events.append((name, plain_value))
        return Done()

    def require(self, name: str) -> Any:
        """Return a resource that the flow requires and this worker provides.

        Args:
            name: The resource's name.

        Raises:
            RegistrationError: The flow does not require it.
        """
        if name not in self._around.resources:
            raise RegistrationError(
                f"chunk {self._around.chunk!r} uses {name!r}, which the flow does not require: flow.requires({name!r})"
            )
        return self._around.resources[name]

    # Pausing

    def pause_for(
        self,
        type: str = "approval",
        payload: Any = None,
        *,
        resume_to: str | dict[str, str] = "next",
        resume_event: str | None = None,
        interrupt_id: str | None = None,
        max_resumes: int | None = 1,
        schema: Any = None,
        **options: Any,
    ) -> Paused:
        """Pause the chunk until a person has answered. Its writes and events so far are committed.

        Args:
            type: ``approval``, ``text``, ``select``, ``multiselect`` or ``form``. Any other word is a form that accepts
                ``schema`` (without one, any JSON).
            payload: The data shown to people. Its ``question`` is the question's text, its ``options`` are the choices.
            resume_to: ``next``: the answer becomes the chunk's result. ``self``: the chunk runs again, with
                ``data.resume``. ``{"event": name}``: the line ends here, and the flow emits the event with the answer.
            resume_event: The same as ``resume_to={"event": resume_event}``.
            interrupt_id: A chosen id, unique among the execution's open interrupts; by default the question's id.
            max_resumes: With ``self``: how often the chunk may be resumed; None: unlimited.
            schema: A pydantic model, a type or a JSON Schema that a form's answer must match.
            options: Further options of ``Context.wait_for_user``: ``assignees``, ``timeout_seconds``, ``quorum`` ...

        Raises:
            RegistrationError: The target, the type, the schema or an option is not valid, or the chunk pauses twice at
                once.
            DuplicateInterrupt: The id is in use.
            NotSerializable, PayloadTooLarge: The payload cannot be stored.

        Example::

            asked = {"question": f"Refund {data.input}?"}
            return await data.pause_for("approval", asked, assignees=["group:finance"])
        """
        self._check_takes("pause_for")
        line = calling_line()
        if self.paused is not None:
            raise RegistrationError(
                f"chunk {self._around.chunk!r} pauses twice at once (at {self.paused.line} and {line}); await each "
                "pause, and pause in chunks side by side to ask two things at once"
            )
        if resume_event is not None:
            if resume_to not in ("next", {"event": resume_event}):
                raise RegistrationError("pause_for: give resume_to or resume_event, not both")
            resume_to = {"event": resume_event}
        check_target(resume_to, self._around.listened, self._around.chunk)
        if max_resumes is not None and max_resumes < 1:
            raise InvalidValue("max_resumes", f"it is at least 1, or None for unlimited, not {max_resumes}")
        if interrupt_id is not None:
            check_interrupt_id(interrupt_id, self.execution_id)
        for name in options:
            if name not in OPTIONS:
                raise RegistrationError(
                    f"pause_for has no option {name!r}; its options are {', '.join(OPTIONS)}"
                )
        if schema is not None and type in TYPES and type != "form":
            raise RegistrationError(f"pause_for: schema belongs to a form, not to type {type!r}")
        if isinstance(payload, Mapping) and INTERRUPT in payload:
            raise RegistrationError(f"pause_for: {INTERRUPT!r} is reserved; use another key in the payload")
        pause = Pause(
            checked(type, "type"),
            full_json(payload, "payload"),
            resume_to,
            interrupt_id,
            max_resumes,
            None if schema is None else form_of("pause_for", "schema", schema),
            {
                name: plain_option(name, value, options)
                for name, value in options.items()
                if value is not None or name == "timeout_answer"
            },
        )
        around, resumes = self._around, 0 if self.resume is None else self.resume.count
        check_question(pause.question(around.flow, around.chunk, resumes), around.started_by)
        if interrupt_id is not None:
            around.interrupts.take(interrupt_id, around.owner)
        self.record.pause = pause
        self.paused = Paused(self._around.chunk, line)
        return self.paused
