"""The data of requests, one model for each shape. Members that a model does not have are ignored, as newer SDKs may
send them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from signoff.records.names import LONGEST_CHOSEN_BYTES, LONGEST_ID_BYTES, LONGEST_NAME_BYTES
from signoff.server.http.request_bodies import storable
from signoff.server.resonate.addresses import read_address
from signoff.server.resonate.protocol import Refusal

LAST_INTEGER: Final = 2**63 - 1

LAST_TIME: Final = 253_402_300_799_000
"""The end of the year 9999, in unix milliseconds."""

LAST_VERSION: Final = 2**31 - 1

LONGEST_TTL: Final = 366 * 24 * 3600 * 1000
"""Maximum lease of a task, in milliseconds."""

MOST_LISTED: Final = 1000
"""Maximum length of lists in requests, and of pages."""

TARGET: Final = "resonate:target"
DELAY: Final = "resonate:delay"
BRANCH: Final = "resonate:branch"
PARENT: Final = "resonate:parent"

T = TypeVar("T", bound=BaseModel)


def _id(text: str) -> str:
    storable(text)
    if not text or not text.isprintable() or text != text.strip():
        raise ValueError("must be printable characters without spaces at the ends, at least one")
    if len(text.encode()) > LONGEST_ID_BYTES:
        raise ValueError(f"must have at most {LONGEST_ID_BYTES} bytes in UTF-8")
    return text


def _pid(text: str) -> str:
    if len(_id(text).encode()) > LONGEST_NAME_BYTES:
        raise ValueError(f"must have at most {LONGEST_NAME_BYTES} bytes in UTF-8")
    return text


def _schedule_id(text: str) -> str:
    if len(_id(text).encode()) > LONGEST_CHOSEN_BYTES:
        raise ValueError(f"must have at most {LONGEST_CHOSEN_BYTES} bytes in UTF-8")
    return text


def _address(text: str) -> str:
    if read_address(text) is None:
        raise ValueError(
            f"must be an address: poll://any@GROUP, poll://uni@GROUP/PID, or an HTTP URL, not {text[:100]!r}"
        )
    return text


def check_delay(delay: str | None) -> None:
    """Raise ValueError unless a tag ``resonate:delay`` is a time."""
    if delay is not None and not (delay.isascii() and delay.isdecimal() and len(delay) < 20):
        raise ValueError(f"{DELAY} must be a non-negative integer, in unix milliseconds")


def _empty(value: Any) -> Any:
    return {} if value is None else value


Id = Annotated[str, AfterValidator(_id)]
Pid = Annotated[str, AfterValidator(_pid)]
ScheduleId = Annotated[str, AfterValidator(_schedule_id)]
Text = Annotated[str, AfterValidator(storable)]
Address = Annotated[str, AfterValidator(_address)]
Version = Annotated[int, Field(ge=0, le=LAST_VERSION)]
Milliseconds = Annotated[int, Field(ge=0, le=LAST_INTEGER)]
Ttl = Annotated[int, Field(ge=1, le=LONGEST_TTL)]
Tags = Annotated[dict[Text, Text], BeforeValidator(_empty)]
Limit = Annotated[int, Field(ge=1, le=MOST_LISTED)]


class Data(BaseModel):
    """Base model: the wire's names are in camel case, and types are exact."""

    model_config = ConfigDict(strict=True, extra="ignore", alias_generator=to_camel)


