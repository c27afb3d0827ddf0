"""Compares the calls of a run's code with its journal. A difference is ``NonDeterminism``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import CodeType
from typing import Any, Protocol

from signoff.engine.run.call_inputs import described, differing, other_functions
from signoff.engine.run.calls import Call
from signoff.engine.run.replay_index import inputs_in
from signoff.engine.steps.function_identity import PART, is_swap, lengthened
from signoff.errors import NonDeterminism
from signoff.records import CallKind, Entry


class RunningCode(Protocol):
    """The run's code, as the check uses it."""

    def codes(self) -> list[CodeType]:
        """Return the code objects of the run."""
        ...

    @property
    def shared(self) -> Sequence[object]:
        """Objects shared by all runs of this code, besides modules."""
        ...

    def function_named(self, name: str) -> str:
        """Return the identity of the function that a step of this name calls by default."""
        ...

    def line(self) -> str:
        """Return the running line of user code."""
        ...


class ReplayCheck:
    """Compares one run's calls with its journal.

    Args:
        run_id: The run.
        code: The run's code.
    """

    def __init__(self, run_id: str, code: RunningCode) -> None:
        self._run_id = run_id
        self._code = code
        # Journaled steps whose function a deploy has replaced, by name and inputs, with the difference.
        self._replaced: dict[tuple[str, str], NonDeterminism] = {}

    def compare(self, call: Call[Any], recorded: Entry) -> NonDeterminism | None:
        """Compare the inputs of a call with the journaled inputs of its number.

        Returns:
            The difference, or None if there is none or a deploy explains it.
        """
        was, now = self._whole(inputs_in(recorded)), self._whole(json.loads(call.inputs or "{}"))
        found = differing(was, now)
        others = other_functions(was, now, self._code.function_named(call.name))
        functions = call.replaced(others, self._code.shared)
        if (found and not call.explains(found, was, self._code.shared)) or any(
            is_swap(before, after, self._code.codes()) for before, after in functions
        ):
            return self._difference(call, was, now)
        if functions:
            self._replaced[call.name, _text_of(was)] = self._difference(call, was, now)
        return None

    def moved(self, call: Call[Any]) -> NonDeterminism | None:
        """Return the difference if the journal has this call's inputs under another number.

        Two functions of one name have then changed places, and no deploy has replaced the first.
        """
        if not self._replaced or call.inputs is None:
            return None
        return self._replaced.get((call.name, _text_of(self._whole(json.loads(call.inputs)))))

    def _whole(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return inputs with the whole identity of the step's function, if they name one."""
        if not inputs.get(PART):
            return inputs
        home = self._code.function_named("").removesuffix(":")
        return {**inputs, PART: lengthened(inputs[PART], home)}

    def _difference(self, call: Call[Any], was: dict[str, Any], now: dict[str, Any]) -> NonDeterminism:
        subject = f"{call.kind} {call.name!r}".strip()
        return NonDeterminism(
            self._run_id,
            call.n,
            f"{subject} with {described(was)}",
            f"{subject} with {described(now)}",
            self._code.line(),
            inputs=(was, now),
        )


def diverged(
    run_id: str, recorded: Entry, issued: str, where: str | None, otherwise: CallKind = CallKind.STEP
) -> NonDeterminism:
    """Return the error for code that does not issue the journaled call.

    Args:
        run_id: The run.
        recorded: The journal's entry.
        issued: The call that the code issued instead.
        where: The line that issued it, if any.
        otherwise: The kind to report for an entry without a call.
    """
    expected = f"{recorded.call or otherwise} {recorded.name or ''!r}".strip()
    return NonDeterminism(run_id, recorded.n or 0, expected, issued, where)


def _text_of(inputs: dict[str, Any]) -> str:
    return json.dumps(inputs, sort_keys=True)
