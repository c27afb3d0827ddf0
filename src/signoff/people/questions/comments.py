"""Comments on questions. They are events of the audit trail."""

from __future__ import annotations

import hashlib
import json
import uuid

from signoff.codec.strict_json import read_object
from signoff.errors import InvalidValue, NotAllowed, NotFound, RequestConflict
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answer_checks import check_texts
from signoff.people.questions.answers import get_question
from signoff.records import AuditEvent, AuditKind, NewAuditEvent
from signoff.records.names import check_text
from signoff.records.paging import AuditFilter
from signoff.records.responders import Responder
from signoff.stores.contract.store import Store

AT_ONCE = 500


async def comment(
    store: Store, question_id: str, responder: Responder, text: str, request_id: str | None = None
) -> AuditEvent:
    """Comment on a question, open or closed. The caller checks that the user may see it.

    Args:
        store: The question's store.
        question_id: The question's id.
        responder: The user who comments.
        text: The comment.
        request_id: Makes repeating the same comment a success without effect.

    Returns:
        The comment as an audit event.

    Raises:
        NotFound: There is no such question.
        NotAllowed: The user is unknown.
        InvalidValue: The text is empty, or cannot be kept.
        RequestConflict: The request id was used for another comment on this question.
    """
    check_text("text", text)
    check_texts(text=text, request_id=request_id)
    if not text.strip():
        raise InvalidValue("text", "it is empty")
    question = await get_question(store, question_id)
    if responder.user_id is None:
        async with RefusalRecorder(store, question, None, "comment"):
            raise NotAllowed(question_id, None, "say who comments on it")
    said = json.dumps({"text": text, "request_id": request_id})
    id = _id(question_id, question.created_at, request_id)
    new = NewAuditEvent(id, AuditKind.COMMENTED, question_id, question.run_id, responder.user_id, said)
    await store.record([new])
    kept = await _event(store, question_id, id)
    is_same = kept.by == new.by and read_object(kept.details).get("text") == text
    if request_id is not None and not is_same:
        raise RequestConflict(request_id, question_id)
    return kept


def _id(question_id: str, created_at: float, request_id: str | None) -> str:
    """Return the event's id: always the same for one request id and question."""
    if request_id is None:
        return uuid.uuid4().hex
    facts = json.dumps([AuditKind.COMMENTED.value, question_id, created_at, request_id])
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


async def _event(store: Store, question_id: str, id: str) -> AuditEvent:
    after: str | None = None
    while True:
        page = await store.list_audit(AuditFilter(question_id), after=after, limit=AT_ONCE)
        for event in page.items:
            if event.id == id:
                return event
        after = page.next
        if after is None:
            raise NotFound("question", question_id)
