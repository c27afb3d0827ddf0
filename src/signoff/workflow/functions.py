"""Workflow functions: async and generator functions, run as coroutines on a run's event loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, cast

from signoff.engine.run.execution import Execution
from signoff.engine.run.unawaited_context_calls import Built
from signoff.engine.run.user_code_lines import waiting_line
from signoff.engine.steps.failed_attempt_log import log_failed_attempt
from signoff.engine.steps.retry import NO_RETRY, RetryPolicy
from signoff.engine.steps.step_options import check_retry, exceptions_of
from signoff.errors import RegistrationError
from signoff.records.start_options import check_seconds

Function = Callable[..., Any]

_FUNCTIONS: Final = (FunctionType, MethodType, BuiltinFunctionType, type)


def is_workflow_code(function: Function) -> bool:
    """Return whether a function is workflow code: an async function or a generator function."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)


def can_be_workflow(function: object) -> bool:
    """Return whether a callable can be registered as a workflow.

    Besides workflow code, this accepts an object with such a ``__call__``, and a ``functools.wraps`` wrapper of
    workflow code.
    """
    while callable(function):
        if is_workflow_code(function):
            return True
        if isinstance(function, functools.partial):
            function = cast("object", function.func)
        elif hasattr(function, "__wrapped__"):
            function = cast("Any", function).__wrapped__
        elif isinstance(function, _FUNCTIONS):
            return False
        else:
            return is_workflow_code(type(function).__call__)
    return False


def run_body(
    function: Function, context: object, args: Sequence[Any], kwargs: dict[str, Any]
) -> Coroutine[Any, Any, Any]:
    """Call an async or generator function and return it as a coroutine."""
    begun = function(context, *args, **kwargs)
    if inspect.iscoroutine(begun):
        return begun
    return run_generator(begun) if inspect.isgenerator(begun) else _awaited(begun, function)


async def _awaited(begun: Any, function: Function) -> Any:
    """Await the object that the wrapper of a workflow returned."""
    if not inspect.isawaitable(begun):
        raise RegistrationError(
            f"workflow {function_name(function)!r} returned {type(begun).__name__} at its call, not a coroutine: its "
            "wrapper must return what the wrapped async function returns"
        )
    return await begun


async def run_generator(generator: Generator[Any, Any, Any]) -> Any:
    """Await each object that the generator yields, and send it the result or throw it the error."""
    resume: Callable[[], Any] = functools.partial(next, generator)
    while True:
        try:
            awaited = resume()
        except StopIteration as end:
            return end.value
        try:
            if not inspect.isawaitable(awaited):
                raise RegistrationError(
                    f"a workflow yielded {type(awaited).__name__} at {waiting_line(generator)}: yield calls of the "
                    "context, such as ctx.lfc(...)"
                )
            value = await awaited
        except (Exception, asyncio.CancelledError) as error:
            resume = functools.partial(generator.throw, error)
        else:
            resume = functools.partial(generator.send, value)


def without_arguments(function: Function) -> Function:
    """Return the function inside nested ``functools.partial`` objects."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function


def function_name(function: Function) -> str:
    function = without_arguments(function)
    return getattr(function, "__name__", type(function).__name__)


class LocalCall(Built, Awaitable[Any]):
    """Workflow code called as a function of this run. Awaiting it waits for its result."""

    def __init__(
        self,
        execution: Execution,
        context: object,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._build(execution)
        self._context = context
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._retry = NO_RETRY
        self._timeout: float | None = None
        self._non_retryable: tuple[type[BaseException], ...] = ()
        self._task: asyncio.Task[Any] | None = None

    @property
    def label(self) -> str:
        return f"function {function_name(self._function)!r}"

    def options(
        self,
        *,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        non_retryable: tuple[type[BaseException], ...] = (),
        non_retryable_exceptions: tuple[type[BaseException], ...] = (),
        durable: bool = True,
    ) -> LocalCall:
        """Set options of the call. Options that are not given stay unchanged.

        Args:
            retry: When to call the function again from its beginning; by default never, since its steps retry on their
                own.
            timeout: Seconds that one call may take, including waits for people and timers.
            non_retryable: Exceptions after which it is not called again.
            non_retryable_exceptions: An alias of ``non_retryable``.
            durable: Must be True: the calls that the function makes are journaled one by one.

        Raises:
            RegistrationError: The call has already started, or ``durable`` is False.
        """
        if self._is_begun:
            raise RegistrationError(
                f"{function_name(self._function)} has already started: set options before the await"
            )
        if not durable:
            raise RegistrationError(
                f"{function_name(self._function)} is workflow code: durable=False is for plain functions"
            )
        check_retry(self.label, retry)
        self._retry = retry or self._retry
        self._timeout = self._timeout if timeout is None else check_seconds("timeout", timeout)
        given = non_retryable or non_retryable_exceptions or self._non_retryable
        self._non_retryable = exceptions_of(self.label, given)
        return self

    def begin(self) -> asyncio.Task[Any]:
        """Start the function concurrently, once."""
        if self._task is None:
            self._take()
            self._task = self._execution.loop.create_task(self._run())
        return self._task

    def __await__(self) -> Generator[Any, None, Any]:
        if self._task is not None:
            return (yield from self._task)
        if self._is_begun:
            raise RegistrationError(
                f"{function_name(self._function)} has already been awaited: use lfi to await a call more than once"
            )
        self._take()
        return (yield from self._run().__await__())

    async def _run(self) -> Any:
        attempt = 0
        while True:
            attempt += 1
            try:
                async with asyncio.timeout(self._timeout):
                    return await run_body(self._function, self._context, self._args, self._kwargs)
            except Exception as error:
                wait = self._retry.wait_after_error(error, attempt, self._execution.random)
                if isinstance(error, self._non_retryable):
                    wait = None
                if attempt > 1 or wait is not None:
                    self._log_failure(error, attempt, wait)
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    def _log_failure(self, error: Exception, attempt: int, wait: float | None) -> None:
        """Log a failed attempt, except during replay."""
        if not self._execution.is_replaying:
            log_failed_attempt(self.label, self._execution.run, attempt, error, wait)
