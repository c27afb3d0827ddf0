"""Snapshots: a run with all that is needed to go on with it in another store, as portable JSON."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from signoff.codec.strict_json import read_kept
from signoff.errors import InvalidValue
from signoff.people.questions.callback_terms import veiled
from signoff.records import AuditKind, NewAuditEvent, PromiseState, Run
from signoff.records.texts import check_text
from signoff.stores.contract.snapshots import Saved, SavedRun, check_whole
from signoff.stores.contract.store import Store
from signoff.stores.contract.validation import HIGHEST_LIMIT
from signoff.wire.records import JSON_FIELDS

SCHEMA: Final = "signoff/snapshot/1"

Snapshot = Mapping[str, Any]
"""What ``save`` returns: JSON data that ``load`` takes, here or in any other store."""

_SAVED: Final = TypeAdapter(Saved)


async def save(store: Store, run_id: str, *, by: str | None = None) -> dict[str, Any]:
    """Return a run as JSON data: the run, its journal and promises, and its open child runs with theirs.

    It is a copy, as the run is at one moment; here the run goes on. Its values are not encrypted, whatever the store.

    Args:
        store: Where it lives, such as ``app.store``. It must be open.
        run_id: The run: a workflow's, an agent's turn or a flow's execution.
        by: Who saves it, such as ``user:ana``, for the audit trail.

    Raises:
        NotFound: There is no such run.
        SnapshotRefused: It waits for a promise or a run that is another run's, and would wait for ever elsewhere.

    Example::

        Path("refund.json").write_text(json.dumps(await save(app.store, "refund-o-1")))
    """
    saved = await store.save_run(run_id)
    check_whole(saved)
    shown = replace(
        saved, runs=tuple(replace(each, entries=tuple(map(veiled, each.entries))) for each in saved.runs)
    )
    body = _SAVED.dump_python(shown, mode="json", exclude_none=True)
    snapshot: dict[str, Any] = {"schema": SCHEMA, "saved_at": store.clock.now(), **body}
    digest = _digest(snapshot)
    told = {"digest": digest, "runs": len(saved.runs)}
    await store.record([_event(AuditKind.SAVED, saved.id, by, told)])
    return {**snapshot, "digest": digest}


async def load(store: Store, snapshot: Snapshot, *, by: str | None = None) -> Run:
    """Have a run go on in this store as it was saved: at once, if a worker here has its workflow.

    Args:
        store: Where it is to live, such as ``app.store``. It must be open. The run comes into the store's namespace.
        snapshot: What ``save`` returned.
        by: Who loads it, such as ``user:ana``, for the audit trail.

    Returns:
        The run as it is here.

    Raises:
        SnapshotRefused: The run, one of its child runs or promises is here, or its session goes on here.
        InvalidValue: It is no snapshot, a newer Signoff's, or it was changed; the error says where. Nothing is loaded.

    Example::

        run = await load(app.store, json.loads(Path("refund.json").read_text()), by="user:ana")
    """
    saved, digest = read(snapshot)
    told = {"digest": digest, "runs": len(saved.runs), "namespace": saved.runs[0].run.namespace}
    event = _event(AuditKind.LOADED, saved.id, by, told)
    return await store.load_run(saved.within(store.namespace), event)


def _event(kind: AuditKind, run_id: str, by: str | None, told: Mapping[str, Any]) -> NewAuditEvent:
    return NewAuditEvent(uuid.uuid4().hex, kind, "", run_id, by, to_json(told).decode())


def _digest(snapshot: Snapshot) -> str:
    body = {name: value for name, value in snapshot.items() if name != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def read(snapshot: Snapshot) -> tuple[Saved, str]:
    """Return what a snapshot holds, and its digest. Raises InvalidValue; it names the place."""
    if not isinstance(cast("object", snapshot), Mapping):
        raise InvalidValue("snapshot", "this is no JSON object; pass what `save` returned: json.loads(text)")
    schema = snapshot.get("schema")
    if not isinstance(schema, str) or not schema.startswith("signoff/snapshot/"):
        raise InvalidValue("schema", f"a snapshot begins with {SCHEMA!r}; this is none")
    if schema != SCHEMA:
        raise InvalidValue("schema", f"{schema[:60]!r} is not {SCHEMA!r}: load it with a newer Signoff")
    try:
        saved = _SAVED.validate_python(
            {"runs": snapshot.get("runs"), "promises": snapshot.get("promises", ())}
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidValue(".".join(map(str, first["loc"])), first["msg"]) from None
    _check_plain(snapshot)
    check(saved)
    try:
        digest = _digest(snapshot)
    except (TypeError, ValueError) as error:
        raise InvalidValue("snapshot", f"it is no JSON data: {error}") from None
    if snapshot.get("digest") != digest:
        raise InvalidValue(
            "digest", "it is that of another snapshot: this one was changed since it was saved"
        )
    return saved, digest


def _check_plain(snapshot: Snapshot) -> None:
    """Refuse texts and numbers that not every store could keep."""
    left: list[tuple[str, object]] = [("", snapshot)]
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            check_text(path, value)
        elif isinstance(value, int) and not isinstance(value, bool) and not -1 <= value <= HIGHEST_LIMIT:
            if not path.endswith("_at") and not path.endswith(".at"):
                raise InvalidValue(path, f"{value} is out of range")
        elif isinstance(value, float) and not math.isfinite(value):
            raise InvalidValue(path, f"{value} is no number that JSON has")
        elif isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            left.extend((f"{path}.{name}".lstrip("."), item) for name, item in items)
        elif isinstance(value, list | tuple):
            left.extend(
                (f"{path}.{place}", item) for place, item in enumerate(cast("Sequence[object]", value))
            )


def check(saved: Saved) -> None:
    """Raise InvalidValue for what no store has: holes in a journal, promises of others, children without parents."""
    if not saved.runs:
        raise InvalidValue("runs", "there is none")
    runs: set[str] = set()
    promises: set[str] = set()
    for place, each in enumerate(saved.runs):
        path = f"runs.{place}"
        if each.id in runs:
            raise InvalidValue(f"{path}.run.id", f"{each.id!r} is there twice")
        if place and each.run.parent_id not in runs:
            raise InvalidValue(f"{path}.run.parent_id", f"{each.run.parent_id!r} is not before it")
        runs.add(each.id)
        _check_run(path, each)
        for number, promise in enumerate(each.promises):
            if promise.id in promises:
                raise InvalidValue(f"{path}.promises.{number}.id", f"{promise.id!r} is there twice")
            promises.add(promise.id)
    for number, promise in enumerate(saved.promises):
        if promise.run_id is not None or promise.id in promises:
            raise InvalidValue(f"promises.{number}", f"{promise.id!r} is a run's")
        promises.add(promise.id)
    for path, record in _records(saved):
        for name in JSON_FIELDS.get(cast("type[object]", type(record)), frozenset({"value", "error"})):
            text = getattr(record, name)
            if text is not None:
                _check_json(f"{path}.{name}", text)
    check_whole(saved)


def _check_run(path: str, saved: SavedRun) -> None:
    run = saved.run
    if run.state.is_final != (run.ended_at is not None):
        raise InvalidValue(f"{path}.run.ended_at", f"it does not fit the state {run.state.value!r}")
    if run.epoch == 0 and saved.entries and not run.state.is_final:
        raise InvalidValue(f"{path}.entries", "a run that never started has none")
    if (run.concurrency_key is None) != (run.concurrency_limit is None):
        raise InvalidValue(f"{path}.run.concurrency_limit", "a concurrency key and a limit go together")
    for seq, entry in enumerate(saved.entries):
        if entry.seq != seq:
            raise InvalidValue(f"{path}.entries.{seq}.seq", f"{entry.seq} where the journal goes on at {seq}")
    for number, promise in enumerate(saved.promises):
        if promise.run_id != run.id:
            raise InvalidValue(f"{path}.promises.{number}.run_id", f"it is of {promise.run_id!r}")
        if (promise.state is PromiseState.PENDING) != (promise.settled_at is None):
            raise InvalidValue(f"{path}.promises.{number}.settled_at", "it does not fit the state")
    last = 0
    for number, message in enumerate(saved.messages):
        if message.run_id != run.id or not last < message.id <= run.wakes:
            raise InvalidValue(f"{path}.messages.{number}.id", "it is none of the run's, or out of order")
        last = message.id
    if len({each.request_id for each in saved.requests}) < len(saved.requests):
        raise InvalidValue(f"{path}.requests", "one of them is there twice")


def _records(saved: Saved) -> Iterator[tuple[str, Any]]:
    yield from _numbered("promises", saved.promises)
    for place, each in enumerate(saved.runs):
        yield f"runs.{place}.run", each.run
        for field in fields(SavedRun):
            if isinstance(getattr(each, field.name), tuple) and field.name not in ("requests", "joined"):
                yield from _numbered(f"runs.{place}.{field.name}", getattr(each, field.name))


def _numbered(path: str, records: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    return ((f"{path}.{place}", record) for place, record in enumerate(records))


def _check_json(path: str, text: str) -> None:
    try:
        read_kept(text)
    except ValueError as error:
        raise InvalidValue(path, f"it is no JSON: {error}") from None
