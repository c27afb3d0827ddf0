"""Snapshots: a run with everything needed to continue it in another store, as portable JSON."""

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
from signoff.people.questions.callback_terms import without_secret
from signoff.records import AuditKind, NewAuditEvent, PromiseState, Run
from signoff.records.names import check_optional_text
from signoff.stores.contract.snapshots import Saved, SavedRun, check_whole
from signoff.stores.contract.store import Store
from signoff.stores.contract.validation import HIGHEST_LIMIT
from signoff.wire.records import JSON_FIELDS

SCHEMA: Final = "signoff/snapshot/1"

Snapshot = Mapping[str, Any]
"""The result of ``save``: JSON data for ``load``, in this or any other store."""

_SAVED: Final = TypeAdapter(Saved)


async def save(store: Store, run_id: str, *, by: str | None = None) -> dict[str, Any]:
    """Return a run as JSON data: the run, its journal and promises, and its open child runs with theirs.

    It is a copy of the run at one moment; the run continues in this store. Its values are not encrypted, even if the
    store is.

    Args:
        store: The run's store, such as ``app.store``. It must be open.
        run_id: The run: a workflow's, an agent's turn or a flow's execution.
        by: The user who saves it, such as ``user:ana``, for the audit trail.

    Raises:
        NotFound: The run does not exist.
        SnapshotRefused: It waits for a promise or a run of another run, and would wait forever in another store.

    Example::

        Path("refund.json").write_text(json.dumps(await save(app.store, "refund-o-1")))
    """
    saved = await store.save_run(run_id)
    check_whole(saved)
    shown = replace(
        saved,
        runs=tuple(replace(each, entries=tuple(map(without_secret, each.entries))) for each in saved.runs),
    )
    body = _SAVED.dump_python(shown, mode="json", exclude_none=True)
    snapshot: dict[str, Any] = {"schema": SCHEMA, "saved_at": store.clock.now(), **body}
    digest = _digest(snapshot)
    details = {"digest": digest, "runs": len(saved.runs)}
    await store.record([_event(AuditKind.SAVED, saved.id, by, details)])
    return {**snapshot, "digest": digest}


async def load(store: Store, snapshot: Snapshot, *, by: str | None = None) -> Run:
    """Load a run into this store, where it continues as it was saved, at once if a worker has its workflow.

    Args:
        store: The new store, such as ``app.store``. It must be open. The run is loaded into the store's namespace.
        snapshot: The result of ``save``.
        by: The user who loads it, such as ``user:ana``, for the audit trail.

    Returns:
        The run in this store.

    Raises:
        SnapshotRefused: The store already has the run, one of its child runs or promises, or its session
            continues here.
        InvalidValue: It is not a snapshot, comes from a newer Signoff, or was changed; the error names the place.
            Nothing is loaded.

    Example::

        run = await load(app.store, json.loads(Path("refund.json").read_text()), by="user:ana")
    """
    saved, digest = read(snapshot)
    details = {"digest": digest, "runs": len(saved.runs), "namespace": saved.runs[0].run.namespace}
    event = _event(AuditKind.LOADED, saved.id, by, details)
    return await store.load_run(saved.within(store.namespace), event)


def _event(kind: AuditKind, run_id: str, by: str | None, details: Mapping[str, Any]) -> NewAuditEvent:
    return NewAuditEvent(uuid.uuid4().hex, kind, "", run_id, by, to_json(details).decode())


