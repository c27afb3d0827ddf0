"""Reads a turn's journal and live text as the stream events that Pydantic AI's adapters take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)

from signoff.agents.ui.model_output import ModelOutput
from signoff.agents.ui.tool_results import ToolResults
from signoff.records import CallKind, Entry, EntryKind, LiveText

_REQUESTS: Final = (":model", ":model_stream")


class TurnReader:
    """The state of one turn, as far as its journal has been read.

    Attributes:
        run_id: The turn's run.
        seq: The last entry that was read; -1: none.
        messages: The responses, and the results of their calls, in order.
        output: The output of its models.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seq = -1
        self.messages: list[ModelMessage] = []
        self.output = ModelOutput()
        self._results = ToolResults()
        self._agent: str | None = None  # the prefix of its steps
        self._tools: dict[str, str] = {}  # of calls without a result, by id

    @property
    def open_calls(self) -> Sequence[str]:
        """The ids of the calls without a known result."""
        return list(self._tools)

    def read(self, event: Entry | LiveText) -> Iterator[AgentStreamEvent]:
        """Yield the events of a journal entry or a piece of live text."""
        if isinstance(event, LiveText):
            if self._is_request(event.name):
                yield from self.output.live(event)
            return
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if (response := self._response_in(event)) is not None:
            self.messages.append(response)
            self._tools |= {
                part.tool_call_id: part.tool_name for part in response.parts if isinstance(part, ToolCallPart)
            }
            yield from self.output.response(response)
        elif (result := self._results.read(event, self._tools)) is not None:
            yield from self._returned(result)

    def skip(self, entries: Sequence[Entry]) -> None:
        """Read entries whose events are known."""
        for entry in entries:
            for _ in self.read(entry):
                pass

    def finish(self, messages: Sequence[ModelMessage]) -> Iterator[AgentStreamEvent]:
        """Yield the results that only the messages of the ended turn have."""
        yield from self.output.abandon()
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and part.tool_call_id in self._tools:
                    yield from self._returned(part)

    def _returned(self, result: ToolReturnPart) -> Iterator[AgentStreamEvent]:
        del self._tools[result.tool_call_id]
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, result]
        else:
            self.messages.append(ModelRequest([result]))
        yield FunctionToolResultEvent(result)

    def _response_in(self, entry: Entry) -> ModelResponse | None:
        if entry.kind is not EntryKind.COMPLETED or entry.call is not CallKind.STEP or entry.value is None:
            return None
        if entry.error is not None or not self._is_request(entry.name):
            return None
        self._agent = (entry.name or "").rpartition(":")[0]
        (response,) = ModelMessagesTypeAdapter.validate_python([json.loads(entry.value)])
        return response if isinstance(response, ModelResponse) else None

    def _is_request(self, name: str | None) -> bool:
        """Whether a step is a model request of the turn's own agent: an agent inside of a tool comes later."""
        if name is None or not name.endswith(_REQUESTS):
            return False
        return self._agent in (None, name.rpartition(":")[0])
