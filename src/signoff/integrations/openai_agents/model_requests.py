"""Model requests of agents as steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import openai
from agents import Model, ModelResponse, Usage
from agents.exceptions import ModelBehaviorError
from pydantic import TypeAdapter

from signoff import RetryPolicy, current_context, current_step

_RESPONSE: Final = TypeAdapter(ModelResponse)
_MAY_PASS: Final = (408, 409, 429)
"""Client errors (4xx) that may be temporary."""


def may_pass(error: Exception) -> bool:
    """Whether another attempt at a model request may succeed."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code >= 500 or error.status_code in _MAY_PASS
    return isinstance(error, (openai.APIConnectionError, OSError))


RETRY: Final = RetryPolicy(retried=may_pass)
"""Retries connection errors and temporary errors of the provider."""


class DurableModel(Model):
    """Runs each request to a model as a step of the run.

    Args:
        agent: The agent's name: its steps are called after it.
        find: Returns the model, inside the step.
        retry: The policy for failed requests.
        is_streamed: Whether requests are streamed, and their text published live.
    """

    def __init__(self, agent: str, find: Callable[[], Model], retry: RetryPolicy, is_streamed: bool) -> None:
        self._name = f"{agent}:model"
        self._find = find
        self._retry = retry
        self._is_streamed = is_streamed

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        """Send a request in a step, or return the journaled response."""
        request = _Request(self._find, self._is_streamed, (system_instructions, input, *args), kwargs)
        call = current_context().step(
            self._name,
            request.send,
            retry=self._retry,
            returns=Any,
            compare=_shape(input),
        )
        return _RESPONSE.validate_python(await call)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Refuse: the runner of a durable agent requests whole responses.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "run_agent(stream=True) streams a durable agent; Runner.run_streamed does not"
        )
        yield


def _shape(input: str | list[Any]) -> list[str]:
    """Return what a replay compares: instructions may have the date, and a new SDK may write items in another way."""
    if isinstance(input, str):
        return ["user"]
    return [str(each.get("call_id") or each.get("role") or each.get("type")) for each in input]


class _Request:
    """A request, for its step. It belongs to this process: only its response is journaled."""

    def __init__(
        self, find: Callable[[], Model], is_streamed: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._find = find
        self._is_streamed = is_streamed
        self._args = args
        self._kwargs = kwargs

    async def send(self) -> Any:
        model = self._find()
        if self._is_streamed:
            response = await self._stream(model)
        else:
            response = await model.get_response(*self._args, **self._kwargs)
        return _RESPONSE.dump_python(response, mode="json", exclude_unset=True, warnings=False)

    async def _stream(self, model: Model) -> ModelResponse:
        here = current_step()
        async for event in model.stream_response(*self._args, **self._kwargs):
            if event.type == "response.output_text.delta":
                here.live(event.delta)
            elif event.type == "response.completed":
                used = event.response.usage
                usage = (
                    Usage(requests=1)
                    if used is None
                    else Usage(
                        requests=1,
                        input_tokens=used.input_tokens,
                        output_tokens=used.output_tokens,
                        total_tokens=used.total_tokens,
                        input_tokens_details=used.input_tokens_details,
                        output_tokens_details=used.output_tokens_details,
                    )
                )
                return ModelResponse(event.response.output, usage, event.response.id)
        raise ModelBehaviorError("the model's stream ended without a complete response")
