"""Promises of call trees as the HTTP API shows them: with their function, arguments and results as plain JSON."""

from __future__ import annotations

import json

from signoff.codec.strict_json import UNDECRYPTED, read_object
from signoff.records import Promise, PromiseKind
from signoff.records.invocations import CallForm, InvocationInfo, InvocationNode
from signoff.server.resonate.durable_promises import Details, called_by, details_of, is_timer
from signoff.server.resonate.requests import PARENT
from signoff.wire.durable_values import PROTOCOL, WRAPPED, decoded, to_text, unwrapped

SCOPE = "resonate:scope"


def to_info(node: InvocationNode) -> InvocationInfo:
    """Return a node of a call tree as the API shows it."""
    promise, task = node.promise, node.task
    details = details_of(promise)
    call = called_by(details)
    is_of_protocol = PROTOCOL in read_object(promise.data)
    parent_id = details.tags.get(PARENT)
    return InvocationInfo(
        namespace=promise.namespace,
        id=promise.id,
        kind=promise.kind,
        state=promise.state,
        created_at=promise.created_at,
        form=_form_of(node, details),
        has_run=node.has_run and task is not None,
        has_calls=node.has_calls,
        parent_id=None if parent_id == promise.id else parent_id,
        run_id=promise.run_id,
        function=None if call is None else call["func"],
        tags=details.tags if is_of_protocol else None,
        data=_data_of(promise, details, is_of_protocol=is_of_protocol)
        if call is None
        else json.dumps({"args": call.get("args", []), "kwargs": call.get("kwargs", {})}),
        value=_plain(promise.value),
        due_at=promise.due_at,
        settled_at=promise.settled_at,
        settled_by=promise.settled_by,
        note=promise.note,
        target=None if task is None else task.target,
        task=None if task is None else task.state,
        version=None if task is None else task.version,
        pid=None if task is None else task.pid,
        ttl=None if task is None else task.ttl,
        left_out=promise.left_out,
    )


def _form_of(node: InvocationNode, details: Details) -> CallForm | None:
    promise = node.promise
    if promise.kind is PromiseKind.QUESTION:
        return CallForm.QUESTION
    if node.task is not None:
        return CallForm.REMOTE
    if "data" in (promise.left_out or ()) or (promise.data or "").startswith(UNDECRYPTED):
        return None  # its tags are not known
    if details.tags.get(SCOPE) == "local":
        return CallForm.LOCAL
    return CallForm.TIMER if is_timer(details.tags) else CallForm.PLAIN


def _data_of(promise: Promise, details: Details, *, is_of_protocol: bool) -> str | None:
    """Return the data of a promise that is no call. The terms of a question are shown with the question."""
    if promise.kind is PromiseKind.QUESTION:
        return None
    return _plain(to_text(details.param)) if is_of_protocol else promise.data


def _plain(text: str | None) -> str | None:
    """Return the JSON of a value. One with headers is shown without them, if it is JSON in base64."""
    if text is None or not text.startswith(f'{{"{WRAPPED}"'):
        return text
    data = (unwrapped(read_object(text)) or {}).get("data")
    return (decoded(data) if isinstance(data, str) else None) or text