def _digest(snapshot: Snapshot) -> str:
    body = {name: value for name, value in snapshot.items() if name != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def read(snapshot: Snapshot) -> tuple[Saved, str]:
    """Return the content of a snapshot, and its digest. Raises InvalidValue, which names the place."""
    if not isinstance(cast("object", snapshot), Mapping):
        raise InvalidValue("snapshot", "it is not a JSON object; pass the result of `save`: json.loads(text)")
    schema = snapshot.get("schema")
    if not isinstance(schema, str) or not schema.startswith("signoff/snapshot/"):
        raise InvalidValue("schema", f"a snapshot has the schema {SCHEMA!r}; this is not a snapshot")
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
        raise InvalidValue("snapshot", f"it is not JSON data: {error}") from None
    if snapshot.get("digest") != digest:
        raise InvalidValue("digest", "it does not match: the snapshot was changed after it was saved")
    return saved, digest


def _check_plain(snapshot: Snapshot) -> None:
    """Refuse strings and numbers that some stores cannot keep."""
    left: list[tuple[str, object]] = [("", snapshot)]
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            check_optional_text(path, value)
        elif isinstance(value, int) and not isinstance(value, bool) and not -1 <= value <= HIGHEST_LIMIT:
            if not path.endswith("_at") and not path.endswith(".at"):
                raise InvalidValue(path, f"{value} is out of range")
        elif isinstance(value, float) and not math.isfinite(value):
            raise InvalidValue(path, f"{value} is not a number that JSON has")
        elif isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            left.extend((f"{path}.{name}".lstrip("."), item) for name, item in items)
        elif isinstance(value, list | tuple):
            left.extend(
                (f"{path}.{place}", item) for place, item in enumerate(cast("Sequence[object]", value))
            )


def check(saved: Saved) -> None:
    """Raise InvalidValue for inconsistencies: gaps in a journal, foreign promises, children without parents."""
    if not saved.runs:
        raise InvalidValue("runs", "it is empty")
    runs: set[str] = set()
    promises: set[str] = set()
    for place, each in enumerate(saved.runs):
        path = f"runs.{place}"
        if each.id in runs:
            raise InvalidValue(f"{path}.run.id", f"{each.id!r} occurs twice")
        if place and each.run.parent_id not in runs:
            raise InvalidValue(f"{path}.run.parent_id", f"{each.run.parent_id!r} does not precede it")
        runs.add(each.id)
        _check_run(path, each)
        for number, promise in enumerate(each.promises):
            if promise.id in promises:
                raise InvalidValue(f"{path}.promises.{number}.id", f"{promise.id!r} occurs twice")
            promises.add(promise.id)
    for number, promise in enumerate(saved.promises):
        if promise.run_id is not None or promise.id in promises:
            raise InvalidValue(f"promises.{number}", f"{promise.id!r} belongs to a run")
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
        raise InvalidValue(f"{path}.run.ended_at", f"it does not match the state {run.state.value!r}")
    if run.epoch == 0 and saved.entries and not run.state.is_final:
        raise InvalidValue(f"{path}.entries", "a run that never started has no entries")
    if (run.concurrency_key is None) != (run.concurrency_limit is None):
        raise InvalidValue(f"{path}.run.concurrency_limit", "a concurrency key and a limit go together")
    for seq, entry in enumerate(saved.entries):
        if entry.seq != seq:
            raise InvalidValue(
                f"{path}.entries.{seq}.seq", f"it is {entry.seq}, but the journal continues at {seq}"
            )
    for number, promise in enumerate(saved.promises):
        if promise.run_id != run.id:
            raise InvalidValue(f"{path}.promises.{number}.run_id", f"it belongs to {promise.run_id!r}")
        if (promise.state is PromiseState.PENDING) != (promise.settled_at is None):
            raise InvalidValue(f"{path}.promises.{number}.settled_at", "it does not match the state")
    last = 0
    for number, message in enumerate(saved.messages):
        if message.run_id != run.id or not last < message.id <= run.wakes:
            raise InvalidValue(
                f"{path}.messages.{number}.id", "it does not belong to the run, or is out of order"
            )
        last = message.id
    if len({each.request_id for each in saved.requests}) < len(saved.requests):
        raise InvalidValue(f"{path}.requests", "one of them occurs twice")


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
        raise InvalidValue(path, f"it is not valid JSON: {error}") from None
