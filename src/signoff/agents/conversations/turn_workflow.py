"""A turn of a conversation: the workflow that an agent is registered as."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, TypedDict, cast, get_args

from pydantic.json_schema import SkipJsonSchema
from pydantic_ai import capture_run_messages
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelMessage
from pydantic_ai.run import AgentRunResult
from pydantic_core import to_jsonable_python
from pydantic_graph import End

from signoff import codec
from signoff.agents.conversations.generations import (
    Behind,
    Generation,
    Progress,
    Stop,
    can_be_split,
    usage_of,
)
from signoff.agents.conversations.history import (
    BEHIND,
    REQUEST,
    Histories,
    Prompt,
    as_line,
    dumped,
    prompt_of,
    read_prompt,
    sliced,
)
from signoff.agents.conversations.interrupted_turns import Ending, closed, unsaid
from signoff.agents.durable import Durable
from signoff.agents.steps.budgets import Budget
from signoff.agents.steps.turn_record import TurnRecord, beside
from signoff.client.async_client import App, AsyncClient
from signoff.errors import InvalidValue, NotSerializable, PayloadTooLarge, RegistrationError
from signoff.people.links.resume_tokens import CONTEXT
from signoff.workflow.context import Context

OnMessage = Literal["queue", "cancel", "answer"]


class TurnRequest(TypedDict):
    """The input of a turn; of its later generations, also their progress."""

    prompt: NotRequired[Any]
    context: NotRequired[Any]
    fork: NotRequired[str]
    progress: NotRequired[SkipJsonSchema[Progress]]  # only set between generations, never by a caller


@dataclass(frozen=True, slots=True)
class SaidBefore:
    """The messages that a generation of a turn starts with.

    Attributes:
        history: The messages of earlier turns.
        prompt: The turn's prompt.
        behind: The messages of its earlier generations; None: it is the first.
    """

    history: Sequence[ModelMessage]
    prompt: Prompt
    behind: Behind | None = None


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The options that an agent was registered with."""

    budget: Budget
    on_message: OnMessage


