"""The dependencies of an agent's run: workflow code gets the given object, each step its own copy."""

from __future__ import annotations

import contextvars
import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage

from signoff import codec
from signoff.agents.steps.message_texts import history_digest
from signoff.agents.steps.run_arguments import compared_arguments, noted_arguments
from signoff.codec.canonical_json import Unstable
from signoff.engine.run.call_inputs import argument_text, folded_object, short_text
from signoff.errors import InvalidValue, NotSerializable

Copy = Callable[[], Any]

_given: contextvars.ContextVar[GivenDeps] = contextvars.ContextVar("signoff_agent_deps_given")

LIVE: Final = "have a factory make what cannot be stored, for each step: Durable(deps=factory)"


class GivenDeps:
    """The ``deps`` given to ``agent.run``, and the history and the other arguments beside them.

    A step gets a copy, written as JSON and read back by its type. A replay would lose the step's changes to it, so they
    are never visible outside the step.

    Args:
        deps: The dependencies.
        declared: The agent's ``deps_type``.
        has_factory: Whether a factory makes the steps' dependencies from these, which may then be anything.
        history: The given messages.
        arguments: The other arguments, by name.

    Raises:
        NotSerializable: They cannot be copied, and there is no factory.
    """

    def __init__(
        self,
        deps: Any,
        declared: object,
        *,
        has_factory: bool,
        history: Sequence[ModelMessage] = (),
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._deps = deps
        self._history = tuple(history)  # the agent's run extends the list
        self._arguments = arguments or {}
        self._is_compared = False
        self._type: object = None
        try:
            self._type = None if deps is None else _type_of(deps, declared)
        except NotSerializable as error:
            if not has_factory:
                raise NotSerializable(error.path, f"{error.reason}; {LIVE}") from error

    @classmethod
    def of(cls, ctx: RunContext[Any], *, has_factory: bool) -> GivenDeps:
        """Return what the agent's run was given that begins with a context."""
        declared = object if ctx.agent is None else ctx.agent.deps_type
        arguments = noted_arguments()
        return cls(ctx.deps, declared, has_factory=has_factory, history=ctx.messages, arguments=arguments)

    @contextmanager
    def current(self) -> Generator[None]:
        """Let steps get copies of these dependencies inside of this context."""
        token = _given.set(self)
        try:
            yield
        finally:
            _given.reset(token)

    def compared_by(self, call: str) -> Mapping[str, str]:
        """Return the texts that a replay compares, by name.

        The first journaled call of an agent's run has them: two runs that differ only in these must not change places.

        Args:
            call: The name of the call, for warnings.

        Returns:
            The texts; empty if an earlier call has them.
        """
        if self._is_compared:
            return {}
        self._is_compared = True
        found = {} if self._deps is None else {"deps": _compared_text(call, self._deps)}
        if self._history:
            found["history"] = json.dumps(history_digest(call, self._history))
        return found | compared_arguments(call, self._arguments)

    def as_now(self) -> Copy:
        """Return a function that copies the dependencies in their present state.

        Workflow code may have put values into them that cannot be stored. Steps then get the object itself.
        """
        deps, declared = self._deps, self._type
        if declared is None:
            return lambda: deps
        try:
            text = _written(deps)
        except NotSerializable:
            return lambda: deps

        def copy() -> Any:
            try:
                return codec.decode(text, declared)
            except InvalidValue:
                return deps

        return copy


def given_here() -> GivenDeps | None:
    """Return the dependencies of the agent that runs here; None if an agent is used outside of its runs."""
    return _given.get(None)


def copies_of_deps() -> Copy:
    """Return a function that copies the present dependencies of the agent that runs here."""
    given = given_here()
    return (lambda: None) if given is None else given.as_now()


def _type_of(deps: object, declared: object) -> object:
    """Return the type that restores dependencies unchanged. Raises NotSerializable."""
    text = _written(deps)
    kind = type(deps)
    for annotation in (declared, kind):
        try:
            again = codec.decode(text, annotation)
        except InvalidValue:
            continue
        if type(again) is kind and (again == deps or kind.__eq__ is object.__eq__):
            return annotation
    raise NotSerializable(
        "deps", f"a {kind.__name__} that would come back changed; say its type: Agent(deps_type=...)"
    )


def _compared_text(call: str, deps: Any) -> str:
    """Return the text of dependencies, without the fields that have no stable form, such as a client."""
    try:
        return short_text(deps)
    except Unstable:
        names, kind = _fields_of(deps), cast("object", type(deps))
    if not names:
        return argument_text(call, kind, "deps", deps)
    texts = {name: argument_text(call, kind, f"deps.{name}", getattr(deps, name, None)) for name in names}
    return folded_object([f"{json.dumps(name)}:{text}" for name, text in texts.items()])


def _fields_of(deps: object) -> list[str]:
    if is_dataclass(deps):
        return [field.name for field in fields(deps)]
    return list(type(deps).model_fields) if isinstance(deps, BaseModel) else []


def _written(deps: object) -> str:
    return codec.encode(deps, path="deps", limit=sys.maxsize)  # a check only: it is not stored
