"""Messages that answered a question: each answers once, even if it is sent again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from signoff import codec
from signoff.client.async_client import AsyncClient
from signoff.errors import NotFound
from signoff.records import Promise, PromiseState


@dataclass(frozen=True, slots=True)
class Taken:
    """A message, and the question that it answers.

    Attributes:
        question_id: The question.
        run_id: The question's turn.
        key: The key of its record; None: it has no id, so it cannot be repeated.
        is_done: Whether the answer is known to have been given.
    """

    question_id: str
    run_id: str
    key: str | None = None
    is_done: bool = False


class TakenMessages:
    """The messages of a session that have answered questions, each kept as a promise without a run before it answers.

    Args:
        client: The client for the runs.
        agent: The name that the agent is registered under.
        session_id: The session.
    """

    def __init__(self, client: AsyncClient, agent: str, session_id: str) -> None:
        self._client = client
        self._agent = agent
        self._session_id = session_id

    async def find(self, id: str) -> Taken | None:
        """Return the question that a message has answered; None if it has answered none."""
        try:
            return _taken(await self._client.promises.get(self._key(id)))
        except NotFound:
            return None

    async def keep(self, id: str, question_id: str, run_id: str) -> Taken:
        """Record that a message answers a question. Returns the earlier record if there is one."""
        data = {"session": self._session_id, "message": id, "question": question_id, "run": run_id}
        return _taken(await self._client.promises.create(self._key(id), data=data))

    async def finish(self, taken: Taken) -> None:
        """Note that the answer was given."""
        if taken.key is not None and not taken.is_done:
            await self._client.promises.resolve(taken.key, request_id=taken.key)

    def _key(self, id: str) -> str:
        return f"message:{codec.digest(codec.encode([self._agent, self._session_id, id]))}"


def _taken(promise: Promise) -> Taken:
    data: dict[str, Any] = json.loads(promise.data or "{}")
    return Taken(data["question"], data["run"], promise.id, promise.state is not PromiseState.PENDING)