def turn_workflow(
    app: App, agent: AbstractAgent[Any, Any], name: str, settings: TurnSettings
) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return the workflow whose runs are an agent's turns."""
    histories: dict[int, Histories] = {}

    async def turn(ctx: Context, request: TurnRequest) -> dict[str, Any]:
        here = histories.get(id(app.store))
        if here is None:  # a test may have given the app another store
            histories.clear()
            here = histories[id(app.store)] = Histories(AsyncClient(app), name)
        return await Turn(ctx, agent, name, settings, here).run(request)

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
    """Return the name that an agent is registered under.

    Raises:
        RegistrationError: The agent has no name, or is not durable.
    """
    found: list[Durable[Any]] = []
    agent.root_capability.apply(lambda each: found.append(each) if isinstance(each, Durable) else None)
    if not found:
        raise RegistrationError(
            f"agent {agent.name!r} is not durable: make it with Agent(..., capabilities=[Durable()])"
        )
    chosen = name or agent.name
    if not chosen:
        raise RegistrationError("a registered agent needs a name: Agent(..., name='support')")
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
        """Run the agent on the prompt, after the history of the session.

        Returns:
            The status, the output and the messages that the turn has added. Large messages are in the journal instead.
        """
        progress = request.get("progress")
        begun = await self._begun(request, progress)
        if "fork" in request:
            return {"status": "forked", "output": None, "messages": [], **_previous(begun), "usage": {}}
        said = await self._said_before(request, begun["previous"])
        record = TurnRecord(
            self._ctx, self._settings.budget, 0.0 if progress is None else progress["seconds"]
        )
        context = request.get("context", {})
        with capture_run_messages() as messages:
            try:
                async with self._given(context, record):
                    ended = await self._run_agent(said, context, progress)
                if not isinstance(ended, Stop):
                    return await self._finished(ended, begun)
                following = await self._keep_behind(ended, begun, progress, record.watch.seconds)
                return self._ctx.continue_as_new({"context": context, "progress": following})
            except asyncio.CancelledError:
                ending = Ending("aborted", self._ctx.stop_reason or "")
                await self._keep("messages", dumped(self._left(said, messages, record, ending)))
                raise
            except Exception as error:
                ending = Ending("failed", _reason_for(error))
                await self._keep("messages", dumped(self._left(said, messages, record, ending)))
                raise

    async def _begun(self, request: TurnRequest, progress: Progress | None) -> dict[str, Any]:
        if progress is not None:
            return progress["begun"]
        return await self._ctx.step(f"{self._name}:turn", self._begin, request.get("fork"))

    async def _begin(self, fork: str | None) -> dict[str, Any]:
        """Find the turn before this one. It may not be the last, since later turns may be queued already."""
        previous = await self._histories.before(await self._histories.run(self._ctx.run_id))
        return {"previous": previous or fork, "on_message": self._settings.on_message}

    async def _said_before(self, request: TurnRequest, previous: str | None) -> SaidBefore:
        """Read the earlier messages. They no longer change, so the journal does not need a copy."""
        read: list[tuple[Sequence[ModelMessage], Any, Behind | None]] = []
        progress = request.get("progress")
        if progress is None:
            read_prompt(request.get("prompt"))  # refuse a bad prompt before reading anything

        async def load() -> None:
            history = await self._histories.up_to(previous)
            if progress is None:
                read[:] = [(history, request.get("prompt"), None)]
                return
            run = await self._histories.run(self._ctx.run_id)
            read[:] = [(history, prompt_of(run), await self._histories.behind(run, progress))]

        await self._ctx.step(f"{self._name}:history", load, durable=False)
        ((history, prompt, behind),) = read
        if progress is not None and behind is None:
            raise InvalidValue("progress", "callers cannot set it: the journal has no messages for it")
        return SaidBefore(history, read_prompt(prompt), behind)

    async def _run_agent(
        self, said: SaidBefore, context: Any, progress: Progress | None
    ) -> AgentRunResult[Any] | Stop:
        """Run the agent to its end, or to the end of this generation."""
        options: dict[str, Any] = {
            "message_history": said.history,
            "deps": context,
            "run_id": self._ctx.run_id,
            "usage_limits": self._settings.budget.limits,
            "usage": None if progress is None else usage_of(progress),
        }
        if not can_be_split(self._agent):
            return await self._agent.run(said.prompt, **options)
        async with self._agent.iter(said.prompt, **options) as run:
            if run.result is not None:  # a capability has provided it
                return run.result
            generation = Generation(run)
            node = await generation.begin(progress, said.behind)
            while not isinstance(node, End):
                stop = generation.stop_at(node)
                if stop is not None and _can_be_stored(context):
                    return stop
                node = await generation.next(node)
        assert run.result is not None
        return run.result

    async def _keep_behind(
        self, stop: Stop, begun: dict[str, Any], progress: Progress | None, seconds: float
    ) -> Progress:
        parts, (_, end) = (0, (0, 0)) if progress is None else (progress["parts"], progress["request"])
        added = await self._keep(BEHIND, as_line(stop.messages))
        asked = await self._keep(REQUEST, as_line([stop.request]))
        return Progress(
            begun=begun, parts=parts + added, request=(end, end + asked), seconds=seconds, **stop.state
        )

    @asynccontextmanager
    async def _given(self, context: Any, record: TurnRecord) -> AsyncGenerator[None]:
        """While the agent runs, replace its context with the one that an answer brings."""
        if not isinstance(context, dict):
            with record.current():
                yield
            return
        known = cast("dict[str, Any]", context)

        async def listen() -> None:
            while True:
                given: object = await self._ctx.wait_for_signal(CONTEXT)
                if isinstance(given, dict):  # the content of a signal is not checked when it is sent
                    known.clear()
                    known.update(cast("dict[str, Any]", given))

        async with beside(listen()):
            with record.current():
                yield

    def _left(
        self, said: SaidBefore, messages: Sequence[ModelMessage], record: TurnRecord, ending: Ending
    ) -> Sequence[ModelMessage]:
        mine = self._mine(messages)
        if said.behind is not None and (not mine or mine[-1] is said.behind.messages[-1]):
            mine = said.behind.all
        if not mine:
            return unsaid(said.prompt, ending, self._ctx.run_id)
        return closed(mine, record.begun, ending)

    def _mine(self, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
        return [message for message in messages if message.run_id == self._ctx.run_id]

    async def _finished(self, result: AgentRunResult[Any], begun: Mapping[str, Any]) -> dict[str, Any]:
        text = dumped(self._mine(result.all_messages()))
        is_long = len(text.encode()) > LONGEST_IN_RESULT
        if is_long:
            await self._keep("messages", text)
        return {
            "status": "finished",
            "output": to_jsonable_python(result.output),
            "messages": None if is_long else json.loads(text),
            **_previous(begun),
            "usage": to_jsonable_python(result.usage, exclude_none=True),
        }

    async def _keep(self, what: str, text: str) -> int:
        """Keep a text in the journal. Returns the number of entries."""
        parts = sliced(text)
        for part in parts:
            await self._ctx.step(f"{self._name}:{what}", _same, part)
        return len(parts)


LARGEST_PROGRESS: Final = 10_000
"""Bytes of a stored input that the context leaves to the rest of a turn's progress."""

LONGEST_IN_RESULT: Final = 400_000
"""The most bytes of messages in a turn's result; larger ones are kept in the journal."""


def _reason_for(error: Exception) -> str:
    """Return an error as the model reads it: only its class, since its text may not be meant for the model."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, UsageLimitExceeded) else name


def _can_be_stored(context: Any) -> bool:
    """Whether a context can be passed to the next generation: workflow code may have put anything into it."""
    if not _is_json(context):
        return False
    try:
        codec.encode([context, "-" * LARGEST_PROGRESS], path="context")
    except (NotSerializable, PayloadTooLarge):
        return False
    return True


def _is_json(value: Any) -> bool:
    if type(value) is dict:
        members = cast("dict[Any, Any]", value)
        return all(type(key) is str and _is_json(each) for key, each in members.items())
    if type(value) is list:
        return all(_is_json(each) for each in cast("list[Any]", value))
    return value is None or type(value) in (str, int, float, bool)


def _previous(begun: Mapping[str, Any]) -> dict[str, Any]:
    return {"previous": begun["previous"]}


async def _same(part: str) -> str:
    return part
