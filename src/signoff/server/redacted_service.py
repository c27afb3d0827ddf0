"""Service backend that redacts everything it returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Self

from signoff.errors import NotFound, SnapshotRefused
from signoff.people.links.resume_tokens import Response
from signoff.people.questions.answers import get_question
from signoff.people.questions.redacted_answers import restored_answer
from signoff.people.questions.search import QuestionSearch
from signoff.records import CallKind, Entry, EntryKind, LiveText, Promise
from signoff.records.paging import Page
from signoff.records.responders import Responder
from signoff.records.timeline import TimelineMark
from signoff.redaction.hiding_thread import beside
from signoff.redaction.paths import PLACEHOLDER
from signoff.redaction.records import Redaction
from signoff.redaction.redactor import Redactor
from signoff.service.service import LocalBackend
from signoff.stores.contract.store import Store


class RedactedBackend(LocalBackend):
    """Backend that performs a client's operations and redacts the results.

    Every method of ``LocalBackend`` that is an ``operation`` shows its result redacted; the others are overridden here.

    Args:
        store: A store.
        redaction: The redaction rules.
    """

    def __init__(self, store: Store, redaction: Redaction) -> None:
        super().__init__(store)
        self.redactor = Redactor(store, redaction)

    def on(self, store: Store) -> Self:
        backend = super().on(store)
        backend.redactor = Redactor(backend._store, self.redactor.redaction)
        return backend

    async def shown(self, result: Any) -> Any:
        return await self.redactor.shown_in(result)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        entries = await super().read_journal(run_id, after=after, limit=limit)
        shown = await self._journal(run_id)
        return [await shown.entry(entry) for entry in entries]

    async def _events(
        self, run_id: str, after: int, *, live: bool = False
    ) -> AsyncGenerator[Entry | LiveText | TimelineMark, None]:
        """Leave live text out: which parts of it to redact is unknown."""
        shown = await self._journal(run_id)
        async with aclosing(super()._events(run_id, after)) as events:
            async for event in events:
                if not isinstance(event, Entry):
                    yield event
                    continue
                if event.seq > shown.known_to:
                    shown = await self._journal(run_id, shown)
                yield await shown.entry(event)
                del event  # it may be large, and the next one may take long

    async def _journal(self, run_id: str, former: _Journal | None = None) -> _Journal:
        """Return the redacted view of a run's journal, up to its current end."""
        try:
            workflow = (await self._store.get_run(run_id)).workflow
        except NotFound:
            workflow = None
        secrets = await self.redactor.secrets(run_id) or frozenset()
        known = self.redactor.redaction.remembered.get(self._store.namespace, run_id)
        asked = {} if former is None else former.asked
        return _Journal(self.redactor.redaction, workflow, secrets, -1 if known is None else known.seq, asked)

    async def answer(self, question_id: str, value: Any, **said: Any) -> Promise:
        """Answer a question that was shown redacted: each placeholder in the answer stands for the original value."""
        question = await get_question(self._store, question_id)
        responder = Responder.of(said.get("user_id"), said.get("groups", ()), said.get("roles", ()))
        async with restored_answer(self.redactor, self._store, question, value, responder) as meant:
            return await super().answer(question_id, meant, **said)

    async def check_responses(
        self, session_id: str, secret: str, responses: Mapping[str, Response], responder: Responder
    ) -> None:
        async with self._meaning(responses, responder) as meant:
            await super().check_responses(session_id, secret, meant, responder)

    async def resume(
        self,
        session_id: str,
        secret: str,
        responses: Mapping[str, Response],
        responder: Responder,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        """Answer questions with a resume token; see ``answer``."""
        async with self._meaning(responses, responder) as meant:
            await super().resume(session_id, secret, meant, responder, context)

    @asynccontextmanager
    async def _meaning(
        self, responses: Mapping[str, Response], responder: Responder
    ) -> AsyncGenerator[Mapping[str, Response]]:
        """Replace placeholders in answers with the original values. Refusals raised within quote no redacted value."""
        async with AsyncExitStack() as stack:
            meant: dict[str, Response] = {}
            for id, each in responses.items():
                question = await get_question(self._store, id)
                value = restored_answer(self.redactor, self._store, question, each.value, responder)
                meant[id] = replace(each, value=await stack.enter_async_context(value))
            yield meant

    async def save(self, run_id: str, *, by: str | None = None) -> dict[str, Any]:
        """Raise SnapshotRefused: a snapshot would hold every payload in the clear."""
        await self._store.get_run(run_id)
        raise SnapshotRefused(
            run_id, "payloads are redacted here, and a snapshot holds all of them: save it where the store is"
        )

    async def list_questions(
        self, search: QuestionSearch, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        """Search the redacted text only: ``list_promises`` returns redacted records here."""
        return await super().list_questions(search, after=after, limit=limit)


class _Journal:
    """Redacted view of a run's journal. A question keeps its redacted name in its later entries.

    Args:
        redaction: The redaction rules.
        workflow: The run's workflow.
        secrets: The run's redacted values.
        known_to: The seq of the last entry whose redacted values are in ``secrets``.
        asked: The redacted names of the run's questions so far, by call number.
    """

    def __init__(
        self,
        redaction: Redaction,
        workflow: str | None,
        secrets: frozenset[str],
        known_to: int,
        asked: dict[int | None, str | None],
    ) -> None:
        self._redaction = redaction
        self._workflow = workflow
        self._secrets = secrets
        self.known_to = known_to
        self.asked = asked

    async def entry(self, entry: Entry) -> Entry:
        work = partial(self._redaction.entry, entry, self._workflow, self._secrets)
        shown = await beside(work, entry, self._secrets)
        if entry.call is not CallKind.QUESTION:
            return shown
        if entry.kind is EntryKind.OPENED:
            self.asked[entry.n] = shown.name
        return replace(shown, name=self.asked.get(entry.n, PLACEHOLDER))


def backend_of(store: Store, redaction: Redaction) -> LocalBackend:
    """Return the backend for a store: the plain one, without overhead, if there are no redaction rules."""
    return LocalBackend(store) if redaction.is_empty else RedactedBackend(store, redaction)
