"""Store wrapper that encrypts payloads at rest.

Encrypted are arguments, results, errors, journal entries, questions, answers, notes, signals, progress messages, live
text, the details of the audit trail, client addresses, the descriptions of workflows, and the states of checkpoints.
Fields that a store searches and orders by are not: ids, names of workflows, steps and signals, states, times, users and
groups. Reasons of cancellations are not encrypted either.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum, auto
from typing import Any, Final, TypeVar, cast

from signoff.codec.ciphers import MARK, CannotDecrypt, Ciphers, is_encrypted
from signoff.codec.strict_json import UNDECRYPTED
from signoff.errors import IdConflict, InvalidValue, MissingKey, RequestConflict
from signoff.records import (
    Amendment,
    AuditEvent,
    AuditKind,
    CallKind,
    Entry,
    LiveText,
    Message,
    MessageKind,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewSignal,
    Origin,
    Promise,
    PromiseKind,
    PromiseState,
    Rule,
    Run,
    Schedule,
    Settlement,
    WorkflowInfo,
)
from signoff.records.invocations import InvocationNode
from signoff.records.paging import Page
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.records.question_text import unpacked
from signoff.records.tasks import Invocation, NewInvocation, TaskMessage, TaskRef
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.snapshots import Saved, SavedRequest, SavedRun
from signoff.stores.contract.store import Store
from signoff.stores.contract.validation import check_events, check_live, check_rule, check_workflows
from signoff.stores.shared.equality import canonical, difference, same_json
from signoff.stores.wrappers.encrypted_checkpoints import CHECKPOINTS, EncryptedCheckpoints
from signoff.stores.wrappers.store_wrapper import StoreWrapper

log = own_logger("signoff.stores")


class _Part(Enum):
    """The content of a record's field, which decides how it is encrypted."""

    JSON = auto()  # stored as a JSON string
    COMPARED = auto()  # the same, in canonical form: the store compares two of them
    TEXT = auto()
    DETAILS = auto()  # a JSON object: encrypted as a whole, or in parts if the store wrote it
    RECORDS = auto()  # one or several records


_PAYLOADS: Final[Mapping[type, Mapping[str, _Part]]] = {
    NewRun: {"arguments": _Part.COMPARED},
    Run: {"arguments": _Part.COMPARED, "result": _Part.JSON, "error": _Part.JSON},
    Entry: {"value": _Part.JSON, "error": _Part.JSON, "details": _Part.JSON},
    NewPromise: {"data": _Part.JSON},
    Origin: {"address": _Part.TEXT},
    Promise: {
        "data": _Part.JSON,
        "value": _Part.JSON,
        "note": _Part.TEXT,
        "progress": _Part.JSON,
        "origin": _Part.RECORDS,
    },
    Settlement: {"value": _Part.JSON, "note": _Part.TEXT, "origin": _Part.RECORDS},
    Amendment: {
        "progress": _Part.JSON,
        "settlement": _Part.RECORDS,
        "events": _Part.RECORDS,
        "rule": _Part.RECORDS,
        "signal": _Part.RECORDS,
    },
    NewSignal: {"value": _Part.COMPARED},
    NewRule: {"arguments": _Part.DETAILS},
    Rule: {"arguments": _Part.DETAILS},
    NewAuditEvent: {"details": _Part.DETAILS, "origin": _Part.RECORDS},
    AuditEvent: {"details": _Part.DETAILS, "origin": _Part.RECORDS},
    Message: {"value": _Part.JSON, "error": _Part.JSON, "note": _Part.TEXT},
    Outcome: {"result": _Part.JSON, "error": _Part.JSON},
    NewSchedule: {"arguments": _Part.COMPARED},
    Schedule: {"arguments": _Part.COMPARED},
    NewPromiseSchedule: {"data": _Part.JSON},
    PromiseSchedule: {"data": _Part.JSON},
    LiveText: {"text": _Part.TEXT},
    WorkflowInfo: {"description": _Part.TEXT, "parameters": _Part.DETAILS},
    Write: {"entries": _Part.RECORDS, "opens": _Part.RECORDS, "starts": _Part.RECORDS},
    Claim: {"run": _Part.RECORDS, "messages": _Part.RECORDS},
    Page: {"items": _Part.RECORDS},
    Saved: {"runs": _Part.RECORDS, "promises": _Part.RECORDS},
    SavedRun: {
        "run": _Part.RECORDS,
        "entries": _Part.RECORDS,
        "promises": _Part.RECORDS,
        "messages": _Part.RECORDS,
        "requests": _Part.RECORDS,
    },
    SavedRequest: {"value": _Part.COMPARED},
    NewInvocation: {"promise": _Part.RECORDS},
    Invocation: {"promise": _Part.RECORDS},
    InvocationNode: {"promise": _Part.RECORDS},
    TaskMessage: {"promise": _Part.RECORDS},
}
"""The payloads of each record. All other fields are stored as they are."""

