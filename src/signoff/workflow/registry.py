"""The workflows registered in this process, by name and version."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import to_json

from signoff import codec
from signoff.engine.run.execution import Execution, Program
from signoff.engine.run.step_call import StepCall
from signoff.engine.run.unawaited_functions import CHECKED, Unawaited, unawaited
from signoff.engine.steps.function_identity import home_of
from signoff.engine.timers.timers import PeriodicJob
from signoff.engine.worker.open_calls import OutcomeQuestion
from signoff.errors import NotAwaited, RegistrationError, UnknownWorkflow
from signoff.people.questions.answers import outcome_question
from signoff.people.questions.periodic_jobs import PERIODIC_JOBS
from signoff.records import Run, WorkflowInfo
from signoff.records.names import check_size, check_text
from signoff.records.responders import check_names
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.validation import LONGEST_DESCRIPTION, LONGEST_SCHEMA, check_workflows
from signoff.workflow.concurrency import Concurrency, declare
from signoff.workflow.context import Context, Names
from signoff.workflow.current_context import run_as
from signoff.workflow.functions import can_be_workflow, function_name, run_body, without_arguments

log = own_logger("signoff.worker")

_NAME = "__signoff_workflow__"


def workflow_name(workflow: Callable[..., Any] | str) -> str:
    """Return the registered name of a workflow.

    Raises:
        RegistrationError: The function is not a workflow.
    """
    if isinstance(workflow, str):
        return workflow
    if inspect.iscoroutine(workflow):
        name = workflow.__name__
        workflow.close()
        raise RegistrationError(
            f"{name!r} was called; instead of calling it, pass the workflow and its arguments: {name}, *args"
        )
    name = getattr(workflow, _NAME, None)
    if name is None:
        raise RegistrationError(
            f"{getattr(workflow, '__name__', workflow)!r} is not a workflow; decorate it with @app.workflow"
        )
    return name


@dataclass(frozen=True)
class WorkflowProgram:
    """One version of a registered workflow."""

    name: str
    version: str
    function: Callable[..., Any]
    home: str  # the module that defines the function
    names: Names

    def body(self, execution: Execution, arguments: str) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of one run, not yet started.

        Raises:
            InvalidValue: The arguments do not match the function's parameters.
        """
        return self._body(Context(execution, self.names), arguments)

    def settled(self, arguments: str) -> str | None:
        """Return arguments to journal if decoding them is not repeatable (such as a default factory), else None."""
        return codec.settled_arguments(arguments, self.function)

    @functools.cached_property
    def unawaited(self) -> Sequence[Unawaited]:
        """Calls of the user's own async functions that the workflow never awaits."""
        return unawaited([self.function, *getattr(self.function, CHECKED, ())])

    async def _body(self, context: Context, arguments: str) -> Any:
        for call in self.unawaited:
            raise NotAwaited(f"run {context.run_id!r}", *call)
        args, kwargs = codec.decode_arguments(arguments, self.function)
        run_as(context)
        return await run_body(self.function, context, args, kwargs)


