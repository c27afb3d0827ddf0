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
    """What a turn is started with; a later generation of it with its progress, too."""

    prompt: NotRequired[Any]
    context: NotRequired[Any]
    fork: NotRequired[str]
    progress: NotRequired[SkipJsonSchema[Progress]]  # nobody who starts a turn has it


@dataclass(frozen=True, slots=True)
class SaidBefore:
    """What a generation of a turn is to go on with.

    Attributes:
        history: The messages of earlier turns.
        prompt: What the turn was asked.
        behind: What its earlier generations have said; None: it is the first.
    """

    history: Sequence[ModelMessage]
    prompt: Prompt
    behind: Behind | None = None


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
                    ended = await self._run_agent(said, context, record, progress)
                if not isinstance(ended, Stop):
                    return await self._finished(ended, begun)
                following = await self._keep_behind(ended, begun, progress, record.watch.seconds)
                return self._ctx.continue_as_new({"context": context, "progress": following})
            except asyncio.CancelledError:
                ending = Ending("aborted", self._ctx.stop_reason or "")
                await self._keep("messages", dumped(self._left(said, messages, record, ending)))
                raise
            except Exception as error:
                ending = Ending("failed", _told(error))
                await self._keep("messages", dumped(self._left(said, messages, record, ending)))
                raise

    async def _begun(self, request: TurnRequest, progress: Progress | None) -> dict[str, Any]:
        if progress is not None:
            return progress["begun"]
        return await self._ctx.step(f"{self._name}:turn", self._begin, request.get("fork"))

    async def _begin(self, fork: str | None) -> dict[str, Any]:
        """Find the turn before this one: as later ones may be queued by now, it is not simply the last."""
        previous = await self._histories.before(await self._histories.run(self._ctx.run_id))
        return {"previous": previous or fork, "on_message": self._settings.on_message}

    async def _said_before(self, request: TurnRequest, previous: str | None) -> SaidBefore:
        """Read what was said before: it does not change any more, so the journal need not have it, too."""
        read: list[tuple[Sequence[ModelMessage], Any, Behind | None]] = []
        progress = request.get("progress")
        if progress is None:
            read_prompt(request.get("prompt"))  # before anything is read for it

        async def load() -> None:
            history = await self._histories.up_to(previous)
            if progress is None:
                read[:] = [(history, request.get("prompt"), None)]
                return
            prompt = await self._histories.prompt(self._ctx.run_id)
            read[:] = [(history, prompt, await self._histories.behind(self._ctx.run_id, progress))]

        await self._ctx.step(f"{self._name}:history", load, durable=False)
        ((history, prompt, behind),) = read
        if progress is not None and behind is None:
            raise InvalidValue("progress", "no turn begins with it: the journal has no messages of it")
        return SaidBefore(history, read_prompt(prompt), behind)

    async def _run_agent(
        self, said: SaidBefore, context: Any, record: TurnRecord, progress: Progress | None
    ) -> AgentRunResult[Any] | Stop:
        """Run the agent to its end, or to where the turn goes on in a new generation."""
        options: dict[str, Any] = {
            "message_history": said.history,
            "deps": context,
            "run_id": self._ctx.run_id,
            "usage_limits": self._settings.budget.limits,
            "usage": None if progress is None else usage_of(progress),
            "capabilities": [record],
        }
        if not can_be_split(self._agent):
            return await self._agent.run(said.prompt, **options)
        async with self._agent.iter(said.prompt, **options) as run:
            if run.result is not None:  # a capability has it already
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
        """Take over what is said of the context when a question is answered, as long as the agent runs."""
        if not isinstance(context, dict):
            with record.current():
                yield
            return
        known = cast("dict[str, Any]", context)

        async def listen() -> None:
            while True:
                given: object = await self._ctx.wait_for_signal(CONTEXT)
                if isinstance(given, dict):  # whoever may send signals may send anything
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
        """Have the journal keep a text; returns in how many entries."""
        parts = sliced(text)
        for part in parts:
            await self._ctx.step(f"{self._name}:{what}", _same, part)
        return len(parts)


LARGEST_PROGRESS: Final = 10_000
"""How many bytes of what is stored with a context are left to the rest of a turn's progress."""

LONGEST_IN_RESULT: Final = 400_000
"""Bytes of messages that a turn's result has; more are kept in the journal."""


def _told(error: Exception) -> str:
    """Return what the model reads of an error: what others say in theirs may be none of its business."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, UsageLimitExceeded) else name


def _can_be_stored(context: Any) -> bool:
    """Whether a context is as it is given to a next generation: workflow code may have put anything in it."""
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