_NAMED_FOR_PEOPLE: Final = (CallKind.QUESTION, CallKind.PROGRESS)
_NAMED_PAYLOADS: Final = {**_PAYLOADS[Entry], "name": _Part.TEXT}
"""The payloads of an entry whose name is a text for people."""

S = TypeVar("S")

_KINDS: Final[Mapping[type, str]] = {
    NewSchedule: "schedule",
    Schedule: "schedule",
    NewPromiseSchedule: "promise schedule",
    PromiseSchedule: "promise schedule",
    NewRule: "rule",
    Rule: "rule",
    Entry: "entry",
    NewAuditEvent: "event",
    AuditEvent: "event",
    LiveText: "live",
    WorkflowInfo: "workflow",
}
"""The context that a payload is bound to besides an id: records of different kinds with one id cannot be exchanged.

Payloads that the store itself copies are excluded: the outcome of a promise or run, and the message that reports it.
"""

_FROM_STORE: Final = ("error", "details")
"""Payloads that the store, which has no keys, may have written: a run was cancelled or retried."""

_RECORDED_BY_STORE: Final = {AuditKind.ASKED, *(AuditKind(state.value) for state in PromiseState)}

_LEAVING_OUT: Final = ("claim", "read_messages", "take_task_messages", "list_branch")
"""Operations that leave out records that cannot be decrypted, so that the others are returned."""

_SHOWING: Final = frozenset(
    [
        "read_chain",
        "get_rule",
        "revoke_rule",
        "pause_schedule",
        "resume_schedule",
        "suspend",
        "resume",
        "terminate",
    ]
)
"""Operations besides lists that show what cannot be decrypted as ``showing`` does: their writes are already done."""

_WHOLE: Final = "encrypted"
_PARTS: Final = ("data", "value", "note")

_AS_KEPT: Final = ("unsealed",)
"""Operations on the rows of the audit chain as stored, which is verified without keys."""


def encrypted(store: Store, ciphers: Ciphers, *, refuses_plaintext: bool = False) -> Store:
    """Return a store that encrypts payloads in another store.

    Every process that opens the database needs the keys. Clients of a server do not. Payloads that were written without
    encryption stay readable.

    Args:
        store: The store of the encrypted payloads.
        ciphers: The keys.
        refuses_plaintext: Whether reading an unencrypted payload raises MissingKey, since its writer had no keys. For
            databases that were encrypted from the start.

    Example::

        app = Signoff(encrypted(SqliteStore("signoff.db"), Ciphers.parse(os.environ["SIGNOFF_ENCRYPTION_KEYS"])))
    """
    return cast("Store", _EncryptedStore(store, ciphers, refuses_plaintext))


def showing(store: Store) -> Store:
    """Return the store as people read it: a payload that cannot be decrypted is a text that says so.

    Lists always do that: one row whose key is lost hides no other. Any other read raises MissingKey, so that no run
    continues without its payload.
    """
    view: object = store
    while isinstance(view, StoreWrapper):
        if isinstance(view, _EncryptedStore):
            return cast("Store", view.showing)
        view = view.inner
    return store


def is_incomplete(record: object) -> bool:
    """Whether a record has a text in place of a payload that cannot be decrypted."""
    parts = [getattr(record, name) for name in _payloads_of(record) or ()]
    return any(isinstance(part, str) and part.startswith(UNDECRYPTED) for part in parts)


def withheld(record: S, reason: str) -> S:
    """Return a record with a reason in place of each of its payloads."""
    parts = _payloads_of(record)
    if parts is None:
        return record

    def reason_for(_: str, how: _Part, part: Any) -> Any:
        return withheld(part, reason) if how is _Part.RECORDS else f"{UNDECRYPTED}{reason}"

    return _changed(record, parts, reason_for)


