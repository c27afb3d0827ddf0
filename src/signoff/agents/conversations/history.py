"""The messages of a session: each turn keeps the messages it added, and names the turn before it."""

from __future__ import annotations

import json
import reprlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, UserContent

from signoff.agents.conversations.generations import Behind, Progress
from signoff.agents.conversations.interrupted_turns import Ending, closed, unsaid
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidValue, NotFound
from signoff.records import Entry, EntryKind, Run, RunState

SLICE: Final = 250_000
"""Characters of a turn's messages per journal entry; a value is limited to 1 MiB."""

MOST_CACHED: Final = 256
"""The number of ended turns whose messages a process caches."""

MOST_RUNNING: Final = 16
"""The number of running long turns whose messages a process caches."""

BEHIND: Final = "behind"
"""The suffix of the names of steps that keep the messages of earlier generations, after the agent's name."""

REQUEST: Final = "request"
"""The suffix of the names of steps that keep the next request at the end of a generation."""

Prompt = str | Sequence[UserContent]
PROMPT: Final[TypeAdapter[Prompt]] = TypeAdapter(Prompt)

NO_PROMPT: Final = "(This turn had no valid prompt.)"
"""The history's text for a turn that was started with an invalid prompt."""


def read_prompt(given: object) -> Prompt:
    """Return a prompt, also one that was stored as JSON.

    Raises:
        InvalidValue: It is not a prompt.
    """
    try:
        return PROMPT.validate_python(given)
    except ValidationError:
        expected = "a text, or a list of texts, pictures and files as Pydantic AI has them"
        raise InvalidValue("prompt", f"expected {expected}, not {reprlib.repr(given)}") from None


@dataclass(frozen=True, slots=True)
class Kept:
    """The messages of an ended turn.

    Attributes:
        messages: The messages it added, as JSON.
        previous: The run of the turn before it, if any.
    """

    messages: str
    previous: str | None


def dumped(messages: Sequence[ModelMessage]) -> str:
    """Return messages as JSON."""
    return ModelMessagesTypeAdapter.dump_json(list(messages)).decode()


def as_line(messages: Sequence[ModelMessage]) -> str:
    """Return messages as one line of JSON."""
    return dumped(messages) + "\n"


def sliced(text: str) -> list[str]:
    """Split a text into parts that fit a journal entry."""
    return [text[first : first + SLICE] for first in range(0, len(text), SLICE)] or [""]


class Journal:
    """The messages of a long turn's earlier generations in its journal.

    Attributes:
        seq: The last entry that was read.
    """

    def __init__(self) -> None:
        self.seq = -1
        self._behind: list[str] = []
        self._requests: list[str] = []

    def take(self, entries: Sequence[Entry], workflow: str) -> None:
        """Read further entries."""
        self._behind += _journaled(entries, f"{workflow}:{BEHIND}")
        self._requests += _journaled(entries, f"{workflow}:{REQUEST}")
        if entries:
            self.seq = entries[-1].seq

    def behind(self, progress: Progress) -> Behind | None:
        """Return the messages before a generation; None: the journal does not have them."""
        parts, (first, end) = progress["parts"], progress["request"]
        if not 0 < parts <= len(self._behind) or not 0 <= first < end <= len(self._requests):
            return None
        messages = _read_lists("".join(self._behind[:parts]))
        (request,) = _read_lists("".join(self._requests[first:end]))
        return Behind(messages, cast("ModelRequest", request))


class Histories:
    """Reads the messages of earlier turns, and of a turn's earlier generations.

    Args:
        client: The client for the runs.
        workflow: The agent's workflow.
    """

    def __init__(self, client: AsyncClient, workflow: str) -> None:
        self._client = client
        self._workflow = workflow
        self._cache: OrderedDict[str, Kept] = OrderedDict()
        self._journals: dict[str, Journal] = {}  # of turns that run here, the most recently used last

    async def up_to(self, run_id: str | None) -> list[ModelMessage]:
        """Return all messages of the session up to and including an ended turn.

        Pruned turns are missing: the history then begins after them.
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

    async def behind(self, run: Run, progress: Progress) -> Behind | None:
        """Return the messages of a turn's earlier generations, if the journal has them.

        The current generation is not read: its worker has done so.
        """
        newest = self._journals.pop(run.id, None) or Journal()
        while (left := run.first_seq - newest.seq - 1) > 0:
            entries = await self._client.backend.read_journal(run.id, after=newest.seq, limit=left)
            if not entries:
                break
            newest.take(entries, self._workflow)
        self._journals[run.id] = newest
        if len(self._journals) > MOST_RUNNING:
            self._journals.pop(next(iter(self._journals)))
        return newest.behind(progress)

    async def run(self, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return await self._client.backend.get_run(run_id)

    async def before(self, run: Run) -> str | None:
        """Return the run of the previous turn in the session."""
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
            self._cache[run_id] = kept
            if len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)
        return kept

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
        if (progress := _progress_of(entries)) is not None:
            journal = Journal()
            journal.take(entries, run.workflow)
            if (behind := journal.behind(progress)) is not None:
                return Kept(dumped(closed(behind.all, (), ending_of(run))), previous)
        asked = _request(run)
        if "prompt" not in asked:
            return Kept("[]", previous)
        try:
            prompt = read_prompt(asked["prompt"])
        except InvalidValue:  # the turn failed because of it
            prompt = NO_PROMPT
        return Kept(dumped(unsaid(prompt, ending_of(run), run.id)), previous)


def _read_lists(text: str) -> list[ModelMessage]:
    """Read lists of messages, one on each line."""
    lists = (ModelMessagesTypeAdapter.validate_json(line) for line in text.split("\n") if line)
    return [message for messages in lists for message in messages]


def prompt_of(run: Run) -> Any:
    """Return the prompt that a turn's run was started with."""
    return _request(run)["prompt"]


def _request(run: Run) -> Mapping[str, Any]:
    """Return a turn's input. Anyone may start the workflow, so the input may be invalid."""
    arguments = json.loads(run.arguments)
    given: list[object] = [*arguments["args"], *arguments["kwargs"].values()]
    is_one = len(given) == 1 and isinstance(given[0], dict)
    return cast("dict[str, Any]", given[0]) if is_one else {"prompt": None}


def _progress_of(entries: Sequence[Entry]) -> Progress | None:
    """Return the progress that a turn's latest generation began with; None: it was the first."""
    for entry in reversed(entries):
        if entry.kind is EntryKind.CONTINUED and entry.value is not None:
            return json.loads(entry.value)["args"][0]["progress"]
    return None


def ending_of(run: Run) -> Ending:
    """Return why a run ended, for a run that did not record it itself."""
    error: Mapping[str, Any] = json.loads(run.error or "{}")
    if run.state is RunState.CANCELLED:
        return Ending("aborted", reason_of(str(error.get("message") or ""), run.id))
    return Ending("failed", "it ended with an error" if error else "")


def reason_of(message: str, run_id: str) -> str:
    """Extract a cancellation's reason from the message of its error."""
    _, _, reason = message.partition(f"{run_id} was cancelled: ")
    return reason


def _journaled(entries: Iterable[Entry], name: str) -> list[Any]:
    """Return the values of the steps with a name, in the order of their calls."""
    found = [entry for entry in entries if entry.kind is EntryKind.COMPLETED and entry.name == name]
    ordered = sorted(found, key=lambda entry: entry.n or 0)
    return [json.loads(entry.value) for entry in ordered if entry.value is not None and entry.error is None]
