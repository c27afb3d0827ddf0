"""A compiled graph as repeatable steps: each begins, resumes or continues it, as its latest checkpoint requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NotRequired

from langchain_core.runnables import RunnableConfig
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, StateSnapshot
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from signoff import current_step
from signoff.errors import InvalidValue

CALL: Final = "signoff_call"
"""Metadata of the checkpoints that one ``run_graph`` has made: the key of its first step."""


class Raised(TypedDict):
    """An open interrupt."""

    id: str
    value: Any
    schema: NotRequired[dict[str, Any]]


class Progress(TypedDict):
    """The result of a step of a graph.

    Attributes:
        call: The key of the first step.
        raised: The open interrupts. Without any the graph has ended.
        problem: Why the answers of this step did not count.
        output: What the graph returned.
    """

    call: str
    raised: list[Raised]
    problem: NotRequired[str]
    output: NotRequired[Any]


class GraphSteps:
    """The steps of one thread of a graph.

    Args:
        graph: The graph, with a checkpointer.
        config: The configuration of its runs: thread, recursion limit.
        output: Makes the output of the final state; None: the state as the graph returns it.
    """

    def __init__(self, graph: Any, config: RunnableConfig, output: Callable[[Any], Any] | None) -> None:
        self._graph = graph
        self._config = config
        self._output = output

    async def begin(self, given: Any) -> Progress:
        """Run the graph on its input until it ends or interrupts."""
        return await self._advance(current_step().idempotency_key, given, None)

    async def resume(self, call: str, answers: dict[str, Any]) -> Progress:
        """Give answers to open interrupts, and run the graph until it ends or interrupts.

        Raises:
            RuntimeError: Another run has used the thread meanwhile. Its interrupts are asked as that run says.
        """
        return await self._advance(call, None, answers)

    async def _advance(self, call: str, given: Any, answers: Mapping[str, Any] | None) -> Progress:
        config: RunnableConfig = {
            **self._config,
            "metadata": {**self._config.get("metadata", {}), CALL: call},
        }
        state = await self._graph.aget_state(config)
        if answers is not None and _is_of_another(state, call):
            thread = self._config.get("configurable", {}).get("thread_id")
            raise RuntimeError(f"another run has used thread {thread!r} meanwhile; give each run its own")
        if not _is_of(state, call):
            problem = await self._invoke(given, config)
        elif open_answers := _for_open(state, answers or {}):
            # An answer counts for the interrupt that is open, never for a later one of its node: after a crash it may
            # have been given.
            problem = await self._invoke(Command(resume=open_answers), config)
        elif _is_under_way(state):
            problem = await self._invoke(None, config)
        else:
            problem = None
        return self._progress(call, await self._graph.aget_state(config), problem)

    async def _invoke(self, given: Any, config: RunnableConfig) -> str | None:
        """Run the graph. Returns why an answer was refused, if one was."""
        try:
            await self._graph.ainvoke(given, config, durability="sync")
        except Exception as error:
            if not is_invalid_resume(error):
                raise
            return str(error)
        return None

    def _progress(self, call: str, state: StateSnapshot, problem: str | None) -> Progress:
        progress: Progress = {"call": call, "raised": []}
        for each in state.interrupts:
            raised: Raised = {"id": each.id, "value": _plain("an interrupt", each.value)}
            if isinstance(each.response_schema, dict):
                raised["schema"] = each.response_schema
            progress["raised"].append(raised)
        if problem is not None:
            progress["problem"] = problem
        if not progress["raised"]:
            if state.next:
                raise RuntimeError(f"the graph stopped before {', '.join(state.next)}, without an interrupt")
            make = self._output or partial(_plain, "the final state; pass output= to choose a part of it")
            progress["output"] = make(state.values)
        return progress


def _plain(what: str, value: Any) -> Any:
    """Return a value as JSON data: messages and models become objects.

    Raises:
        InvalidValue: A part is none of these.
    """
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidValue(what, f"it is not JSON: {error}") from error


def _for_open(state: StateSnapshot, answers: Mapping[str, Any]) -> dict[str, Any]:
    return {each.id: answers[each.id] for each in state.interrupts if each.id in answers}


def _is_of(state: StateSnapshot, call: str) -> bool:
    return state.metadata is not None and state.metadata.get(CALL) == call


def _is_of_another(state: StateSnapshot, call: str) -> bool:
    return state.metadata is not None and state.metadata.get(CALL, call) != call


def _is_under_way(state: StateSnapshot) -> bool:
    """Whether a task has neither ended nor interrupted: its process has died, or it failed."""
    return any(task.result is None and not task.interrupts for task in state.tasks)