class Value(Data):
    """A parameter or a result."""

    headers: dict[Text, Text] | None = None
    data: Text | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON data, without missing parts."""
        return self.model_dump(exclude_none=True)


ValueOf = Annotated[Value, BeforeValidator(_empty)]


class ById(Data):
    """The id of a promise, a task or a schedule."""

    id: Id


class CreatePromise(ById):
    """A promise to be created."""

    timeout_at: Milliseconds
    param: ValueOf = Field(default_factory=Value)
    tags: Tags = Field(default_factory=dict)

    @property
    def target(self) -> str | None:
        """The address of the workers that execute it."""
        return self.tags.get(TARGET)

    @property
    def delay(self) -> int | None:
        """When it is to be executed, in unix milliseconds."""
        return int(self.tags[DELAY]) if DELAY in self.tags else None

    @model_validator(mode="after")
    def _check(self) -> CreatePromise:
        target, delay = self.tags.get(TARGET), self.tags.get(DELAY)
        if target is not None and read_address(target) is None:
            raise ValueError(f"invalid {TARGET} address: {target[:100]!r}")
        if delay is None:
            return self
        check_delay(delay)
        if int(delay) >= self.timeout_at:
            raise ValueError(f"{DELAY} must be less than timeoutAt")
        if target is None:
            raise ValueError(f"{DELAY} requires a {TARGET} tag")
        return self


class SettlePromise(ById):
    """How a promise is to be settled."""

    state: Literal["resolved", "rejected", "rejected_canceled"]
    value: ValueOf = Field(default_factory=Value)


class RegisterCallback(Data):
    """A task that awaits a promise."""

    awaited: Id
    awaiter: Id

    @model_validator(mode="after")
    def _check(self) -> RegisterCallback:
        if self.awaited == self.awaiter:
            raise ValueError("awaited and awaiter must be different promises")
        return self


class RegisterListener(Data):
    """An address that is sent a promise once it is settled."""

    awaited: Id
    address: Address


class Search(Data):
    """A page of a search."""

    limit: Limit | None = None
    cursor: Text | None = None


class SearchPromises(Search):
    """A search of promises: those in a state, and with all these tags."""

    state: Literal["pending", "resolved", "rejected", "rejected_canceled", "rejected_timedout"] | None = None
    tags: dict[Text, Text] | None = None


class SearchTasks(Search):
    """A search of tasks."""

    state: Literal["pending", "acquired", "suspended", "halted", "fulfilled"] | None = None


class SearchSchedules(Search):
    """A search of schedules: those whose promises have all these tags."""

    tags: dict[Text, Text] | None = None


class CreateAction(Data):
    """A request to create a promise, within another request."""

    kind: Literal["promise.create"]
    data: CreatePromise


class SettleAction(Data):
    """A request to settle a promise, within another request."""

    kind: Literal["promise.settle"]
    data: SettlePromise


class CallbackAction(Data):
    """A request to await a promise, within another request."""

    kind: Literal["promise.register_callback"] = "promise.register_callback"
    data: RegisterCallback


class CreateTask(Data):
    """A promise to be created, whose task its creator acquires."""

    pid: Pid
    ttl: Ttl
    action: CreateAction

    @model_validator(mode="after")
    def _check(self) -> CreateTask:
        if self.action.data.target is None:
            raise ValueError(f"action must have a {TARGET} tag")
        if self.action.data.delay is not None:
            raise ValueError(f"action must not have a {DELAY} tag: its task is acquired at once")
        return self


class TaskVersion(ById):
    """A task in one version."""

    version: Version


class AcquireTask(TaskVersion):
    """A task, and the process that acquires it."""

    pid: Pid
    ttl: Ttl


class SuspendTask(TaskVersion):
    """A task, and the promises that it awaits."""

    actions: list[CallbackAction] = Field(min_length=1, max_length=MOST_LISTED)

    @model_validator(mode="after")
    def _check(self) -> SuspendTask:
        if any(action.data.awaiter != self.id for action in self.actions):
            raise ValueError("the awaiter of each action must be the task")
        return self


class FulfillTask(TaskVersion):
    """A task, and the settlement of its promise."""

    action: SettleAction

    @model_validator(mode="after")
    def _check(self) -> FulfillTask:
        if self.action.data.id != self.id:
            raise ValueError("the id of the action must be that of the task")
        return self


class FenceTask(TaskVersion):
    """A task, and a request in its name."""

    action: Annotated[CreateAction | SettleAction, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _check(self) -> FenceTask:
        if self.action.data.id == self.id:
            raise ValueError("the id of the action must not be that of the task")
        return self


class HeldTask(Data):
    """A task that a process holds."""

    id: Id
    version: Version


class Heartbeat(Data):
    """The tasks that a process still works on."""

    pid: Pid
    tasks: list[HeldTask] = Field(min_length=1, max_length=10 * MOST_LISTED)


class CreateSchedule(Data):
    """A schedule that creates promises."""

    id: ScheduleId
    cron: Text
    promise_id: Text
    promise_timeout: Milliseconds
    promise_param: ValueOf = Field(default_factory=Value)
    promise_tags: Tags = Field(default_factory=dict)


class Nothing(Data):
    """No data."""


class Tick(Data):
    """The time that the clock is set to, in unix milliseconds."""

    time: Annotated[int, Field(ge=0, le=LAST_TIME)]


def read_data(model: type[T], data: dict[str, Any]) -> T:
    """Read the data of a request.

    Raises:
        Refusal: It is not valid. The text names the member and says why.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = [_said(each["loc"], each["msg"]) for each in error.errors(include_url=False)[:3]]
        raise Refusal(400, f"invalid request: {'; '.join(problems)}") from None


def _said(location: tuple[int | str, ...], message: str) -> str:
    path = ".".join(["data", *(str(part)[:100] for part in location)])  # a key may be long
    return f"{path}: {message.removeprefix('Value error, ')}"
