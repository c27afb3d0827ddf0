"""The code of workflows: async and generator functions, run as coroutines on a run's loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, cast

from signoff.engine.run.event_loop import waiting_line
from signoff.engine.run.execution import Execution
from signoff.engine.run.unawaited_context_calls import Built
from signoff.engine.steps.failed_attempt_log import log_failed_attempt
from signoff.engine.steps.options import check_retry, exceptions_of
from signoff.engine.steps.retry import NO_RETRY, RetryPolicy
from signoff.errors import RegistrationError
from signoff.records.start_options import check_seconds

Function = Callable[..., Any]

_FUNCTIONS: Final = (FunctionType, MethodType, BuiltinFunctionType, type)


def is_workflow_code(function: Function) -> bool:
    """Whether a function is workflow code: async or a generator function."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)


def can_be_workflow(function: object) -> bool:
    """Whether a callable can be registered as a workflow.

    Besides workflow code that is an object whose ``__call__`` is workflow code, and what ``functools.wraps`` says to be
    a wrapper of workflow code.
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
    """Return the code of an async or generator function as a coroutine."""
    begun = function(context, *args, **kwargs)
    if inspect.iscoroutine(begun):
        return begun
    return run_generator(begun) if inspect.isgenerator(begun) else _awaited(begun, function)


async def _awaited(begun: Any, function: Function) -> Any:
    """Await what the wrapper of a workflow has returned."""
    if not inspect.isawaitable(begun):
        raise RegistrationError(
            f"workflow {function_name(function)!r} returned {type(begun).__name__} at its call, not a coroutine: its "
            "wrapper must return what the wrapped async function returns"
        )
    return await begun


async def run_generator(generator: Generator[Any, Any, Any]) -> Any:
    """Await whatever the generator yields, and send or throw it what came of it."""
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
    """Return what is called in the end by a partial function; any other as it is."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return function


def function_name(function: Function) -> str:
    function = without_arguments(function)
    return getattr(function, "__name__", type(function).__name__)


class LocalCall(Built, Awaitable[Any]):
    """Workflow code called as a function, in this run."""

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
    def said(self) -> str:
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
        """Change how the function is called; what is not given stays as it is.

        Args:
            retry: When to call it again from its beginning; by default never, since its steps retry themselves.
            timeout: Seconds that one call may take, people and timers included.
            non_retryable: Exceptions after which it is not called again.
            non_retryable_exceptions: Another spelling of ``non_retryable``.
            durable: Only True makes sense here: what such a function does is journaled call by call.

        Raises:
            RegistrationError: The function is under way already, or is to be durable=False.
        """
        if self._is_begun:
            raise RegistrationError(
                f"{function_name(self._function)} is under way: options come before the await"
            )
        if not durable:
            raise RegistrationError(
                f"{function_name(self._function)} is workflow code: durable=False is for plain functions"
            )
        check_retry(self.said, retry)
        self._retry = retry or self._retry
        self._timeout = self._timeout if timeout is None else check_seconds("timeout", timeout)
        given = non_retryable or non_retryable_exceptions or self._non_retryable
        self._non_retryable = exceptions_of(self.said, given)
        return self

    def begin(self) -> asyncio.Task[Any]:
        """Start it beside the caller, once."""
        if self._task is None:
            self._take()
            self._task = self._execution.loop.create_task(self._run())
        return self._task

    def __await__(self) -> Generator[Any, None, Any]:
        if self._task is not None:
            return (yield from self._task)
        if self._is_begun:
            raise RegistrationError(
                f"{function_name(self._function)} is called already: use lfi to await it twice"
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
        """Log a failed attempt, once: not at replay."""
        if not self._execution.is_replaying:
            log_failed_attempt(self.said, self._execution.run, attempt, error, wait)
