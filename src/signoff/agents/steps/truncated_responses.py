"""Treats truncated or empty model responses as failed requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from signoff.runtime.private_names import profile_of

OPENAI_CHAT: Final = "OpenAIStreamedResponse"

SAYING_WHY: Final = {
    "AnthropicStreamedResponse": "anthropic/_streaming.py",
    "BedrockStreamedResponse": "bedrock.py",
    "CohereStreamedResponse": "cohere.py",
    "GeminiStreamedResponse": "google.py",
    "HuggingFaceStreamedResponse": "huggingface.py",
    "MistralStreamedResponse": "mistral.py",
    OPENAI_CHAT: "openai/_chat_streaming.py",
}
"""Pydantic AI's stream classes whose providers send a finish reason, and their modules."""

SILENT: Final = {"SnowflakeStreamedResponse": "snowflake.py"}
"""The classes for which some providers never send one."""

ASKED_BY_PROFILE: Final = "openai_chat_streaming_requires_finish_reason"


class WholeAnswers(WrapperModel):
    """Fails a request whose response was truncated or empty, with an error that may be retried."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Request a response."""
        with self._refusing_what_is_none():
            return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Request a streamed response, which must be complete at the end."""
        with self._refusing_what_is_none():
            async with super().request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream
        check_whole(stream)

    @contextmanager
    def _refusing_what_is_none(self) -> Generator[None]:
        try:
            yield
        except UnexpectedModelBehavior as error:
            if type(error) is not UnexpectedModelBehavior:  # a refusal by the model would only repeat
                raise
            raise ModelAPIError(self.model_name, f"The provider sent no response: {error}") from error


def check_whole(stream: StreamedResponse) -> None:
    """Raise ModelAPIError for a stream that was closed cleanly before the response was complete."""
    if stream.get().state == "incomplete":
        raise ModelAPIError(stream.model_name, "The response was cut off: its stream ended early.")
    if _may_end_silently(stream):
        return
    details = stream.provider_details or {}
    said = "finish_reason" in details or "refusal" in details
    is_openai = OPENAI_CHAT in _classes(stream)
    if said or (stream.finish_reason is not None and not is_openai):  # for OpenAI it would be a guess
        return
    hint = (
        f' If this provider never sends one, set profile={{"{ASKED_BY_PROFILE}": False}}.'
        if is_openai
        else ""
    )
    raise ModelAPIError(
        stream.model_name, f"The response was cut off: its stream ended without a finish reason.{hint}"
    )


def _may_end_silently(stream: StreamedResponse) -> bool:
    classes = _classes(stream)
    if not classes & SAYING_WHY.keys() or classes & SILENT.keys():
        return True
    return profile_of(stream).get(ASKED_BY_PROFILE) is False


def _classes(stream: StreamedResponse) -> set[str]:
    return {
        each.__name__ for each in type(stream).__mro__ if each.__module__.startswith("pydantic_ai.models.")
    }
