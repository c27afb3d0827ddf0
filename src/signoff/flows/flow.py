"""``Flow``: a graph of chunks joined by events."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, overload

from pydantic import ValidationError

from signoff import codec
from signoff.client.async_client import App, AsyncClient
from signoff.engine.run.calls import check_name
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.steps.step_options import Effect, StepOptions
from signoff.errors import InvalidValue, RegistrationError
from signoff.flows.builder import Point, Step, chunk_op, flow_op
from signoff.flows.chunks import Chunk, input_type_of
from signoff.flows.conditions import Condition, numbered
from signoff.flows.data import Data
from signoff.flows.executions import Execution, Executions
from signoff.flows.functions import check_condition, check_kind
from signoff.flows.graph import (
    GRAPH,
    ChunkOp,
    FlowOp,
    Graph,
    Op,
    Root,
    Source,
    SourceKind,
    all_operations,
)
from signoff.flows.mermaid import to_mermaid
from signoff.flows.pauses import checked
from signoff.flows.resolution import resolved
from signoff.flows.state_types import StateTypes
from signoff.service.snapshots import Snapshot

F = TypeVar("F", bound=Callable[..., Any])

Migration = Callable[[Mapping[str, Any], Sequence[str]], Mapping[str, str]]
"""Maps an old graph (plain data) and its differences to the current chunks and conditions: ``{old: new}``."""


class Flow:
    """A graph of chunks. Its executions are runs: durable, on any worker that registers the flow.

    Args:
        name: Its name in the store. It must never change.
        input: The type of an execution's input.
        output: The type of an execution's final state.
        state: The types of the state's keys: a mapping, or a class with fields, such as a ``TypedDict``. Values are
            validated when they are written, and come back as the same type. A key without a type is plain JSON data.
        auto_close_timeout: Seconds of inactivity after which an execution closes on its own, unless interrupts are
            open. None: only ``close`` ends it.

    Example::

        flow = Flow("ticket-approval")

        @flow.chunk
        async def ask(data):
            return await data.pause_for("approval", {"question": f"Refund ticket {data.input}?"})

        @flow.chunk
        async def commit(data):
            await data.set_state("decision", data.input)

        flow.to(ask).to(commit)
        app.register(flow)
        execution = await flow.start("T-001", id="ticket-T-001")
    """

    def __init__(
        self,
        name: str,
        *,
        input: Any = Any,
        output: Any = Any,
        state: Any = None,
        auto_close_timeout: float | None = 10.0,
    ) -> None:
        check_name("flow name", name)
        if not name.strip():
            raise RegistrationError("a flow needs a name: Flow('ticket-approval')")
        if auto_close_timeout is not None and not auto_close_timeout >= 0:
            raise InvalidValue(
                "auto_close_timeout", f"it is in seconds, or None for never, not {auto_close_timeout}"
            )
        self.name = name
        self.input = input
        self.output = output
        self.state_types = StateTypes.of(name, state)
        self.auto_close_timeout = auto_close_timeout
        self.chunks: dict[str, Chunk] = {}
        self.conditions: dict[str, Condition] = {}
        self.flows: dict[str, Flow] = {}
        self.required: set[str] = set()
        self.emitted: dict[str, str] = {}
        self.migration: Migration | None = None
        self.open_ops: list[Op] = []
        self.roots: list[Root] = []
        self._app: App | None = None
        self._bound: Executions | None = None

    # Chunks, conditions and resources

    @overload
    def chunk(self, function: F) -> F: ...
    @overload
    def chunk(
        self,
        *,
        name: str | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        effect: Effect = "repeatable",
        non_retryable: tuple[type[BaseException], ...] = (),
    ) -> Callable[[F], F]: ...
    def chunk(
        self,
        function: F | None = None,
        *,
        name: str | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        effect: Effect = "repeatable",
        non_retryable: tuple[type[BaseException], ...] = (),
    ) -> F | Callable[[F], F]:
        """Register a function as a chunk. It runs as a step; its writes, events and result commit together.

        Args:
            function: An async or plain function of one parameter, its ``Data``.
            name: Its name, by default the function's. It must never change.
            retry: The retry policy; by default 8 attempts with exponential back-off.
            timeout: Seconds that one attempt may take.
            effect: ``once``: if the worker dies during the chunk, an operator decides whether it runs again.
            non_retryable: Exceptions that end the retries.

        Raises:
            RegistrationError: The name is taken, or the function cannot be a chunk.
        """

        def register(decorated: F) -> F:
            chosen = getattr(decorated, "__name__", None) if name is None else name
            if chosen is None:
                raise RegistrationError(f"{decorated!r} has no name: flow.chunk(name=...)")
            check_name("chunk name", checked(chosen, "chunk name"))
            check_kind(decorated, f"chunk {chosen!r}")
            if chosen in self.chunks:
                raise RegistrationError(f"flow {self.name!r} already has a chunk {chosen!r}")
            options = StepOptions(retry=retry, timeout=timeout, effect=effect, non_retryable=non_retryable)
            options.check(f"chunk {chosen!r}")
            declared = input_type_of(decorated, chosen)
            self.chunks[chosen] = Chunk(chosen, decorated, options, declared)
            return decorated

        return register if function is None else register(function)

    def condition(self, function: F) -> F:
        """Register a condition under its function's name, for graphs loaded from JSON.

        A condition is a plain or async function that reads its data and returns true or false. Its result is journaled:
        a decision is final, even if the code changes.

        Raises:
            RegistrationError: The name is taken, or the function cannot be a condition.
        """
        name = getattr(function, "__name__", None)
        if name is None:
            raise RegistrationError(f"{function!r} has no name; define the condition with def")
        check_condition(function, f"condition {name!r}")
        if self.conditions.get(name, function) is not function:
            raise RegistrationError(f"flow {self.name!r} already has a condition {name!r}")
        self.conditions[name] = function
        return function

    def requires(self, *names: str) -> Self:
        """Declare the live resources that chunks use. Workers provide them to ``app.register(flow, resources=...)``."""
        for name in names:
            check_name("resource name", checked(name, "resource name"))
        self.required.update(names)
        return self

    def migrate(self, function: Migration) -> Migration:
        """Register a function that maps an older graph to the current one, for executions that began with it.

        The function receives the old graph as plain data and a list of differences, and returns ``{old: new}`` for
        chunks and conditions. Such an execution continues along its original graph. An unnamed condition (``condition
        1``) is known by its position only: if more than names differ, the migration must map it.

        Example::

            @flow.migrate
            def renamed(graph, changes):
                return {"ask": "ask_finance"}
        """
        self.migration = function
        return function

    # The graph

    def to(self, step: Step, **moves: Mapping[str, str]) -> Point:
        """Begin a line at the start of an execution; see ``Point.to``."""
        return self._root([Source("start")], "or").to(step, **moves)

    def batch(self, *steps: Step | tuple[str, Step | Point], **named: Any) -> Point:
        """Begin with parallel lines; see ``Point.batch``."""
        return self._root([Source("start")], "or").batch(*steps, **named)

    def for_each(self, *, concurrency: int | None = None) -> Point:
        """Begin with a line for each item of the input; see ``Point.for_each``."""
        return self._root([Source("start")], "or").for_each(concurrency=concurrency)

    def if_(self, condition: Condition | str) -> Point:
        """Begin with a choice; see ``Point.if_``."""
        return self._root([Source("start")], "or").if_(condition)

    def match(
        self, subject: Condition | str | None = None, *, hits: Literal["first", "all"] = "first"
    ) -> Point:
        """Begin with a choice; see ``Point.match``."""
        return self._root([Source("start")], "or").match(subject, hits=hits)

    def when(
        self,
        *sources: str | Mapping[str, str] | Callable[..., Any],
        mode: Literal["and", "or"] = "and",
    ) -> Point:
        """Begin a line that events start.

        Args:
            sources: Names of events; ``{"state": key}`` for writes to a key of the state; ``{"chunk": name}`` or a
                chunk's function for the end of a chunk.
            mode: For several sources: ``and`` waits for one of each and passes a dict of them, ``or`` starts with any.

        Raises:
            RegistrationError: There is no source, or one is repeated.
        """
        if mode not in ("and", "or"):
            raise RegistrationError(f"when: mode is 'and' or 'or', not {mode!r}")
        on = [self._source(each) for each in sources]
        if not on or len(set(on)) < len(on):
            raise RegistrationError("when needs events, each of them once")
        return self._root(on, mode if len(on) > 1 else "or")

    def branch(self) -> Point:
        """Begin a line to pass to ``batch``."""
        return Point(self, [], -1)

    def _root(self, on: list[Source], mode: Literal["and", "or"]) -> Point:
        root = Root(on, mode)
        self.roots.append(root)
        return Point(self, root.then, -1)

    def _source(self, given: str | Mapping[str, str] | Callable[..., Any]) -> Source:
        if isinstance(given, str):
            return Source("event", checked(given, "event"))
        if callable(given):
            return Source("chunk", self.name_of(given))
        kinds: tuple[SourceKind, ...] = ("event", "state", "chunk")
        found: list[SourceKind] = [kind for kind in kinds if set(given) == {kind}]
        if not found:
            raise RegistrationError(f"when: {given!r} is not an event, {{'state': key}} or {{'chunk': name}}")
        return Source(found[0], checked(given[found[0]], found[0]))

    @property
    def graph(self) -> Graph:
        """The graph as data, which executions follow.

        Raises:
            RegistrationError: It is not complete, or names something that is not registered.
        """
        return resolved(self)

    # As data

    def to_json(self) -> str:
        """Return the graph as JSON, with the names of chunks and conditions."""
        return json.dumps(self.graph.to_json(), indent=2)

    def from_json(self, text: str) -> Self:
        """Load the graph from JSON, using the chunks, conditions and flows registered here.

        Args:
            text: The JSON, from ``to_json`` or written by hand.

        Returns:
            The flow itself.

        Raises:
            InvalidValue: It is not a valid graph. The error has the path.
            RegistrationError: It names something that is not registered, or this flow already has lines.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise InvalidValue("graph", f"invalid JSON: {error}") from None
        return self._take(data)

    def to_yaml(self) -> str:
        """Return the graph as YAML; see ``to_json``. Needs PyYAML."""
        return _yaml().safe_dump(self.graph.to_json(), sort_keys=False, allow_unicode=True)

    def from_yaml(self, text: str) -> Self:
        """Load the graph from YAML; see ``from_json``. Needs PyYAML."""
        yaml = _yaml()
        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InvalidValue("graph", f"invalid YAML: {error}") from None
        return self._take(data)

    def _take(self, data: Any) -> Self:
        if self.roots:
            raise RegistrationError(f"flow {self.name!r} already has lines")
        try:
            graph = GRAPH.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = ".".join(str(part) for part in first["loc"]) or "graph"
            raise InvalidValue(path, first["msg"]) from None
        if graph.name != self.name:
            raise InvalidValue("name", f"the graph is of flow {graph.name!r}, not of {self.name!r}")
        self.roots = graph.roots
        try:
            checked = self.graph
            if _without_ids(graph) != _without_ids(checked):
                raise RegistrationError(
                    f"flow {self.name!r}: a flow within it is not the one that is registered here"
                )
        except RegistrationError:
            self.roots = []
            raise
        return self

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart."""
        return to_mermaid(self.graph)

    # Executions

    def bind(self, app: App) -> None:
        """Set the app for ``start``, ``attach`` and ``load``. ``app.register`` does this."""
        self._app, self._bound = app, None

    @property
    def _executions(self) -> Executions:
        app = self._app
        if app is None:
            raise RegistrationError(f"flow {self.name!r} is not registered: app.register(flow)")
        in_tests: AsyncClient | None = getattr(app, "client_in_tests", None)
        if in_tests is not None:
            return Executions(in_tests, self.name)
        if self._bound is None:
            self._bound = Executions(AsyncClient(app), self.name)
        return self._bound

    async def start(self, input: Any = None, *, id: str | None = None, **options: Any) -> Execution:
        """Start an execution; see ``Executions.start``."""
        if self.input is not Any:
            codec.normalize(input, self.input, path="input")
        return await self._executions.start(input, id=id, **options)

    async def attach(self, execution_id: str) -> Execution:
        """Return an existing execution, started by any process.

        Raises:
            NotFound: This flow has no such execution.
        """
        return await self._executions.attach(execution_id)

    async def load(self, snapshot: Snapshot, *, by: str | None = None) -> Execution:
        """Continue an execution that was saved in another store; see ``Executions.load``."""
        return await self._executions.load(snapshot, by=by)

    # Used by the builder

    def operation(
        self,
        step: Step,
        capture: Mapping[str, str] | None = None,
        write_back: Mapping[str, str] | None = None,
    ) -> Op:
        """Return the operation for a step.

        Raises:
            RegistrationError: It is not a valid step.
        """
        if isinstance(step, Flow):
            if self.flows.get(step.name, step) is not step:
                raise RegistrationError(f"flow {self.name!r} has another flow called {step.name!r}")
            self.flows[step.name] = step
            return flow_op(step.name, capture, write_back)
        if capture is not None or write_back is not None:
            raise RegistrationError("capture and write_back belong to a flow")
        return chunk_op(self.name_of(step))

    def name_of(self, step: Step) -> str:
        """Return the name of a chunk or flow. An unregistered function becomes a chunk."""
        if isinstance(step, str):
            return step
        if isinstance(step, Flow):
            return step.name
        for name, chunk in self.chunks.items():
            if chunk.function is step:
                return name
        if getattr(step, "__name__", "<lambda>") == "<lambda>":
            raise RegistrationError(f"{step!r} has no name; define the chunk with def, or name it")
        self.chunk(step)
        return step.__name__

    def named_condition(self, condition: Condition | str) -> str:
        """Return the name of a condition. An unnamed condition gets a number."""
        if isinstance(condition, str):
            return condition
        for name, known in self.conditions.items():
            if known is condition:
                return name
        check_condition(
            condition, f"condition {getattr(condition, '__name__', condition)!r} of flow {self.name!r}"
        )
        name = getattr(condition, "__name__", "<lambda>")
        if name == "<lambda>":
            name = numbered(len(self.conditions) + 1)
        if name in self.conditions:
            raise RegistrationError(f"flow {self.name!r} has another condition {name!r}")
        self.conditions[name] = condition
        return name

    def emitter(self, event: str) -> Callable[[Data[Any]], Any]:
        """Return the chunk that emits an event with its input.

        Raises:
            RegistrationError: The name is empty.
        """
        checked(event, "event")
        name = f"emit {event}"
        if name not in self.chunks:

            def emit(data: Data[Any]) -> Any:
                data.emit(event, data.input)
                return data.input

            self.chunk(name=name)(emit)
            self.emitted[name] = event
        return self.chunks[name].function

    def plain(self, value: Any) -> Any:
        """Return a case's value as plain data.

        Raises:
            NotSerializable: It is not plain data.
        """
        return json.loads(codec.encode(value, path="case"))


def _without_ids(graph: Graph) -> Graph:
    plain = copy.deepcopy(graph)
    for op in all_operations(plain):
        if isinstance(op, ChunkOp):
            op.id = ""
        if isinstance(op, FlowOp):
            op.id, op.graph = "", None
    return plain


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise RegistrationError("YAML needs PyYAML: pip install 'signoff[flows]'") from None
    return yaml
