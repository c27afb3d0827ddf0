"""A turn of a conversation: the workflow that an agent is registered as."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, TypedDict, cast, get_args

from pydantic_ai import capture_run_messages
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelMessage
from pydantic_ai.run import AgentRunResult
from pydantic_core import to_jsonable_python

from signoff.agents.budgets import Budget
from signoff.agents.durable import Durable
from signoff.agents.endings import Ending, closed, unsaid
from signoff.agents.history import PROMPT, Histories, dumped, sliced
from signoff.agents.record import TurnRecord, beside
from signoff.client import App, AsyncClient
from signoff.context import Context
from signoff.errors import RegistrationError

OnMessage = Literal["queue", "cancel", "answer"]

CONTEXT: Final = "signoff.context"
"""The signal that has the context from now on."""


class TurnRequest(TypedDict):
    """What a turn is started with."""

    prompt: NotRequired[Any]
    context: NotRequired[Any]
    fork: NotRequired[str]


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How an agent is registered."""

    budget: Budget
    on_message: OnMessage


def turn_workflow(
    app: App, agent: AbstractAgent[Any, Any], name: str, settings: TurnSettings
) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return the workflow whose runs are an agent's turns."""
    histories = Histories(AsyncClient(app), name)

    async def turn(ctx: Context, request: TurnRequest) -> dict[str, Any]:
        return await Turn(ctx, agent, name, settings, histories).run(request)

    turn.__name__ = turn.__qualname__ = name
    turn.__doc__ = agent.description if isinstance(agent.description, str) else f"A turn of agent {name!r}."
    return turn


def register(
    app: App,
    agent: AbstractAgent[Any, Any],
    name: str | None,
    budget: Budget | None,
    on_message: OnMessage,
) -> tuple[Callable[..., Awaitable[dict[str, Any]]], str]:
    """Return the workflow whose runs are an agent's turns, and its name. Raises RegistrationError."""
    chosen = checked_name(agent, name)
    if on_message not in get_args(OnMessage):
        raise RegistrationError(f"on_message is one of {', '.join(get_args(OnMessage))}, not {on_message!r}")
    return turn_workflow(app, agent, chosen, TurnSettings(budget or Budget(), on_message)), chosen


def checked_name(agent: AbstractAgent[Any, Any], name: str | None) -> str:
    """Return under which name an agent is registered.

    Raises:
        RegistrationError: It has none, or is not durable.
    """
    found: list[Durable[Any]] = []
    agent.root_capability.apply(lambda each: found.append(each) if isinstance(each, Durable) else None)
    if not found:
        raise RegistrationError(
            f"agent {agent.name!r} is not durable: make it with Agent(..., capabilities=[Durable()])"
        )
    chosen = name or agent.name
    if not chosen:
        raise RegistrationError("an agent that is registered needs a name: Agent(..., name='support')")
    return chosen


class Turn:
    """One turn, in workflow code."""

    def __init__(
        self,
        ctx: Context,
        agent: AbstractAgent[Any, Any],
        name: str,
        settings: TurnSettings,
        histories: Histories,
    ) -> None:
        self._ctx = ctx
        self._agent = agent
        self._name = name
        self._settings = settings
        self._histories = histories

    async def run(self, request: TurnRequest) -> dict[str, Any]:
        """Run the agent on what was said, after all that was said before.

        Returns:
            How it went, and the messages that it has added, unless the journal has them for their size.
        """
        begun: dict[str, Any] = await self._ctx.step(f"{self._name}:turn", self._begin, request.get("fork"))
        if "prompt" not in request:
            return {"status": "forked", "output": None, "messages": [], **_previous(begun), "usage": {}}
        prompt = PROMPT.validate_python(request["prompt"])
        history = await self._history(begun["previous"])
        record = TurnRecord(self._ctx, self._settings.budget)
        context = request.get("context", {})
        with capture_run_messages() as messages:
            try:
                async with self._given(context, record):
                    result = await self._agent.run(
                        prompt,
                        message_history=history,
                        deps=context,
                        run_id=self._ctx.run_id,
                        usage_limits=self._settings.budget.limits,
                        capabilities=[record],
                    )
                return await self._finished(result, begun)
            except asyncio.CancelledError:
                ending = Ending("aborted", self._ctx.stop_reason or "")
                await self._keep(self._left(prompt, messages, record, ending))
                raise
            except Exception as error:
                await self._keep(self._left(prompt, messages, record, Ending("failed", _told(error))))
                raise

    async def _begin(self, fork: str | None) -> dict[str, Any]:
        """Find the turn before this one: as later ones may be queued by now, it is not simply the last."""
        previous = await self._histories.before(await self._histories.run(self._ctx.run_id))
        return {"previous": previous or fork, "on_message": self._settings.on_message}

    async def _history(self, previous: str | None) -> Sequence[ModelMessage]:
        """Read what was said before: it does not change any more, so the journal need not have it, too."""
        read: list[ModelMessage] = []

        async def load() -> None:
            read[:] = await self._histories.up_to(previous)

        await self._ctx.step(f"{self._name}:history", load, durable=False)
        return read

    @asynccontextmanager
    async def _given(self, context: Any, record: TurnRecord) -> AsyncGenerator[None]:
        """Take over what is said of the context when a question is answered, as long as the agent runs."""
        if not isinstance(context, dict):
            with record.current():
                yield
            return
        known = cast("dict[str, Any]", context)

        async def listen() -> None:
            while True:
                given: dict[str, Any] = await self._ctx.wait_for_signal(CONTEXT)
                known.clear()
                known.update(given)

        async with beside(listen()):
            with record.current():
                yield

    def _left(
        self, prompt: Any, messages: Sequence[ModelMessage], record: TurnRecord, ending: Ending
    ) -> Sequence[ModelMessage]:
        mine = [message for message in messages if message.run_id == self._ctx.run_id]
        if not mine:
            return unsaid(prompt, ending, self._ctx.run_id)
        return closed(mine, record.begun, ending)

    async def _finished(self, result: AgentRunResult[Any], begun: Mapping[str, Any]) -> dict[str, Any]:
        mine = [message for message in result.all_messages() if message.run_id == self._ctx.run_id]
        text = dumped(mine)
        is_long = len(text.encode()) > LONGEST_IN_RESULT
        if is_long:
            await self._keep(mine)
        return {
            "status": "finished",
            "output": to_jsonable_python(result.output),
            "messages": None if is_long else json.loads(text),
            **_previous(begun),
            "usage": to_jsonable_python(result.usage, exclude_none=True),
        }

    async def _keep(self, messages: Sequence[ModelMessage]) -> None:
        for part in sliced(dumped(messages)):
            await self._ctx.step(f"{self._name}:messages", _same, part)


LONGEST_IN_RESULT: Final = 400_000
"""Bytes of messages that a turn's result has; more are kept in the journal."""


def _told(error: Exception) -> str:
    """Return what the model reads of an error: what others say in theirs may be none of its business."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, UsageLimitExceeded) else name


def _previous(begun: Mapping[str, Any]) -> dict[str, Any]:
    return {"previous": begun["previous"]}


async def _same(part: str) -> str:
    return part
