"""The output of a turn's models as stream events: live text first, then the rest of the journaled response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pydantic_ai.messages import (
    AgentStreamEvent,
    FunctionToolCallEvent,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)

from signoff.records import LiveText

Segment = tuple[str, str]
"""A kind, ``text`` or ``thinking``, and a text of that kind."""

KINDS: Final = ("text", "thinking")


class ModelOutput:
    """Shows each response once, whichever part of it was seen live.

    Attributes:
        has_discarded: Whether text was shown that no response has: an attempt at a request failed while it streamed.
    """

    def __init__(self) -> None:
        self.has_discarded = False
        self._attempt: tuple[int, int, int] | None = None
        self._heard: list[Segment] = []  # of the current attempt
        self._shown: list[Segment] = []  # of the current response
        self._index = -1  # of the last part

    def live(self, piece: LiveText) -> Iterator[AgentStreamEvent]:
        """Yield the events of a piece of live text."""
        if piece.kind not in KINDS:
            return
        attempt = (piece.n, piece.epoch, piece.attempt)
        if attempt != self._attempt:
            self._attempt, self._heard = attempt, []
        missed = piece.position - sum(len(text) for _, text in self._heard)
        if missed > 0:
            return  # pieces before it were lost: the journaled response brings the text
        fresh = piece.text[-missed:] if missed else piece.text
        if fresh:
            self._heard = merged([*self._heard, (piece.kind, fresh)])
            if rest_after(self._heard, self._shown) is None:  # not a repetition of text that is shown already
                yield from self._show(self._heard)

    def response(self, response: ModelResponse) -> Iterator[AgentStreamEvent]:
        """Yield the events of a journaled response, without those of its live text."""
        if self._shown:
            said = merged(segment for part in response.parts if (segment := _segment_of(part)) is not None)
            yield from self._show(said)
            yield from self._close(response.parts)
            others = [part for part in response.parts if not isinstance(part, (TextPart, ThinkingPart))]
        else:
            others = response.parts
        yield from _whole(others, self._index + 1)
        for part in response.parts:
            if isinstance(part, ToolCallPart):
                yield FunctionToolCallEvent(part, args_valid=True)
        self._attempt, self._heard, self._shown, self._index = None, [], [], -1

    def abandon(self) -> Iterator[AgentStreamEvent]:
        """Yield the end of text whose request was never completed."""
        if self._shown:
            self.has_discarded = True
            yield from self._close(())
        self._attempt, self._heard, self._shown, self._index = None, [], [], -1

    def _show(self, said: list[Segment]) -> Iterator[AgentStreamEvent]:
        rest = rest_after(self._shown, said)
        if rest is None:
            self.has_discarded = True
            yield from self._close(())
            rest = said
        elif self._shown and rest and rest[0][0] == self._shown[-1][0]:
            (kind, text), *rest = rest
            self._shown = list(said[: len(self._shown)])
            if text:
                yield PartDeltaEvent(index=self._index, delta=_delta(kind, text))
        for kind, text in rest:
            if self._index >= 0 and self._shown:
                yield from self._close((), next_kind=kind)
            self._index += 1
            self._shown = [(kind, text)]
            yield PartStartEvent(index=self._index, part=_part(kind, text))
        self._shown = list(said)

    def _close(
        self, parts: Sequence[ModelResponsePart], next_kind: str | None = None
    ) -> Iterator[AgentStreamEvent]:
        if not self._shown:
            return
        kind, text = self._shown[-1]
        own = TextPart if kind == "text" else ThinkingPart
        last = next((part for part in reversed(parts) if isinstance(part, own)), None)
        self._shown = []
        following = "text" if next_kind == "text" else "thinking" if next_kind == "thinking" else None
        yield PartEndEvent(index=self._index, part=last or _part(kind, text), next_part_kind=following)


def merged(segments: Iterator[Segment] | Sequence[Segment]) -> list[Segment]:
    """Join neighbours of one kind; drop empty ones."""
    joined: list[Segment] = []
    for kind, text in segments:
        if not text:
            continue
        if joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text))
    return joined


def rest_after(begun: Sequence[Segment], said: Sequence[Segment]) -> list[Segment] | None:
    """Return the segments of ``said`` after those that it begins with; None: it does not begin with them.

    The first one continues the last of ``begun``, and may be empty.
    """
    if not begun:
        return list(said)
    *done, (kind, text) = begun
    if len(begun) > len(said) or list(said[: len(done)]) != done:
        return None
    last_kind, last_text = said[len(done)]
    if last_kind != kind or not last_text.startswith(text):
        return None
    return [(kind, last_text[len(text) :]), *said[len(begun) :]]


def _whole(parts: Sequence[ModelResponsePart], index: int) -> Iterator[AgentStreamEvent]:
    padded = [None, *parts, None]
    for place, ((before, part), (_, after)) in enumerate(pairwise(list(pairwise(padded)))):
        assert part is not None
        before_kind = None if before is None else before.part_kind
        after_kind = None if after is None else after.part_kind
        yield PartStartEvent(index=index + place, part=part, previous_part_kind=before_kind)
        yield PartEndEvent(index=index + place, part=part, next_part_kind=after_kind)


def _segment_of(part: ModelResponsePart) -> Segment | None:
    if isinstance(part, TextPart):
        return "text", part.content
    return ("thinking", part.content) if isinstance(part, ThinkingPart) else None


def _part(kind: str, text: str) -> TextPart | ThinkingPart:
    return TextPart(text) if kind == "text" else ThinkingPart(text)


def _delta(kind: str, text: str) -> TextPartDelta | ThinkingPartDelta:
    return TextPartDelta(text) if kind == "text" else ThinkingPartDelta(content_delta=text)
