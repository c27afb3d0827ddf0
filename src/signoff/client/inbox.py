"""Client operations on questions: bulk answers, comments, claims, delegation, and their history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from signoff.errors import SignoffError
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.records import AuditEvent, Promise, Seal
from signoff.records.paging import AuditFilter, Page
from signoff.records.responders import Responder


class InboxBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

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
    """Manages the open questions of users, and reads the history of questions.

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
        """Answer up to 100 questions. Each answer is given on its own: a refused one does not affect the others.

        Args:
            given: The answers.
            user_id: The user who answers.
            groups: The user's groups.
            roles: The user's roles.

        Returns:
            The results in the same order: the question, or the error if the answer was refused.

        Raises:
            InvalidValue: There are too many answers, or a name is not valid.

        Example::

            page = await client.questions(user_id="ana")
            await client.inbox.answer_all([GivenAnswer(each.id, True) for each in page.items], user_id="ana")
        """
        return await self._backend.answer_all(given, Responder.of(user_id, groups, roles))

    async def view(
        self, question_id: str, *, user_id: str, groups: Collection[str] = (), roles: Collection[str] = ()
    ) -> Promise:
        """Return a question to a user who may answer it, and record that the user has seen it.

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
        """Comment on a question, open or closed. ``history`` lists comments.

        Args:
            question_id: The question.
            text: The comment, up to 10,000 characters.
            user_id: The user who comments, who must be allowed to see the question.
            groups: The user's groups.
            roles: The user's roles.
            request_id: Makes a repeated call with the same comment succeed without effect.

        Returns:
            The comment, as an event of the audit trail.

        Raises:
            NotFound, NotAllowed, RequestConflict
            InvalidValue: The comment is empty or too long.

        Example::

            await client.inbox.comment(id, "Is that the order of May?", user_id="ana", groups=["finance"])
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.comment_on_question(question_id, responder, text, request_id)

    async def claim(
        self, question_id: str, *, user_id: str, groups: Collection[str] = (), roles: Collection[str] = ()
    ) -> Promise:
        """Claim a question: no other user can answer it until it is released, delegated or escalated.

        Raises:
            NotFound, NotAllowed, QuestionClaimed, AlreadySettled
        """
        responder = Responder.of(user_id, groups, roles)
        return await self._backend.claim_question(question_id, responder)

    async def release(self, question_id: str, *, user_id: str) -> Promise:
        """Release a claimed question for other users. Raises NotFound, NotAllowed, AlreadySettled."""
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
        """Delegate a question: the new assignees replace all current ones.

        Args:
            question_id: The question.
            to: The new assignees: ``user:bob``, ``group:finance``, ``role:approver``.
            user_id: The user who delegates, who must be allowed to answer.
            groups: The user's groups.
            roles: The user's roles.
            note: The reason.

        Raises:
            NotFound, NotAllowed, QuestionClaimed, AlreadySettled
            InvalidValue: A name is not valid, or must not answer.
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
        """Withdraw a question, regardless of its assignees. The workflow gets ``QuestionCancelled`` where it waits.

        Args:
            question_id: The question.
            by: The user who withdraws it.
            reason: The reason, which the workflow receives.
            request_id: Makes a repeated call succeed without effect.

        Raises:
            NotFound, AlreadySettled, RequestConflict
        """
        return await self._backend.cancel_question(question_id, by=by, reason=reason, request_id=request_id)

    async def reassign(
        self, question_id: str, to: Sequence[str], *, by: str | None = None, reason: str | None = None
    ) -> Promise:
        """Reassign a question, regardless of its assignees; ``by`` need not be one. A claim ends, votes stay.

        Args:
            question_id: The question.
            to: The new assignees: ``user:bob``, ``group:finance``, ``role:approver``.
            by: The user who reassigns it.
            reason: The reason.

        Raises:
            NotFound, AlreadySettled
            InvalidValue: There are no assignees, a name is not valid or must not answer, or they are too few for the
                quorum.
        """
        return await self._backend.reassign_question(question_id, to, by=by, reason=reason)

    async def move_deadline(
        self, question_id: str, timeout_seconds: float, *, by: str | None = None, reason: str | None = None
    ) -> Promise:
        """Move the deadline of a question that has one.

        Args:
            question_id: The question.
            timeout_seconds: The new deadline in seconds from now, even if only working time counted before.
            by: The user who moves it.
            reason: The reason.

        Raises:
            NotFound, AlreadySettled
            InvalidValue: The question has no deadline, so its workflow does not expect one.
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
        """List the audit events of a question, of a run's questions, or of all questions, oldest first.

        Raises:
            NotAuthenticated: The client of a server has no key.
        """
        return await self._backend.list_audit(AuditFilter(question_id, run_id), after=after, limit=limit)
