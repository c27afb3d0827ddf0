"""The request ids of a conversation: each identifies one request, in every turn and process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from signoff import codec
from signoff.client.async_client import AsyncClient
from signoff.errors import NotFound, NotSerializable, RequestConflict
from signoff.records import Promise, PromiseState
from signoff.records.request_ids import check_free, check_length

Operation = Literal["respond", "resume", "steer"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A request with its id.

    Attributes:
        id: The request id.
        key: The promise that keeps it.
        operation: The operation.
        target: The question that it answers, or the token that it uses.
        run_id: The turn that it belongs to.
        done_with: A digest of its input; None: it is not known to be done.
        done_by: The user who did it, if given.
    """

    id: str
    key: str
    operation: str
    target: str
    run_id: str
    done_with: str | None
    done_by: str | None = None

    def is_of_another(self, user: str | None) -> bool:
        """Whether it was done by a user other than ``user``. Both must be known."""
        return None not in (self.done_by, user) and self.done_by != user

    def check(self, operation: Operation, target: str, given: object) -> None:
        """Raise RequestConflict unless the given request is this one."""
        if (self.operation, self.target) != (operation, target):
            raise RequestConflict(self.id, _named(operation, target), _named(self.operation, self.target))
        if self.done_with is not None and self.done_with != digest_of(given):
            raise RequestConflict(self.id, _named(operation, target))


class KeptRequests:
    """The request ids of a session. Each is kept as a promise without a run, before its request has an effect.

    Args:
        client: The client for the runs.
        agent: The name that the agent is registered under.
        session_id: The session.
    """

    def __init__(self, client: AsyncClient, agent: str, session_id: str) -> None:
        self._client = client
        self._agent = agent
        self._session_id = session_id

    async def find(self, id: str, operation: Operation, target: str, given: object) -> Kept | None:
        """Return the record of a request.

        Args:
            id: Its request id.
            operation: The operation.
            target: The question that it answers, or the token that it uses.
            given: The input.

        Raises:
            InvalidValue: The id is empty, too long, or one of Signoff's own.
            RequestConflict: Another request of the session has this id.
        """
        check_length(id)
        check_free(id)
        try:
            kept = _kept(await self._client.promises.get(self._key(id)))
        except NotFound:
            return None
        kept.check(operation, target, given)
        return kept

    async def keep(self, id: str, operation: Operation, target: str, run_id: str, given: object) -> Kept:
        """Record a request's id. Raises RequestConflict if another request has it."""
        data = {
            "session": self._session_id,
            "request": id,
            "operation": operation,
            "target": target,
            "run": run_id,
        }
        kept = _kept(await self._client.promises.create(self._key(id), data=data))
        kept.check(operation, target, given)
        return kept

    async def finish(self, kept: Kept, given: object, by: str | None = None) -> None:
        """Record that a request is done, and by whom."""
        if kept.done_with is None:
            await self._client.promises.resolve(kept.key, digest_of(given), by=by, request_id=kept.key)

    def _key(self, id: str) -> str:
        return f"request:{codec.digest(codec.encode([self._agent, self._session_id, id]))}"


def digest_of(given: object) -> str:
    """Return a digest of a message."""
    try:
        said = codec.encode(given)
    except NotSerializable:
        said = codec.encode(repr(given))
    return codec.digest(codec.encode([type(given).__qualname__, json.loads(said)]))


def _named(operation: str, target: str) -> str:
    return target if operation == "respond" else operation


def _kept(promise: Promise) -> Kept:
    data: dict[str, Any] = json.loads(promise.data or "{}")
    done = json.loads(promise.value or "null") if promise.state is PromiseState.RESOLVED else None
    return Kept(
        data["request"],
        promise.id,
        data["operation"],
        data["target"],
        data["run"],
        done,
        promise.settled_by,
    )