def _is_redefined(known: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Whether ``function`` is a new definition of ``known`` in ``__main__``, such as a notebook cell that ran again."""
    places = [(each.__module__, _qualified_name(each)) for each in map(without_arguments, (known, function))]
    return places[0] == places[1] and places[1][0] == "__main__"


def _qualified_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or function_name(function)


def _checked(function: Any, name: str | None) -> tuple[Callable[..., Any], str]:
    """Return the callable to run as a workflow, and the workflow's name.

    Raises:
        RegistrationError: The object cannot be a workflow. The error says what to do.
    """
    if isinstance(function, staticmethod):
        function = cast("staticmethod[..., Any]", function).__func__
    chosen = _name_of(function) if name is None else name
    what = f"workflow {chosen!r}"
    if inspect.ismethod(function) or isinstance(function, classmethod) or _is_defined_as_method(function):
        raise RegistrationError(
            f"{what} is a method; register a function, whose steps may call the method, or a @staticmethod"
        )
    if inspect.isasyncgenfunction(function):
        raise RegistrationError(
            f"{what} is an async generator function: await the context's calls instead of yielding them, or remove "
            "the async"
        )
    if not can_be_workflow(function):
        kind = "a plain function; the wrapper of one needs functools.wraps"
        raise RegistrationError(
            f"{what} must be an async function or a generator function, not "
            f"{kind if inspect.isfunction(function) else _kind_of(function)}"
        )
    if hasattr(function, "cache_info"):
        raise RegistrationError(f"{what} is cached; remove the cache: each run calls the function anew")
    _check_context(what, function)
    if not chosen.strip() or chosen == "<lambda>":
        raise RegistrationError(f"{what} needs a name that is not empty: @app.workflow(name=...)")
    return function, chosen


def _name_of(function: object) -> str:
    if inspect.iscoroutine(function):
        function.close()
    return (
        function_name(function) if callable(function) else getattr(function, "__name__", _kind_of(function))
    )


def _kind_of(function: object) -> str:
    return f"class {function.__name__}" if isinstance(function, type) else type(function).__name__


def _is_defined_as_method(function: object) -> bool:
    """Whether a function is defined in the body of a class, with ``self`` or ``cls``."""
    if not inspect.isfunction(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    first = function.__code__.co_varnames[:1] if function.__code__.co_argcount else ()
    return bool(owner) and not owner.endswith("<locals>") and first in (("self",), ("cls",))


def _check_context(what: str, function: Callable[..., Any]) -> None:
    parameters = list(codec.shape_of(function).parameters.values())
    if not parameters:
        raise RegistrationError(f"{what} takes no parameters; the first one is the context")
    if parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    ):
        raise RegistrationError(
            f"{what} takes no positional parameter; the first one is the context, not {str(parameters[0])!r}"
        )


def _described(program: WorkflowProgram, group: str, *, is_current: bool) -> WorkflowInfo:
    schema = codec.parameters_schema(program.function)
    parameters = None if schema is None else to_json(schema).decode()
    if parameters is not None and len(parameters.encode()) > LONGEST_SCHEMA:
        parameters = None
    about = codec.description_of(program.function, LONGEST_DESCRIPTION)
    return WorkflowInfo(group, program.name, program.version, is_current, about, parameters)


class Registry:
    """Workflows by name and version.

    Args:
        group: The default group of child runs.
        public_url: The server's public URL, for callbacks, if configured.
        operators: Who decides about interrupted steps by default; empty for any user.

    Attributes:
        changes: The number of registrations so far.
    """

    def __init__(self, group: str, public_url: str | None = None, operators: Sequence[str] = ()) -> None:
        self.group = group
        self.public_url = public_url
        self.operators = check_names("operators", operators)
        self.changes = 0
        self._programs: dict[str, dict[str, WorkflowProgram]] = {}
        self._logged: set[Unawaited] = set()

    def add(
        self,
        function: Callable[..., Any],
        name: str | None,
        version: str,
        concurrency: Concurrency | None = None,
    ) -> None:
        """Register a workflow. New runs get the version registered last.

        Args:
            function: An async function or a generator function; its first parameter is the context.
            name: The workflow's name; by default the function's name.
            version: The version of its code.
            concurrency: A limit for runs that execute at once.

        Raises:
            RegistrationError: The function is neither async nor a generator function, takes no context, or its name and
                version belong to another function. A function of ``__main__`` replaces its previous definition, for
                notebooks.
            InvalidValue: The name or the version is not a text, or not one that every store can keep.
        """
        if name is not None:
            check_text("workflow name", name)
            check_size("workflow name", name)
        function, name = _checked(function, name)
        if not check_text(f"version of workflow {name!r}", version).strip():
            raise RegistrationError(f"workflow {name!r}: its version is empty")
        check_size(f"version of workflow {name!r}", version)
        versions = self._programs.setdefault(name, {})
        known = versions.get(version)
        if (
            known is not None
            and known.function is not function
            and not _is_redefined(known.function, function)
        ):
            raise RegistrationError(f"workflow {name!r} version {version!r} is registered twice")
        try:
            setattr(function, _NAME, name)
        except AttributeError:
            raise RegistrationError(
                f"workflow {name!r} is a {_kind_of(function)} that does not accept attributes; register an async "
                "function that calls it"
            ) from None
        if known is not None and known.function is not function:
            log.info("workflow %r version %r is replaced by its new definition", name, version)
        versions.pop(version, None)
        versions[version] = WorkflowProgram(name, version, function, home_of(function), self)
        self.changes += 1
        if concurrency is not None:
            declare(function, concurrency)

    def names(self) -> Sequence[str]:
        """The names of the registered workflows."""
        return list(self._programs)

    def program(self, workflow: str, version: str | None) -> Program:
        """Return the code of a workflow in the given version, or in its latest one if that is not registered.

        Raises:
            UnknownWorkflow: The workflow is not registered.
        """
        versions = self._programs.get(workflow)
        if not versions:
            raise UnknownWorkflow(workflow)
        return versions.get(version or "") or next(reversed(versions.values()))

    def describe(self, group: str) -> Iterator[WorkflowInfo]:
        """Yield the descriptions of the workflows, as workers of a group announce them."""
        for versions in list(self._programs.values()):
            current = next(reversed(versions))
            for program in list(versions.values()):
                try:
                    described = _described(program, group, is_current=program.version == current)
                    check_workflows([described])
                # Describing a workflow runs user code, such as the schemas of its types.
                except Exception as error:
                    log.warning("workflow %r cannot be described: %s", program.name, error)
                else:
                    yield described
                for call in program.unawaited:
                    if call not in self._logged:
                        self._logged.add(call)
                        error = NotAwaited(f"workflow {program.name!r}", *call)
                        log.error("none of its runs can proceed: %s", error)

    def function(self, workflow: Callable[..., Any] | str) -> Callable[..., Any] | None:
        """Return the latest version of a workflow's function, or None if the name is not registered."""
        if not isinstance(workflow, str):
            return workflow
        versions = self._programs.get(workflow)
        return next(reversed(versions.values())).function if versions else None

    def workflow_name(self, workflow: Callable[..., Any] | str) -> str:
        """Return the registered name of a workflow.

        Raises:
            RegistrationError: The function is not a workflow.
        """
        return workflow_name(workflow)

    @property
    def periodic_jobs(self) -> Sequence[PeriodicJob]:
        """The periodic jobs that workers run for questions."""
        return PERIODIC_JOBS

    def outcome_question(self, run: Run, call: StepCall, refused: str | None = None) -> OutcomeQuestion:
        """Return the question for an operator about a step whose outcome is unknown."""
        options = call.step_options
        assignees = tuple(options.operators or self.operators)
        data = outcome_question(
            call.name,
            run.id,
            options.returns,
            key=call.idempotency_key,
            assignees=assignees,
            refused=refused,
            shown=options.metadata,
        )
        return OutcomeQuestion(data, assignees)
