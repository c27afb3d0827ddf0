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
from signoff.agents.budgets import Budget
from signoff.agents.durable import Durable
from signoff.agents.endings import Ending, closed, unsaid
from signoff.agents.history import BEHIND, PROMPT, Histories, as_part, dumped, sliced
from signoff.agents.progress import Generation, Progress, Stop, earlier, usage_of
from signoff.agents.record import TurnRecord, beside
from signoff.client import App, AsyncClient
from signoff.context import Context
from signoff.errors import InvalidValue, NotSerializable, PayloadTooLarge, RegistrationError
from signoff.people.resumptions import CONTEXT

OnMessage = Literal["queue", "cancel", "answer"]


class TurnRequest(TypedDict):
    """What a turn is started with; a later generation of it with its progress, too."""

    prompt: NotRequired[Any]
    context: NotRequired[Any]
    fork: NotRequired[str]
    progress: NotRequired[SkipJsonSchema[Progress]]  # nobody who starts a turn has it


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How an agent is registered."""

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
        progress = request.get("progress")
        begun = await self._begun(request, progress)
        if "prompt" not in request:
            return {"status": "forked", "output": None, "messages": [], **_previous(begun), "usage": {}}
        prompt = PROMPT.validate_python(request["prompt"])
        history, behind = await self._history(begun["previous"], progress)
        seconds = 0.0 if progress is None else progress["seconds"]
        record = TurnRecord(self._ctx, self._settings.budget, behind, seconds)
        context = request.get("context", {})
        with capture_run_messages() as messages:
            try:
                async with self._given(context, record):
                    ended = await self._run_agent(prompt, history, context, record, progress)
                if not isinstance(ended, Stop):
                    return await self._finished(ended, begun, record)
                following = await self._keep_behind(ended, begun, progress, record.watch.seconds)
            except asyncio.CancelledError:
                ending = Ending("aborted", self._ctx.stop_reason or "")
                await self._keep(self._left(prompt, messages, record, ending))
                raise
            except Exception as error:
                ending = Ending("failed", _told(error))
                await self._keep(self._left(prompt, messages, record, ending))
                raise
        return self._ctx.continue_as_new({**request, "context": context, "progress": following})

    async def _begun(self, request: TurnRequest, progress: Progress | None) -> dict[str, Any]:
        if progress is not None:
            return progress["begun"]
        return await self._ctx.step(f"{self._name}:turn", self._begin, request.get("fork"))

    async def _begin(self, fork: str | None) -> dict[str, Any]:
        """Find the turn before this one: as later ones may be queued by now, it is not simply the last."""
        previous = await self._histories.before(await self._histories.run(self._ctx.run_id))
        return {"previous": previous or fork, "on_message": self._settings.on_message}

    async def _history(
        self, previous: str | None, progress: Progress | None
    ) -> tuple[Sequence[ModelMessage], Sequence[ModelMessage]]:
        """Read what was said before: it does not change any more, so the journal need not have it, too.

        Returns:
            The messages of earlier turns, and those of this turn's earlier generations.
        """
        read: list[ModelMessage] = []
        behind: list[ModelMessage] = []

        async def load() -> None:
            read[:] = await self._histories.up_to(previous)
            if progress is not None:
                behind[:] = await self._histories.behind(self._ctx.run_id, progress["parts"])

        await self._ctx.step(f"{self._name}:history", load, durable=False)
        if progress is not None and not behind:
            raise InvalidValue("progress", "no turn begins with it: the journal has no messages of it")
        return read, behind

    async def _run_agent(
        self,
        prompt: Any,
        history: Sequence[ModelMessage],
        context: Any,
        record: TurnRecord,
        progress: Progress | None,
    ) -> AgentRunResult[Any] | Stop:
        """Run the agent to its end, or to where the turn goes on in a new generation."""
        asked = prompt if progress is None else None
        options: dict[str, Any] = {
            "message_history": [*history, *earlier(record.behind)],
            "deps": context,
            "run_id": self._ctx.run_id,
            "usage_limits": self._settings.budget.limits,
            "usage": None if progress is None else usage_of(progress),
            "capabilities": [record],
        }
        if self._agent.event_stream_handler is not None:  # only `run` has it handle events
            return await self._agent.run(asked, **options)
        async with self._agent.iter(asked, **options) as run:
            generation = Generation(run, record)
            node = await generation.begin(progress, prompt)
            while not isinstance(node, End) and run.result is None:
                stop = generation.stop_at(node)
                if stop is not None and _can_be_stored(context) and self._ctx.patched(NEXT_GENERATION):
                    return stop
                node = await generation.next(node)
        assert run.result is not None
        return run.result

    async def _keep_behind(
        self, stop: Stop, begun: dict[str, Any], progress: Progress | None, seconds: float
    ) -> Progress:
        parts = 0 if progress is None else progress["parts"]
        for part in sliced(as_part(stop.messages, is_first=parts == 0)):
            await self._ctx.step(f"{self._name}:{BEHIND}", _same, part)
            parts += 1
        return stop.progress(begun, parts, seconds)

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
        mine = record.said(messages)
        if not mine:
            return unsaid(prompt, ending, self._ctx.run_id)
        return closed(mine, record.begun, ending)

    async def _finished(
        self, result: AgentRunResult[Any], begun: Mapping[str, Any], record: TurnRecord
    ) -> dict[str, Any]:
        mine = record.said(result.all_messages())
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


NEXT_GENERATION: Final = "signoff.next_generation"
"""The patch that runs take which begin a new generation here: others go on as they began."""

LONGEST_IN_RESULT: Final = 400_000
"""Bytes of messages that a turn's result has; more are kept in the journal."""


def _told(error: Exception) -> str:
    """Return what the model reads of an error: what others say in theirs may be none of its business."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, UsageLimitExceeded) else name


def _can_be_stored(context: Any) -> bool:
    """Whether a context can be given to a next generation: tools that are workflow code may have put anything in it."""
    try:
        codec.encode(context, path="context")
    except (NotSerializable, PayloadTooLarge):
        return False
    return True


def _previous(begun: Mapping[str, Any]) -> dict[str, Any]:
    return {"previous": begun["previous"]}


async def _same(part: str) -> str:
    return part
