"""What people do with questions besides answering them, from outside, and what happened to these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from signoff.errors import SignoffError
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.records import AuditEvent, Promise, Seal
from signoff.records.paging import AuditFilter, Page
from signoff.records.responders import Responder


class InboxBackend(Protocol):
    """What it talks to: a store in this process, or a server."""

    async def answer_all(
        self, given: Sequence[GivenAnswer], responder: Responder
    ) -> Sequence[Promise | SignoffError]: ...
    async def view_question(self, question_id: str, responder: Responder) -> Promise: ...
    async def comment_on_question(
        self, question_id: str, responder: Responder, text: str, request_id: str | None = None
    ) -> AuditEvent: ...
    async def claim_question(self, question_id: str, responder: Responder) -> Promise: ...
    async def release_question(self, question_id: str, responder: Responder) -> Promise: ...
    async def delegate_question(
        self, question_id: str, responder: Responder, to: Sequence[str], note: str | None = None
    ) -> Promise: ...
    async def cancel_question(
        self, question_id: str, *, by: str | None, reason: str | None, request_id: str | None
    ) -> Promise: ...
    async def reassign_question(
        self, question_id: str, to: Sequence[str], *, by: str | None, reason: str | None
    ) -> Promise: ...
    async def move_deadline(
        self, question_id: str, timeout_seconds: float, *, by: str | None, reason: str | None
    ) -> Promise: ...
    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]: ...
    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]: ...


class AsyncInbox:
    """Who answers which question, and what happened to it.

    Example::

        for question in (await client.questions(user_id="ana", groups=["finance"])).items:
            await client.inbox.claim(question.id, user_id="ana", groups=["finance"])
    """

    def __init__(self, backend: InboxBackend) -> None:
        self._backend = backend

    async def answer_all(
        self,
        given: Sequence[GivenAnswer],
        *,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
    ) -> Sequence[Promise | SignoffError]:
        """Answer up to 100 questions, each by itself: one that is refused changes nothing about the others.

        Args:
            given: The answers.
            user_id: Who answers.
            groups: The groups they are in.
            roles: The roles they have.

        Returns:
            What came of each, in the same order: the question, or why the answer was refused.

        Raises:
            InvalidValue: They are too many, or a name is none.

        Example::

            page = await client.questions(user_id="ana")
            await client.inbox.answer_all([GivenAnswer(each.id, True) for each in page.items], user_id="ana")
        """
        return await self._backend.answer_all(given, Responder.of(user_id, groups, roles))

    async def view(
        self, question_id: str, *, user_id: str, groups: Collection[str] = (), roles: Collection[str] = ()
    ) -> Promise:
        """Show a question to somebody who may answer it, and record that they have seen it.

        Raises:
            NotFound, NotAllowed
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.view_question(question_id, responder)

    async def comment(
        self,
        question_id: str,
        text: str,
        *,
        user_id: str,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        request_id: str | None = None,
    ) -> AuditEvent:
        """Say something about a question, open or closed. ``history`` has what was said.

        Args:
            question_id: The question.
            text: What is said, in 10,000 characters at most.
            user_id: Who says it; they must be allowed to see the question.
            groups: The groups they are in.
            roles: The roles they have.
            request_id: Makes a repetition of this very comment a success without effect.

        Returns:
            The comment, as the audit trail has it.

        Raises:
            NotFound, NotAllowed, RequestConflict
            InvalidValue: It is empty or too long.

        Example::

            await client.inbox.comment(id, "Is that the order of May?", user_id="ana", groups=["finance"])
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.comment_on_question(question_id, responder, text, request_id)

    async def claim(
        self, question_id: str, *, user_id: str, groups: Collection[str] = (), roles: Collection[str] = ()
    ) -> Promise:
        """Say that this person will answer: nobody else can until it is released, delegated or escalated.

        Raises:
            NotFound, NotAllowed, QuestionClaimed, AlreadySettled
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.claim_question(question_id, responder)

    async def release(self, question_id: str, *, user_id: str) -> Promise:
        """Let others answer again what this person has claimed. Raises NotFound, NotAllowed, AlreadySettled."""
        return await self._backend.release_question(question_id, Responder(user_id))

    async def delegate(
        self,
        question_id: str,
        to: Sequence[str],
        *,
        user_id: str,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        note: str | None = None,
    ) -> Promise:
        """Have others answer instead of all who may now.

        Args:
            question_id: The question.
            to: Who answers from now on: ``user:bob``, ``group:finance``, ``role:approver``.
            user_id: Who delegates; they must be allowed to answer.
            groups: The groups they are in.
            roles: The roles they have.
            note: Why.

        Raises:
            NotFound, NotAllowed, QuestionClaimed, AlreadySettled
            InvalidValue: A name is none, or must not answer.
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.delegate_question(question_id, responder, to, note)

    async def cancel(
        self,
        question_id: str,
        *,
        by: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Promise:
        """Withdraw a question, whoever is asked: the workflow gets ``QuestionCancelled`` where it waits.

        Args:
            question_id: The question.
            by: Who does it.
            reason: Why; the workflow is told.
            request_id: Makes a repetition a success without effect.

        Raises:
            NotFound, AlreadySettled, RequestConflict
        """
        return await self._backend.cancel_question(question_id, by=by, reason=reason, request_id=request_id)

    async def reassign(
        self, question_id: str, to: Sequence[str], *, by: str | None = None, reason: str | None = None
    ) -> Promise:
        """Have others answer, whoever is asked now, and whether or not ``by`` is. A claim ends, votes stay.

        Args:
            question_id: The question.
            to: Who answers from now on: ``user:bob``, ``group:finance``, ``role:approver``.
            by: Who does it.
            reason: Why.

        Raises:
            NotFound, AlreadySettled
            InvalidValue: Nobody is named, a name is none or must not answer, or they are too few to agree.
        """
        return await self._backend.reassign_question(question_id, to, by=by, reason=reason)

    async def move_deadline(
        self, question_id: str, timeout_seconds: float, *, by: str | None = None, reason: str | None = None
    ) -> Promise:
        """Have people answer a question, which has a deadline, until another time.

        Args:
            question_id: The question.
            timeout_seconds: How long from now, also where only working time counted.
            by: Who does it.
            reason: Why.

        Raises:
            NotFound, AlreadySettled
            InvalidValue: It has no deadline: its workflow does not reckon with one.
        """
        return await self._backend.move_deadline(question_id, timeout_seconds, by=by, reason=reason)

    async def history(
        self,
        *,
        question_id: str | None = None,
        run_id: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[AuditEvent]:
        """List what happened to a question, to the questions of a run, or to all, in order.

        Raises:
            NotAuthenticated: The client is of a server, and has no key.
        """
        return await self._backend.list_audit(AuditFilter(question_id, run_id), after=after, limit=limit)
