"""The turns of a session: reads them, and finds the running one and its questions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from signoff.agents.conversations.turn_watcher import open_questions_of
from signoff.client.async_client import AsyncClient
from signoff.errors import NotFound
from signoff.records import EntryKind, Promise, PromiseKind, Run, RunState

AT_ONCE: Final = 100
"""How many runs and entries to read at a time."""


@dataclass(frozen=True, slots=True)
class WaitingTurn:
    """A turn that waits for people.

    Attributes:
        run: Its run.
        questions: Its open questions.
        on_message: The agent's setting for new messages.
    """

    run: Run
    questions: Sequence[Promise]
    on_message: str = "queue"


def fork_of(session_id: str) -> str:
    """Return the id of the run that begins a session as a fork."""
    return f"fork-{session_id}"


class SessionTurns:
    """An agent's turns in a session.

    Args:
        client: The client for the runs.
        agent: The name that the agent is registered under.
        session_id: The session.
    """

    def __init__(self, client: AsyncClient, agent: str, session_id: str) -> None:
        self._client = client
        self._agent = agent
        self._session_id = session_id

    async def get(self, run_id: str) -> Run:
        """Return a turn. Raises NotFound."""
        run = await self._client.backend.get_run(run_id)
        if run.session_id != self._session_id or run.workflow != self._agent:
            raise NotFound("turn", run_id)
        return run

    async def is_taken(self, run_id: str) -> bool:
        """Whether a run with this id exists, in this session or not."""
        try:
            await self._client.backend.get_run(run_id)
        except NotFound:
            return False
        return True

    async def that_asked(self, question: Promise) -> Run:
        """Return the turn that asks a question, itself or through a sub-agent. Raises NotFound."""
        if question.kind is not PromiseKind.QUESTION or question.run_id is None:
            raise NotFound("question", question.id)
        run = await self._client.backend.get_run(question.run_id)
        while run.parent_id is not None:
            run = await self._client.backend.get_run(run.parent_id)
        if run.session_id != self._session_id or run.workflow != self._agent:
            raise NotFound("question", question.id)
        return run

    async def last(self) -> Run:
        """Return the newest turn. Raises NotFound."""
        page = await self._client.list(session_id=self._session_id, workflow=self._agent, limit=1)
        if not page.items:
            raise NotFound("session", self._session_id)
        return await self._whole(page.items[0])

    async def last_ended_or_begun_with(self) -> Run:
        """Return the newest ended turn; of a fork that no worker has run yet, the turn it begins with.

        Raises:
            NotFound: No turn has ended.
        """
        ended = [state for state in RunState if state.is_final]
        page = await self._client.list(
            states=ended, session_id=self._session_id, workflow=self._agent, limit=1
        )
        if page.items:
            return await self._whole(page.items[0])
        try:
            fork = await self.get(fork_of(self._session_id))
        except NotFound:
            raise NotFound("turn", self._session_id) from None
        request: dict[str, Any] = json.loads(fork.arguments)["args"][0]
        return await self._client.backend.get_run(request["fork"])

    async def active(self) -> Run | None:
        """Return the running or waiting turn, if any."""
        try:
            session = await self._client.sessions.get(self._session_id)
        except NotFound:
            return None
        if session.active_run_id is None:
            return None
        run = await self._client.backend.get_run(session.active_run_id)
        return run if run.workflow == self._agent else None

    async def waiting(self) -> WaitingTurn | None:
        """Return the turn that waits for people, if any."""
        run = await self.active()
        if run is None:
            return None
        is_quiet, questions = await open_questions_of(self._client.backend, run)
        if not is_quiet or not questions:
            return None
        seq, read = -1, self._client.backend.read_journal
        while seq < AT_ONCE and (entries := await read(run.id, after=seq, limit=AT_ONCE)):
            for entry in entries:
                if entry.kind is EntryKind.COMPLETED and entry.name == f"{self._agent}:turn":
                    on_message = json.loads(entry.value or "{}").get("on_message", "queue")
                    return WaitingTurn(run, questions, on_message)
            seq = entries[-1].seq
        return WaitingTurn(run, questions)

    async def at_or_after(self, position: int) -> Run | None:
        """Return the session's first turn at this position or later."""
        found: Run | None = None
        after: str | None = None
        while True:
            page = await self._client.list(
                session_id=self._session_id, workflow=self._agent, after=after, limit=AT_ONCE
            )
            for run in page.items:
                if run.position is None or run.position < position:
                    return None if found is None else await self._whole(found)
                found = run
            after = page.next
            if after is None:
                return None if found is None else await self._whole(found)

    async def _whole(self, run: Run) -> Run:
        """Return a listed run in full."""
        return await self._client.backend.get_run(run.id) if run.left_out else run
