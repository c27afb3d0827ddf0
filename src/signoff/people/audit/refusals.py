"""Records refusals of users' operations on questions in the audit trail."""

from __future__ import annotations

import json
import uuid
from typing import Final

from signoff.errors import AccessDenied, SignoffError, StoreError
from signoff.records import AuditKind, NewAuditEvent, Promise, PromiseKind
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.people")

LONGEST_DETAIL: Final = 500  # characters


class RefusalRecorder:
    """Records a refusal raised in the block in the question's audit trail. An unavailable store is not a refusal.

    Args:
        store: The question's store.
        question: The question.
        user_id: The user who attempts the operation, as claimed by them or their link.
        attempt: The attempted operation, such as ``claim``; None: an answer.
        request_id: The request's id.

    Example::

        async with RefusalRecorder(store, question, "ana", "comment"):
            raise NotAllowed(question.id, "ana", "the question is closed")
    """

    def __init__(
        self,
        store: Store,
        question: Promise,
        user_id: str | None,
        attempt: str | None = None,
        *,
        request_id: str | None = None,
    ) -> None:
        self._store = store
        self._question = question
        self._user_id = user_id
        self._attempt = attempt
        self._request_id = request_id

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if isinstance(error, AccessDenied) or (
            isinstance(error, SignoffError) and not isinstance(error, StoreError)
        ):
            await record_refusal(
                self._store,
                self._question,
                self._user_id,
                error,
                request_id=self._request_id,
                attempt=self._attempt,
            )


async def record_refusal(
    store: Store,
    question: Promise,
    user_id: str | None,
    error: SignoffError,
    *,
    request_id: str | None = None,
    attempt: str | None = None,
) -> None:
    """Record the refusal of a request about a question. If that fails, it is logged.

    Args:
        store: The question's store.
        question: The question.
        user_id: The user, as given by them or by their link.
        error: The reason.
        request_id: The request's id, if it has one.
        attempt: The request, such as ``claim``; None: an answer.
    """
    if question.kind is not PromiseKind.QUESTION:
        return
    details = {"error": type(error).__name__, "detail": str(error)[:LONGEST_DETAIL]}
    if request_id is not None:
        details["request_id"] = request_id
    if attempt is not None:
        details["attempt"] = attempt
    new = NewAuditEvent(
        uuid.uuid4().hex, AuditKind.REFUSED, question.id, question.run_id, user_id, json.dumps(details)
    )
    try:
        await store.record([new])
    except SignoffError as trouble:
        log.warning(
            "the refusal of a request about question %s could not be recorded: %s", question.id, trouble
        )
