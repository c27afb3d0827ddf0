"""The arguments of one run of an agent, as the journal has them and a replay compares them.

Pydantic AI gives a capability only some of them. The others are read from the frame of the public ``Agent.iter``,
through which each run goes.
"""

from __future__ import annotations

import contextvars
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final, cast, get_args, get_origin

from pydantic_ai import Agent
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import Model

from signoff.agents.steps.turn_record import turn_record_of
from signoff.engine.run.call_inputs import argument_text, folded_object

_ITER: Final = inspect.unwrap(Agent.iter).__code__
_DEEPEST: Final = 8
_MARKED: Final = ("output", "outputs", "output_function")  # of ToolOutput, NativeOutput, TextOutput ...

_noted: contextvars.ContextVar[Mapping[str, Any] | None] = contextvars.ContextVar(
    "signoff_agent_run_arguments", default=None
)


def note_arguments() -> None:
    """Note the arguments of the agent's run that begins here, if a caller of this function is ``Agent.iter``."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not _ITER:
        frame = frame.f_back
    _noted.set(None if frame is None else {name: frame.f_locals.get(name) for name in _READ})


def noted_arguments() -> Mapping[str, Any]:
    """Return the noted arguments, and forget them: agents that run inside have their own.

    The limits of a conversation's turn are not among them. They are settings of the app, which a deploy may change.
    """
    noted = _noted.get()
    _noted.set(None)
    given = {name: value for name, value in (noted or {}).items() if value is not None}
    if turn_record_of(given.pop("run_id", None)) is not None:
        given.pop("usage_limits", None)
    return given


def compared_arguments(call: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a replay compares, by argument.

    Args:
        call: The name of the call, for warnings of what has no stable form.
        given: The arguments that the run was given.
    """
    texts: dict[str, str] = {}
    for name, value in given.items():
        data = _DATA[name](value)
        if isinstance(data, Mapping):
            parts = cast("Mapping[str, Any]", data).items()
            texts[name] = folded_object(
                [f"{json.dumps(part)}:{_text(call, f'{name}.{part}', each)}" for part, each in parts]
            )
        else:
            texts[name] = _text(call, name, data)
    return texts


def _text(call: str, name: str, value: Any) -> str:
    return argument_text(call, Agent, name, value)


def _instructions(given: Any) -> Any:
    """Texts as they are. A function, or a template that reads the dependencies, is left out: its text is not known."""
    every: list[Any] = [given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        every = list(cast("Sequence[Any]", given))
    parts = [each.content if isinstance(each, InstructionPart) else each for each in every]
    texts = [each for each in parts if isinstance(each, str)]
    return texts[0] if len(texts) == len(parts) == 1 else texts


def _model(given: Any) -> Any:
    return given.model_id if isinstance(given, Model) else given


def _settings(given: Any) -> Any:
    """Without credentials, which may be renewed and do not belong into a journal, and without time limits."""
    if not isinstance(given, Mapping):
        return given
    settings = cast("Mapping[str, Any]", given)
    return {name: value for name, value in settings.items() if name not in ("extra_headers", "timeout")}


def _toolsets(given: Sequence[Any]) -> list[str]:
    """Their ids, else their classes: the tools of a toolset may change while a run waits."""
    return [getattr(each, "id", None) or type(each).__name__ for each in given]


def _set_fields(given: Any) -> dict[str, Any]:
    """The fields that differ from their defaults: another version of Pydantic AI may have more."""
    found = ((field, getattr(given, field.name, None)) for field in fields(given))
    return {field.name: _within(value) for field, value in found if value != _default_of(field)}


def _within(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: _set_fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _within(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    return value


def _default_of(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _output_type(given: Any, depth: int = 0) -> Any:
    """The names of the types, without their modules: a script's module has another name when it is imported."""
    if depth > _DEEPEST:
        return _named(given)
    if isinstance(given, list | tuple):
        return [_output_type(each, depth + 1) for each in cast("Sequence[Any]", given)]
    if (origin := get_origin(given)) is not None:
        return [_named(origin), *(_output_type(each, depth + 1) for each in get_args(given))]
    for marked in _MARKED:
        if not isinstance(given, type) and hasattr(given, marked):
            return [type(given).__name__, _output_type(getattr(given, marked), depth + 1)]
    return _named(given)


def _named(given: Any) -> str:
    return getattr(given, "__qualname__", None) or repr(given)


_DATA: Final[Mapping[str, Callable[[Any], Any]]] = {
    "instructions": _instructions,
    "model": _model,
    "model_settings": _settings,
    "usage_limits": _set_fields,
    "output_type": _output_type,
    "toolsets": _toolsets,
    "deferred_tool_results": _set_fields,
}
"""How the compared arguments become data."""

_READ: Final = (*_DATA, "run_id")