class _EncryptedStore(StoreWrapper):
    """Encrypts the arguments of every operation, and decrypts the results."""

    def __init__(self, inner: Store, ciphers: Ciphers, refuses_plaintext: bool) -> None:
        super().__init__(inner)
        self._ciphers = ciphers
        self._refuses_plaintext = refuses_plaintext
        self._shows = False

    @property
    def showing(self) -> _EncryptedStore:
        """This store, but a payload that cannot be decrypted is a text that says so."""
        view = copy(self)
        view._shows = True
        return view

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        if operation.name in _AS_KEPT:
            return await operation.call(self.inner, arguments)
        if operation.noun == CHECKPOINTS:
            checkpoints = EncryptedCheckpoints(self.inner, self._ciphers, self._refuses_plaintext)
            return await checkpoints.perform(operation, arguments)
        place = _place_of(next(iter(arguments.values()), ""), "")
        sealed = {name: self._seal(value, place) for name, value in arguments.items()}
        found = await operation.call(self.inner, sealed)
        if operation.name in _LEAVING_OUT:
            return self._readable(found)
        shows = operation.name in _SHOWING or operation.name.startswith("list_")
        return (self.showing if shows else self)._open(found, place)

    # The store compares a repetition with the original as text. The key or the order of members may have changed

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        try:
            done = await self.inner.create_run(self._seal(new, ""), token=token)
        except IdConflict:
            found: Run = self._open(await self.inner.get_run(new.id), new.id)
            if difference(found, new) is not None:
                raise
            return found, False
        return self._open(done, new.id)

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        try:
            done = await self.inner.settle(promise_id, kind, self._seal(settlement, promise_id), token=token)
        except RequestConflict:
            found: Promise = self._open(await self.inner.get_promise(promise_id), promise_id)
            is_repeated = (found.request_id, found.state) == (settlement.request_id, settlement.state)
            if not is_repeated or not same_json(found.value, settlement.value):
                raise
            return found, False
        return self._open(done, promise_id)

    async def settle_held(self, holder: TaskRef, promise_id: str, settlement: Settlement) -> Promise:
        sealed = self._seal(settlement, promise_id)
        return self._open(await self.inner.settle_held(holder, promise_id, sealed), promise_id)

    # Arguments that are not records

    async def signal(self, run_id: str, name: str, value: str, **more: Any) -> bool:
        bound_to = _bound_to(self.inner.namespace, "signal", run_id, name)
        sealed = self._sealed(value, _Part.COMPARED, bound_to, "")
        return await self.inner.signal(run_id, name, sealed, **more)

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        if reason is not None and reason.startswith(MARK):
            raise InvalidValue("reason", f"it begins with {MARK!r}, which marks encrypted values")
        return self.showing._open(await self.inner.cancel(run_id, reason=reason, by=by), run_id)

    # Encrypting

    def _seal(self, value: Any, place: str) -> Any:
        if isinstance(value, list | tuple):
            return _each(value, lambda item: self._seal(item, place))
        parts = _payloads_of(value)
        if parts is None:
            return value
        if isinstance(value, NewAuditEvent):  # the store could not check it once it is encrypted
            check_events([value])
        if isinstance(value, NewRule):
            check_rule(value)
        if isinstance(value, WorkflowInfo):
            check_workflows([value])
        if isinstance(value, LiveText):
            check_live([value])
        within = _place_of(value, place)

        def seal(name: str, how: _Part, part: Any) -> Any:
            if _is_reason(value):
                return part
            return self._sealed(part, how, self._owner(value, within, name), within)

        return _changed(value, parts, seal)

    def _owner(self, value: Any, place: str, name: str) -> str:
        """Return the context that a payload of a record is bound to."""
        namespace = getattr(value, "namespace", self.inner.namespace)
        if isinstance(
            value, WorkflowInfo
        ):  # it is announced in the store's namespace, whatever its field says
            namespace = self.inner.namespace
        if isinstance(value, SavedRequest | NewSignal) or (
            isinstance(value, Message) and value.kind is MessageKind.SIGNAL
        ):
            return _bound_to(namespace, "signal", value.run_id, value.name or "")
        kind = _KINDS.get(cast("type[object]", type(value)), "run" if name == "arguments" else "")
        return _bound_to(namespace, kind, place, "value" if name == "result" else name)

    def _sealed(self, part: Any, how: _Part, bound_to: str, place: str) -> Any:
        match how:
            case _Part.RECORDS:
                return self._seal(part, place)
            case _Part.COMPARED:
                part = canonical(part)
            case _:
                pass
        text = self._ciphers.encrypt(part, bound_to=bound_to)
        match how:
            case _Part.TEXT:
                return text
            case _Part.DETAILS:
                return json.dumps({_WHOLE: text})
            case _:
                return json.dumps(text)

    # Decrypting

    def _open(self, value: Any, place: str) -> Any:
        if isinstance(value, list | tuple):
            return _each(value, lambda item: self._open(item, place))
        parts = _payloads_of(value)
        if parts is None:
            return value
        within = _place_of(value, place)

        left_out = getattr(value, "left_out", None) or ()

        def read(name: str, how: _Part, part: Any) -> Any:
            if name in left_out:
                return part
            if how is _Part.RECORDS:
                is_settlings = isinstance(value, AuditEvent) and value.kind in _RECORDED_BY_STORE
                return self._open(part, value.question_id if is_settlings else within)
            if _is_reason(value):
                return part
            bound_to = self._owner(value, within, name)
            strict = self._refuses_plaintext and name not in _FROM_STORE
            match how:
                case _Part.TEXT:
                    return self._plain(part, bound_to, strict)
                case _Part.DETAILS if isinstance(value, AuditEvent):
                    return self._plain_details(part, bound_to, value)
                case _Part.DETAILS:
                    return self._plain_object(part, bound_to, strict)
                case _:
                    plain = self._plain_json(part, bound_to, strict)
                    return unpacked(plain) if name == "data" and isinstance(value, Promise) else plain

        return _changed(value, parts, read)

    def _readable(self, found: Sequence[Any]) -> Sequence[Any]:
        readable: list[Any] = []
        for each in found:
            try:
                readable.append(self._open(each, ""))
            except MissingKey as error:
                log.error("%s is skipped: %s", _named(each), error)
        return readable

    def _plain(self, text: str, bound_to: str, strict: bool) -> str:
        if strict and not text.startswith(MARK):
            return self._undecrypted("it is not encrypted, so its writer had no keys")
        try:
            return self._ciphers.decrypt(text, bound_to=bound_to)
        except CannotDecrypt as error:
            return self._undecrypted(str(error))

    def _undecrypted(self, reason: str) -> str:
        if self._shows:
            return f"{UNDECRYPTED}{reason}"
        raise MissingKey(self.inner.location, reason) from None

    def _plain_json(self, text: str, bound_to: str, strict: bool) -> str:
        if not is_encrypted(text):
            return self._plain(text, bound_to, strict=True) if strict else text
        return self._plain(json.loads(text), bound_to, strict)

    def _plain_object(self, text: str, bound_to: str, strict: bool) -> str:
        whole = json.loads(text).get(_WHOLE) if strict or MARK in text else None
        if strict or isinstance(whole, str):
            return self._plain(str(whole), bound_to, strict)
        return text

    def _plain_details(self, text: str, bound_to: str, event: AuditEvent) -> str:
        """Return the details of an event, decrypted as a whole, or in parts if the store recorded it."""
        is_own = event.kind in _RECORDED_BY_STORE
        strict = self._refuses_plaintext
        if not is_own:
            return self._plain_object(text, bound_to, strict)
        if not strict and MARK not in text:
            return text
        details: Any = json.loads(text)
        for name in _PARTS:
            if isinstance(part := details.get(name), str):
                read = self._plain if name == "note" else self._plain_json
                owner = _bound_to(event.namespace, "", event.question_id, name)
                details[name] = read(part, owner, strict)
        return json.dumps(details)


