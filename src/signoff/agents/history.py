"""The messages of a session: each turn keeps what it has added, and names the turn before it."""

from __future__ import annotations

import json
import reprlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ToolCallPart, UserContent

from signoff.agents.endings import Ending, closed, unsaid
from signoff.client import AsyncClient
from signoff.errors import InvalidValue, NotFound
from signoff.records import Entry, EntryKind, Run, RunState

SLICE: Final = 250_000
"""How many characters of a turn's messages one journal entry has; a value is limited to 1 MiB."""

MOST_CACHED: Final = 256
"""Turns whose messages a process keeps at hand."""

BEHIND: Final = "behind"
"""How steps are called that keep what earlier generations of a turn have added: with the agent's name before it."""

Prompt = str | Sequence[UserContent]
PROMPT: Final[TypeAdapter[Prompt]] = TypeAdapter(Prompt)

NO_PROMPT: Final = "(What was said here is no prompt.)"
"""What a history has of a turn that was started with something else."""


def read_prompt(given: object) -> Prompt:
    """Return a prompt, also one that was stored as JSON.

    Raises:
        InvalidValue: It is none.
    """
    try:
        return PROMPT.validate_python(given)
    except ValidationError:
        expected = "a text, or a list of texts, pictures and files as Pydantic AI has them"
        raise InvalidValue("prompt", f"expected {expected}, not {reprlib.repr(given)}") from None


@dataclass(frozen=True, slots=True)
class Kept:
    """What a turn that has ended has left behind.

    Attributes:
        messages: What it has added, as JSON.
        previous: The run of the turn before it, if any.
    """

    messages: str
    previous: str | None


def dumped(messages: Sequence[ModelMessage]) -> str:
    """Return messages as JSON."""
    return ModelMessagesTypeAdapter.dump_json(list(messages)).decode()


def sliced(text: str) -> list[str]:
    """Return a text in parts that a journal takes each."""
    return [text[first : first + SLICE] for first in range(0, len(text), SLICE)] or [""]


# Of each generation of a turn what it added is kept, one after the other within one list of JSON.


def as_part(messages: Sequence[ModelMessage], *, is_first: bool) -> str:
    """Return a generation's messages as a part of the list of all."""
    return ("" if is_first else ",") + dumped(messages)[1:-1]


def from_parts(parts: Iterable[str]) -> list[ModelMessage]:
    """Return the messages of all generations."""
    return ModelMessagesTypeAdapter.validate_json(f"[{''.join(parts)}]")


class Histories:
    """Reads what earlier turns of an agent have left behind, and earlier generations of a turn.

    Args:
        client: Where the runs are.
        workflow: The agent's workflow.
    """

    def __init__(self, client: AsyncClient, workflow: str) -> None:
        self._client = client
        self._workflow = workflow
        self._cache: OrderedDict[str, Kept] = OrderedDict()

    async def up_to(self, run_id: str | None) -> list[ModelMessage]:
        """Return all messages of the turns up to one that has ended, that one's too.

        Turns that were pruned are not there any more: the history begins after them.
        """
        texts: list[str] = []
        while run_id is not None:
            kept = await self._kept(run_id)
            if kept is None:
                break
            texts.append(kept.messages)
            run_id = kept.previous
        return [
            message for text in reversed(texts) for message in ModelMessagesTypeAdapter.validate_json(text)
        ]

    async def behind(self, run_id: str, parts: int) -> list[ModelMessage]:
        """Return what earlier generations of a turn have added, as the first ``parts`` entries have it; else none."""
        key = f"{run_id}#{parts}"
        kept = self._cache.get(key)
        if kept is None:
            entries = await self._client.backend.read_journal(run_id)
            found = _journaled(entries, f"{self._workflow}:{BEHIND}")[:parts]
            if len(found) < parts:
                return []
            kept = Kept("".join(found), None)
            self._remember(key, kept)
        self._cache.move_to_end(key)
        return from_parts([kept.messages])

    async def run(self, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return await self._client.backend.get_run(run_id)

    async def before(self, run: Run) -> str | None:
        """Return the run of the turn that came before another in its session."""
        if run.session_id is None or run.position is None:
            return None
        after: str | None = None
        while True:
            page = await self._client.list(
                session_id=run.session_id, workflow=self._workflow, after=after, limit=100
            )
            for other in page.items:
                if other.position is not None and other.position < run.position:
                    return other.id
            after = page.next
            if after is None:
                return None

    async def _kept(self, run_id: str) -> Kept | None:
        if found := self._cache.get(run_id):
            self._cache.move_to_end(run_id)
            return found
        try:
            run = await self.run(run_id)
            kept = await self._read(run)
        except NotFound:
            return None
        if run.state.is_final and not run.retryable:
            self._remember(run_id, kept)
        return kept

    def _remember(self, key: str, kept: Kept) -> None:
        self._cache[key] = kept
        if len(self._cache) > MOST_CACHED:
            self._cache.popitem(last=False)

    async def _read(self, run: Run) -> Kept:
        if run.state is RunState.SUCCEEDED:
            result: Mapping[str, Any] = json.loads(run.result or "{}")
            if result.get("messages") is not None:
                return Kept(json.dumps(result["messages"]), result["previous"])
        entries = await self._client.backend.read_journal(run.id)
        said = _journaled(entries, f"{run.workflow}:messages")
        found = _journaled(entries, f"{run.workflow}:turn")
        previous = cast("str | None", found[0]["previous"]) if found else await self.before(run)
        if said:
            return Kept("".join(cast("list[str]", said)), previous)
        if behind := cast("list[str]", _journaled(entries, f"{run.workflow}:{BEHIND}")):
            messages = from_parts(behind)
            last = messages[-1].parts
            begun = {part.tool_call_id for part in last if isinstance(part, ToolCallPart)}  # for all we know
            return Kept(dumped(closed(messages, begun, ending_of(run))), previous)
        asked = _request(run)
        if "prompt" not in asked:
            return Kept("[]", previous)
        try:
            prompt = read_prompt(asked["prompt"])
        except InvalidValue:  # it failed for that
            prompt = NO_PROMPT
        return Kept(dumped(unsaid(prompt, ending_of(run), run.id)), previous)


def _request(run: Run) -> Mapping[str, Any]:
    """Return what a turn was started with, whoever has started it, and however: its workflow may have refused it."""
    arguments = json.loads(run.arguments)
    given: list[object] = [*arguments["args"], *arguments["kwargs"].values()]
    is_one = len(given) == 1 and isinstance(given[0], dict)
    return cast("dict[str, Any]", given[0]) if is_one else {"prompt": None}


def ending_of(run: Run) -> Ending:
    """Say why a run ended that did not say so itself."""
    error: Mapping[str, Any] = json.loads(run.error or "{}")
    if run.state is RunState.CANCELLED:
        return Ending("aborted", reason_of(str(error.get("message") or ""), run.id))
    return Ending("failed", "it ended with an error" if error else "")


def reason_of(message: str, run_id: str) -> str:
    """Return the reason that a cancellation gives, of the message of its error."""
    _, _, reason = message.partition(f"{run_id} was cancelled: ")
    return reason


def _journaled(entries: Iterable[Entry], name: str) -> list[Any]:
    """Return the values of the steps of a name, in the order in which they were called."""
    found = [entry for entry in entries if entry.kind is EntryKind.COMPLETED and entry.name == name]
    ordered = sorted(found, key=lambda entry: entry.n or 0)
    return [json.loads(entry.value) for entry in ordered if entry.value is not None and entry.error is None]
