"""Follows a turn until it has ended or waits for people."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import AgentStreamEvent, ModelMessage

from signoff.agents.conversations.history import Histories, ending_of
from signoff.agents.conversations.interrupted_turns import sentence_in
from signoff.agents.conversations.turn_watcher import StoppedTurn, wait_until_stopped
from signoff.agents.conversations.waiters import Waiters
from signoff.agents.ui.turn_reader import TurnReader
from signoff.client.async_client import AsyncClient
from signoff.records import Entry, LiveText, Run, RunState

MOST_WAITING: Final = 100
"""How many events are read ahead of a listener."""


class TurnFailed(Exception):
    """A turn ended with an error. Its text is that of the history: it names no details."""


class TurnStream:
    """The events of one turn, from where its reader stands.

    Whoever stops listening stops nothing: the turn is a run, and continues.

    Args:
        client: The client of the runs.
        agent: The name that the agent is registered under.
        session_id: The turn's session.
        reader: The turn's reader.

    Attributes:
        stopped: How the turn stopped, once its events have been read.
    """

    def __init__(self, client: AsyncClient, agent: str, session_id: str, reader: TurnReader) -> None:
        self.stopped: StoppedTurn | None = None
        self._client = client
        self._agent = agent
        self._session_id = session_id
        self._reader = reader

    async def events(self) -> AsyncGenerator[AgentStreamEvent]:
        """Yield its events until it has ended or waits for people.

        Raises:
            TurnFailed: It has failed.
            RunCancelled: It was aborted.
        """
        reader, backend = self._reader, self._client.backend
        arriving: asyncio.Queue[Entry | LiveText | Exception | None] = asyncio.Queue(MOST_WAITING)

        async def listen() -> None:
            events = backend.follow_live(reader.run_id, after=reader.seq)
            async with aclosing(events):
                async for event in events:
                    await arriving.put(event)

        async def watch() -> None:
            coming = wait_until_stopped(self._client, reader.run_id)
            try:
                self.stopped = await Waiters(self._session_id).begin(backend, reader.run_id, coming)
            except Exception as error:
                await arriving.put(error)
            else:
                await arriving.put(None)

        listening, watching = asyncio.create_task(listen()), asyncio.create_task(watch())
        try:
            while (event := await arriving.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                for each in reader.read(event):
                    yield each
        finally:
            for task in (listening, watching):
                task.cancel()
            await asyncio.gather(listening, watching, return_exceptions=True)
        for entry in await backend.read_journal(reader.run_id, after=reader.seq):
            for each in reader.read(entry):
                yield each
        assert self.stopped is not None
        if not self.stopped.run.state.is_final:
            return
        messages = await Histories(self._client, self._agent).up_to(reader.run_id)
        for each in reader.finish([message for message in messages if message.run_id == reader.run_id]):
            yield each
        raise_ending(self.stopped.run, messages)


def raise_ending(run: Run, messages: Sequence[ModelMessage]) -> None:
    """Raise TurnFailed or RunCancelled if an ended turn has not succeeded.

    Args:
        run: The turn's run.
        messages: The history up to it.
    """
    if run.state is RunState.SUCCEEDED:
        return
    sentence = sentence_in(messages[-1]) if messages else None
    sentence = sentence or ending_of(run).sentence
    raise RunCancelled(sentence) if run.state is RunState.CANCELLED else TurnFailed(sentence)
