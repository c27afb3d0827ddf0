"""The bodies of requests of the protocol of 2024, one model for each shape. Members that a model does not have are
ignored.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator
from starlette.requests import Request as HttpRequest

from signoff.codec.strict_json import read_exactly
from signoff.records import PromiseState
from signoff.records.tasks import TaskLease
from signoff.server.http.request_bodies import storable
from signoff.server.resonate.addresses import PollAddress, read_address
from signoff.server.resonate.legacy.errors import INVALID, LegacyRefusal
from signoff.server.resonate.requests import (
    DELAY,
    LONGEST_TTL,
    TARGET,
    Data,
    Id,
    Milliseconds,
    Tags,
    Text,
    Value,
    ValueOf,
    check_delay,
)

INVOKE: Final = "resonate:invoke"
"""The tag with the address of the workers that execute a promise."""

SHORTEST_TTL: Final = 500
"""Milliseconds of the shortest lease. A shorter one would expire before the process can extend it."""

SETTLED: Final = {
    "RESOLVED": PromiseState.RESOLVED,
    "REJECTED": PromiseState.REJECTED,
    "REJECTED_CANCELED": PromiseState.CANCELLED,
}

T = TypeVar("T", bound=BaseModel)


def address_of(text: str) -> str:
    """Return the address of a receiver: a name without a scheme is a group of workers that poll.

    Raises:
        ValueError: It is not valid.
    """
    address = text if "://" in text else f"poll://any@{text}"
    if not isinstance(read_address(address), PollAddress):
        raise ValueError(f"must be a group, poll://any@GROUP or poll://uni@GROUP/PID, not {text[:100]!r}")
    return address


def _with_valid_target(tags: dict[str, str]) -> dict[str, str]:
    """Check the tags that say where and when a promise is executed, also those of today's protocol."""
    for tag in (INVOKE, TARGET):
        if tag in tags:
            address_of(tags[tag])
    check_delay(tags.get(DELAY))
    return tags


Receiver = Annotated[str, AfterValidator(address_of)]
Counter = Annotated[int, Field(ge=1, le=2**63 - 1)]


class CreatePromise(Data):
    """A promise to be created."""

    id: Id
    timeout: Milliseconds
    param: ValueOf = Field(default_factory=Value)
    tags: Tags = Field(default_factory=dict)

    @property
    def target(self) -> str | None:
        """The address of the workers that execute it."""
        target = self.tags.get(INVOKE)
        return None if target is None else address_of(target)

    @field_validator("tags")
    @classmethod
    def _check(cls, tags: dict[str, str]) -> dict[str, str]:
        return _with_valid_target(tags)


class Holder(Data):
    """A process, and the lease that it takes."""

    process_id: Id
    ttl: Milliseconds

    @property
    def lease(self) -> TaskLease:
        """The lease, within the limits of the server."""
        return TaskLease(self.process_id, min(max(self.ttl, SHORTEST_TTL), LONGEST_TTL))


class CreatePromiseAndTask(Data):
    """A promise to be created, and the process that executes it at once."""

    promise: CreatePromise
    task: Holder


class CompletePromise(Data):
    """How a promise is to be settled."""

    state: Text
    value: ValueOf = Field(default_factory=Value)

    @field_validator("state")
    @classmethod
    def _check(cls, state: str) -> str:
        if state.upper() not in SETTLED:
            raise ValueError(f"must be one of {', '.join(SETTLED)}")
        return state.upper()


class CreateCallback(Data):
    """A task that awaits a promise."""

    promise_id: Id | None = None  # in place of the one in the path
    root_promise_id: Id
    recv: Receiver
    timeout: Milliseconds = 0


class CreateSubscription(Data):
    """An address that is sent a promise once it is settled."""

    id: Id
    promise_id: Id | None = None  # in place of the one in the path
    recv: Receiver
    timeout: Milliseconds = 0


class CompleteTask(Data):
    """A task, as a process has claimed it."""

    id: Id
    counter: Counter


class ClaimTask(Holder):
    """A task, as it was sent to a process."""

    id: Id
    counter: Counter


class CreateSchedule(Data):
    """A schedule that creates promises."""

    id: Id
    cron: Text
    description: Text = ""
    tags: Tags = Field(default_factory=dict)
    promise_id: Annotated[Text, Field(min_length=1)]
    promise_timeout: Milliseconds
    promise_param: ValueOf = Field(default_factory=Value)
    promise_tags: Tags = Field(default_factory=dict)

    @field_validator("promise_tags")
    @classmethod
    def _check(cls, tags: dict[str, str]) -> dict[str, str]:
        return _with_valid_target(tags)


class Heartbeat(Data):
    """A process that still works on its tasks."""

    process_id: Id


def path_id(http: HttpRequest) -> str:
    """Return the id in the path of a request. Raises LegacyRefusal."""
    try:
        return storable(http.path_params["id"])
    except ValueError as error:
        raise LegacyRefusal(INVALID, f"invalid request: id: {error}") from None


def read_body(model: type[T], body: bytes) -> T:
    """Read the body of a request.

    Raises:
        LegacyRefusal: It is not valid. The text names the member and says why.
    """
    try:
        return model.model_validate(read_exactly(body))
    except ValidationError as error:
        problems = [_said(each["loc"], each["msg"]) for each in error.errors(include_url=False)[:3]]
        raise LegacyRefusal(INVALID, f"invalid request: {'; '.join(problems)}") from None
    except (ValueError, RecursionError) as error:
        raise LegacyRefusal(INVALID, f"the body is not valid JSON: {error}") from None


def _said(location: tuple[int | str, ...], message: str) -> str:
    path = ".".join(str(part)[:100] for part in location) or "body"
    return f"{path}: {message.removeprefix('Value error, ')}"
