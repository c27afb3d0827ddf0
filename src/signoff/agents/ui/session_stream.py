"""A session as a chat streams it: the history, then the turns that have not ended, until one waits for people."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelRequest,
    ToolReturnPart,
    UserPromptPart,
)

from signoff.agents.approvals.recorded_edits import EDIT_NOTES, EDITED
from signoff.agents.conversations.history import NO_PROMPT, Histories, prompt_of, read_prompt
from signoff.agents.conversations.session_turns import SessionTurns
from signoff.agents.ui.decisions import Shown
from signoff.agents.ui.turn_reader import TurnReader
from signoff.agents.ui.turn_stream import TurnStream, raise_ending
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidValue, NotFound
from signoff.records import Run


@dataclass(frozen=True, slots=True)
class History:
    """The messages of a session so far.

    Attributes:
        messages: Those of the ended turns; of the current turn the prompt, and what its journal has.
        reader: The current turn, whose further events follow; None: there is none, or it has ended.
    """

    messages: Sequence[ModelMessage]
    reader: TurnReader | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The current turn waits for people.

    Attributes:
        questions: All that are open.
    """

    questions: Sequence[Shown]


Part = History | AgentStreamEvent | Waiting


class SessionStream:
    """Reads a session for one listener.

    Args:
        client: The client of the runs.
        agent: The name that the agent is registered under.
        session_id: The session.
    """

    def __init__(self, client: AsyncClient, agent: str, session_id: str) -> None:
        self._client = client
        self._agent = agent
        self._session_id = session_id
        self._turns = SessionTurns(client, agent, session_id)
        self._histories = Histories(client, agent)

    async def current(self, target: str | None = None) -> Run | None:
        """Return the turn to show first: the running or waiting one, else the target, else the last one."""
        run = await self._turns.active()
        if run is None and target is not None:
            run = await self._turns.get(target)
        if run is None:
            try:
                run = await self._turns.last()
            except NotFound:
                return None
        return run

    async def parts(
        self,
        run: Run | None,
        *,
        target: str | None = None,
        known: Callable[[Run], int | None] = lambda run: None,
        follow: bool = False,
    ) -> AsyncGenerator[Part]:
        """Yield the history, then the events of the turns from ``run`` on.

        Args:
            run: The first turn to show; None: the session has none.
            target: The turn that the listener has begun or answered: its failure is reported even if it has ended.
            known: Returns the last journal entry of a turn whose events the listener has (-1: it has none). None: the
                history is to have all entries so far.
            follow: Whether to continue when people have answered the questions that the turn waits for.

        Raises:
            TurnFailed: A turn has failed.
            RunCancelled: A turn was aborted.
        """
        if run is None:
            yield History([], None)
        while run is not None:
            seq = known(run)
            if run.state.is_final and seq is None:
                messages = await self.messages(run)
                yield History(messages, None)
                if run.id == target:
                    raise_ending(run, messages)
                run = await self._after(run)
                continue
            reader = TurnReader(run.id)
            entries = await self._client.backend.read_journal(run.id)
            reader.skip([each for each in entries if seq is None or each.seq <= seq])
            yield History(await self.messages(run, reader), reader)
            while True:
                stream = TurnStream(self._client, self._agent, self._session_id, reader)
                async with aclosing(stream.events()) as events:
                    async for event in events:
                        yield event
                assert stream.stopped is not None
                if stream.stopped.run.state.is_final:
                    break
                yield Waiting([Shown.of(question, run.id) for question in stream.stopped.questions])
                if not follow:
                    return
                await self._news(stream.stopped.asking.id, reader.seq)
            run = await self._after(run)

    async def _after(self, run: Run) -> Run | None:
        assert run.position is not None
        return await self._turns.at_or_after(run.position + 1)

    async def messages(self, run: Run, reader: TurnReader | None = None) -> list[ModelMessage]:
        """Return the history up to a turn. With its reader: as far as that has read its journal.

        Each message has the ``run_id`` of its turn.
        """
        if run.state.is_final and reader is None:
            return [_shown(message) for message in await self._histories.up_to(run.id)]
        before = await self._histories.up_to(await self._histories.before(run))
        try:
            prompt = read_prompt(prompt_of(run))
        except (InvalidValue, KeyError):  # anyone who may start runs may have started it
            prompt = NO_PROMPT
        so_far: list[ModelMessage] = [ModelRequest([UserPromptPart(prompt)])]
        so_far += [] if reader is None else reader.messages
        return [
            *(_shown(message) for message in before),
            *(replace(message, run_id=run.id) for message in so_far),
        ]

    async def _news(self, run_id: str, seq: int) -> None:
        """Wait until a turn's journal has an entry after ``seq``."""
        async with aclosing(self._client.backend.follow(run_id, after=seq)) as entries:
            async for _ in entries:
                return


def _shown(message: ModelMessage) -> ModelMessage:
    """Return a message without the notes to the model about edited calls: they are no words of the user."""
    if not isinstance(message, ModelRequest) or not any(map(_is_edited, message.parts)):
        return message
    return replace(message, parts=[part for part in message.parts if not _is_note(part)])


def _is_edited(part: Any) -> bool:
    metadata: Any = part.metadata if isinstance(part, ToolReturnPart) else None
    return isinstance(metadata, dict) and EDITED in metadata


def _is_note(part: Any) -> bool:
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return False
    first = part.content[0] if part.content else None
    return isinstance(first, str) and first.startswith(EDIT_NOTES)
