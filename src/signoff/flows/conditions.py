"""Conditions: they choose a line's path. Each decision is a step, and final even if the code changes."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any, cast

from signoff import codec
from signoff.engine.steps.retry import RetryPolicy
from signoff.errors import RegistrationError
from signoff.flows.chunks import Moment, input_type_of
from signoff.flows.data import Data, Surroundings
from signoff.flows.errors import ChunkHeld, NotACondition, reason_of, shortened
from signoff.workflow.context import Context

Condition = Callable[[Data[Any]], Any]
"""Chooses a path: a plain or async function that reads its data and has no effects."""


def numbered(count: int) -> str:
    """Return the name of the unnamed condition with a number."""
    return f"condition {count}"


def is_numbered(name: str) -> bool:
    """Return whether a condition has no name of its own."""
    return re.fullmatch(r"condition \d+", name) is not None


_ONCE = RetryPolicy(max_attempts=1)

_YES_OR_NO: tuple[type, ...] = (Number, re.Match)
"""Types whose truth value is a valid result, besides None and bool: numbers, and a ``re.Match``."""


@dataclass(frozen=True)
class Case:
    """A line's case: a condition, or a value to compare a subject with.

    Attributes:
        when: The condition's name.
        value: The value, as JSON, if there is no condition.
    """

    when: str | None
    value: str = "null"


class Decision:
    """Decides between cases, once.

    Args:
        place: Its place in the graph: the step's name.
        path: A prefix for the names of its conditions in errors.
        conditions: The flow's conditions, by name.
        moment: The data to decide on.
        around: The execution, as a condition sees it.
    """

    def __init__(
        self,
        place: str,
        path: str,
        conditions: Mapping[str, Condition],
        moment: Moment,
        around: Surroundings,
    ) -> None:
        self._place = place
        self._path = path
        self._conditions = conditions
        self._moment = moment
        self._around = around

    async def make(
        self, ctx: Context, cases: Sequence[Case], subject: str | None = None, *, first: bool
    ) -> list[int]:
        """Return the indexes of matching cases: the first only, or all.

        Raises:
            ChunkHeld: A condition failed, or returned neither true nor false. The error names it.
        """
        if subject is None and all(case.when is None for case in cases):
            # No code runs: the decision follows from recorded data.
            return await self._fitting(cases, None, first)

        async def decide() -> list[int]:
            return await self._fitting(cases, subject, first)

        names = {case.when for case in cases if case.when is not None} if subject is None else {subject}

        def held(error: Exception) -> ChunkHeld:  # also for exceptions that end processes, such as sys.exit()
            if isinstance(error, ChunkHeld):
                return error
            return self._failed(next(iter(names)) if len(names) == 1 else self._place, error)

        return await ctx.step(
            self._place,
            decide,
            retry=_ONCE,
            non_retryable=(Exception,),
            returns=list[int],
            compare=self._moment.input,
            on_failure=held,
        )

    async def _fitting(self, cases: Sequence[Case], subject: str | None, first: bool) -> list[int]:
        given: Any = self._moment.input if subject is None else await self._value(subject)
        text = codec.encode(given, path=f"result of {subject}")
        hits: list[int] = []
        for index, case in enumerate(cases):
            # JSON's equality: true is not 1.
            fits = case.value == text if case.when is None else await self._holds(case.when)
            if fits:
                hits.append(index)
                if first:
                    break
        return hits

    async def _holds(self, name: str) -> bool:
        value = await self._value(name)
        says = value is None or isinstance(value, _YES_OR_NO) or type(value).__name__ in ("bool", "bool_")
        if says and value == value:  # NaN equals nothing, and would be true
            return bool(cast("object", value))
        raise self._failed(name, NotACondition(name, _neither(value)))

    async def _value(self, name: str) -> Any:
        condition = self._conditions[name]
        try:
            data = self._moment.data(replace(self._around, chunk=name), input_type=_input_of(condition))
            value = condition(data)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            raise self._failed(name, error) from error
        if data.misused is not None:
            raise self._failed(name, data.misused)
        return value

    def _failed(self, name: str, error: Exception) -> ChunkHeld:
        return ChunkHeld(f"{self._path}{name}", shortened(self._moment.text), reason_of(error))


def _neither(value: Any) -> str:
    """Return advice for a value that is always true, such as ``{"approved": False}``."""
    shown = shortened(repr(value), 80)
    approved = isinstance(value, dict) and "approved" in cast("dict[object, object]", value)
    write = 'data.input["approved"]' if approved else "a comparison, or bool(...)"
    return f"returned {shown}, which is neither true nor false: return {write}"


@functools.cache
def _input_of(condition: Condition) -> Any:
    """Return the declared input type of a condition; Any without one."""
    try:
        return input_type_of(condition, "condition")
    except (RegistrationError, TypeError, ValueError):
        return Any