def _is_reason(value: Any) -> bool:
    """Whether a record's text is the reason of a cancellation, which is stored as it is."""
    return isinstance(value, Message) and value.kind is MessageKind.CANCEL


def _payloads_of(value: Any) -> Mapping[str, _Part] | None:
    if isinstance(value, Entry) and value.call in _NAMED_FOR_PEOPLE:
        return _NAMED_PAYLOADS
    return _PAYLOADS.get(cast("type[object]", type(value)))


def _each(items: Any, change: Callable[[Any], Any]) -> Any:
    """Return a list or tuple with its items changed; itself if no item changes."""
    old: list[Any] = list(items)
    new = [change(item) for item in old]
    return items if all(map(operator.is_, old, new)) else type(items)(new)


def _changed(record: Any, parts: Mapping[str, _Part], change: Callable[[str, _Part, Any], Any]) -> Any:
    """Return a record with its present parts changed."""
    found = {name: (how, getattr(record, name)) for name, how in parts.items()}
    return replace(
        record,
        **{name: change(name, how, part) for name, (how, part) in found.items() if part is not None},
    )


def _bound_to(namespace: str, *parts: str) -> str:
    return json.dumps([namespace, *parts])


def _named(found: Claim | TaskMessage | Promise | tuple[Message, int]) -> str:
    if isinstance(found, Claim):
        return f"run {found.run.id!r}"
    if isinstance(found, tuple):
        return f"a message of run {found[0].run_id!r}"
    promise = found.promise if isinstance(found, TaskMessage) else found
    return "a task" if promise is None else f"promise {promise.id!r}"


def _place_of(value: Any, within: str) -> str:
    """Return the place of a record: its own id, or that of its owner."""
    if isinstance(value, str):
        return value
    if isinstance(value, Entry):
        return f"{within}/{value.seq}"
    if isinstance(value, Message):
        return value.name or value.run_id
    if isinstance(value, LiveText):
        return f"{value.run_id}/{value.epoch}/{value.seq}"
    if isinstance(value, WorkflowInfo):
        return json.dumps([value.group, value.name, value.version])
    return getattr(value, "id", None) or getattr(value, "run_id", None) or within
