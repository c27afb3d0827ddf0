"""Which parts of records are payloads, and the records without what is hidden of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from pydantic_core import from_json, to_json

from signoff.codec.signatures import signature
from signoff.origins import facts_of, origin_of
from signoff.records import (
    AuditEvent,
    AuditKind,
    CallKind,
    Entry,
    EntryKind,
    Origin,
    OriginWay,
    Promise,
    PromiseKind,
    Rule,
    Run,
    Schedule,
    WorkflowInfo,
)
from signoff.redaction.paths import Hidden, Place, start_of
from signoff.redaction.schemas import without_examples
from signoff.stores.paging import Page

T = TypeVar("T")

_QUOTING: Final = frozenset({"WrongAnswer", "InvalidValue", "NotSerializable"})
"""Refusals whose words may quote an answer."""

_KNOWN: Final = frozenset(AuditKind)

_OWN_OF_OPTION: Final = frozenset({"value", "label", "help"})

FindFunction = Callable[[str], Callable[..., Any] | None]
"""Finds a workflow's code by its name, if it is known."""


class Redaction:
    """What is hidden where records leave a server.

    Args:
        paths: Where it is in payloads, such as ``card.number``, ``*.password`` or ``$.customer['tax id']``.
        function: Finds the code of workflows: it says what arguments are called that came by position.

    Raises:
        InvalidValue: A path is none.

    Example::

        Redaction(["password"]).shown(run).arguments == '{"args":[],"kwargs":{"password":"[redacted]"}}'
    """

    def __init__(self, paths: Iterable[str], function: FindFunction = lambda _: None) -> None:
        self.start = start_of(paths)
        self._function = function
        self._record: Mapping[type, Callable[[Any], Any]] = {
            Run: self._run,
            Promise: self._promise,
            Entry: self.entry,
            AuditEvent: self._event,
            Schedule: self._schedule,
            Rule: self._rule,
            WorkflowInfo: self._workflow,
        }

    @property
    def is_empty(self) -> bool:
        """Whether it hides nothing."""
        return self.start.is_empty

    def shown(self, record: T) -> T:
        """Return a record without what is hidden; the very record if it has nothing of it."""
        show = self._record.get(type(record))
        return record if show is None or self.is_empty else show(record)

    def shown_in(self, result: Any) -> Any:
        """Return whatever a client gets, with the records in it as ``shown`` returns them."""
        if self.is_empty:
            return result
        if isinstance(result, Page):
            page = cast("Page[Any]", result)
            return replace(page, items=tuple(map(self.shown, page.items)))
        if isinstance(result, tuple):
            return tuple(map(self.shown_in, cast("tuple[Any, ...]", result)))
        if isinstance(result, list):
            return list(map(self.shown_in, cast("list[Any]", result)))
        return self.shown(result)

    def entry(self, entry: Entry, workflow: str | None = None) -> Entry:
        """Return a journal entry without what is hidden.

        Args:
            entry: The entry.
            workflow: Of which workflow it is: its arguments may begin a new generation.
        """
        hidden = Hidden()

        def value(plain: Any) -> Any:
            if entry.kind is EntryKind.OPENED and entry.call in (CallKind.QUESTION, CallKind.STEP):
                return self.question(plain, hidden)
            if entry.kind is EntryKind.OPENED and entry.call is CallKind.CHILD:
                return self._arguments(plain, hidden, entry.name)
            if entry.kind is EntryKind.CONTINUED:
                return self._arguments(plain, hidden, workflow)
            if entry.call is CallKind.QUESTION:
                return self._answer(plain, hidden)
            return self._named(entry.name or workflow).shown(plain, hidden)

        def details(plain: Any) -> Any:
            told = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {}
            carried: list[dict[str, Any]] = told.get("signals") or []
            if not carried:
                return cast("Any", plain)
            return {**told, "signals": [self._signal(each, hidden) for each in carried]}

        return _rewritten(
            entry,
            hidden,
            value=_of_text(entry.value, hidden, value),
            error=_of_text(entry.error, hidden, lambda plain: self._error(plain, hidden)),
            details=_of_text(entry.details, hidden, lambda plain: hidden.masked_words(details(plain))),
            name=None if entry.name is None else hidden.masked(entry.name),  # of a question its text
        )

    # Records

    def _run(self, run: Run) -> Run:
        hidden = Hidden()
        return _rewritten(
            run,
            hidden,
            arguments=_of_text(
                run.arguments, hidden, lambda plain: self._arguments(plain, hidden, run.workflow)
            ),
            result=_of_text(run.result, hidden, lambda plain: self._named(run.workflow).shown(plain, hidden)),
            error=_of_text(run.error, hidden, lambda plain: self._error(plain, hidden)),
        )

    def _promise(self, promise: Promise) -> Promise:
        hidden = Hidden()
        is_question = promise.kind is PromiseKind.QUESTION
        asked = self.question if is_question else self.start.shown
        answered = self._answer if is_question else self.start.shown
        return _rewritten(
            promise,
            hidden,
            data=_of_text(promise.data, hidden, lambda plain: asked(plain, hidden)),
            value=_of_text(promise.value, hidden, lambda plain: answered(plain, hidden)),
            note=None if promise.note is None else hidden.masked(promise.note),
            progress=_of_text(promise.progress, hidden, hidden.masked_words),
            origin=self._origin(promise.origin, hidden),
        )

    def _schedule(self, schedule: Schedule) -> Schedule:
        hidden = Hidden()
        workflow = schedule.workflow
        shown = _of_text(schedule.arguments, hidden, lambda plain: self._arguments(plain, hidden, workflow))
        return _rewritten(schedule, hidden, arguments=shown)

    def _rule(self, rule: Rule) -> Rule:
        hidden = Hidden()
        shown = _of_text(rule.arguments, hidden, lambda plain: self._pointed(plain, hidden))
        return _rewritten(rule, hidden, arguments=shown)

    def _workflow(self, workflow: WorkflowInfo) -> WorkflowInfo:
        """Return a workflow whose parameters have no defaults and examples of what is hidden."""
        hidden = Hidden()
        shown = _of_text(
            workflow.parameters, hidden, lambda plain: without_examples(plain, self.start, hidden)
        )
        return _rewritten(workflow, hidden, parameters=shown)

    def _event(self, event: AuditEvent) -> AuditEvent:
        hidden = Hidden()

        def details(plain: Any) -> Any:
            if not isinstance(plain, dict):
                return self.start.shown(plain, hidden)
            told = dict(cast("dict[str, Any]", plain))
            for name, show in (
                ("data", self.question),
                ("value", self._answer),
                ("arguments", self._pointed),
            ):
                if told.get(name) is not None:
                    told[name] = _within(told[name], show, hidden)
            if event.kind is AuditKind.REFUSED and told.get("error") in _QUOTING:
                told["detail"] = hidden.note(None)
            if event.kind not in _KNOWN:  # a newer version has recorded it
                return self.start.shown(told, hidden)
            return hidden.masked_words(told)

        shown = _rewritten(
            event,
            hidden,
            origin=self._origin(event.origin, hidden),
            details=_of_text(event.details, hidden, details),
        )
        return event if shown is event else replace(shown, redacted=True)

    def _origin(self, origin: Origin | None, hidden: Hidden) -> Origin | None:
        """Return from where something came, without what is hidden of it, such as ``origin.address``."""
        if origin is None:
            return None
        place = self.start.under("origin")
        if place.is_hidden:
            return Origin(OriginWay(hidden.note(None)))
        return origin_of(place.shown(facts_of(origin), hidden))

    # Payloads

    def question(self, asked: Any, hidden: Hidden) -> Any:
        """Return what is asked, as in a question's JSON; its proposal and default say where something is hidden."""
        if not isinstance(asked, dict):
            return self.start.shown(asked, hidden)
        shown = dict(cast("dict[str, Any]", asked))
        for name in ("metadata", "proposal", "default"):
            if shown.get(name) is not None:
                shown[name] = self.start.shown(shown[name], hidden, None if name == "metadata" else ())
        action: dict[str, Any] | None = shown.get("action")
        if action is not None:
            shown["action"] = action | {"arguments": self.start.shown(action.get("arguments"), hidden)}
        if shown.get("options"):
            shown["options"] = [self._option(each, hidden) for each in shown["options"]]
        policy: dict[str, Any] = shown.get("policy") or {}
        if policy.get("timeout_answer") is not None:
            shown["policy"] = policy | {"timeout_answer": self._answer(policy["timeout_answer"], hidden)}
        for name in ("text", "help"):
            shown[name] = hidden.masked_in(shown.get(name))
        return {name: each for name, each in shown.items() if name in asked}

    def _option(self, option: Any, hidden: Hidden) -> Any:
        if not isinstance(option, dict):
            return option
        fields = cast("dict[str, Any]", option)
        return {
            name: each if name in _OWN_OF_OPTION else self.start.under(name).shown(each, hidden)
            for name, each in fields.items()
        }

    def _answer(self, kept: Any, hidden: Hidden) -> Any:
        """Return what settled a question; of an approval what was approved, and how that differs."""
        if not isinstance(kept, dict) or not isinstance(kept.get("approved"), bool):  # pyright: ignore[reportUnknownMemberType]
            return self.start.shown(kept, hidden)
        shown: dict[str, Any] = {}
        for name, each in cast("dict[str, Any]", kept).items():
            place = self.start.under(name)
            if name in ("proposal", "edited"):
                place = place.joined(self.start)
            if name == "approved":
                shown[name] = each
            elif name == "edits" and isinstance(each, list):
                edits = cast("list[Any]", each)
                shown[name] = [
                    self._edit(edit, hidden) if _is_edit(edit) else place.shown(edit, hidden)
                    for edit in edits
                ]
            else:
                shown[name] = place.shown(each, hidden)
        return hidden.masked_words(shown)

    def _edit(self, edit: Any, hidden: Hidden) -> Any:
        fields = cast("dict[str, Any]", edit)
        place = self.start.at(fields["path"])
        return {
            name: _shown_at(place, each, hidden) if name in ("value", "old") else each
            for name, each in fields.items()
        }

    def _pointed(self, arguments: Any, hidden: Hidden) -> Any:
        """Return what is under JSON Pointers, as a rule has its arguments."""
        if not isinstance(arguments, dict):
            return self.start.shown(arguments, hidden)
        pointed = cast("dict[str, Any]", arguments)
        return {pointer: _shown_at(self.start.at(pointer), each, hidden) for pointer, each in pointed.items()}

    def _arguments(self, envelope: Any, hidden: Hidden, workflow: str | None) -> Any:
        """Return the arguments of a call, each under its parameter's name."""
        said = cast("dict[str, Any]", envelope) if isinstance(envelope, dict) else {}
        if not isinstance(said.get("args"), list):
            return self.start.shown(envelope, hidden)
        function = None if workflow is None else self._function(workflow)
        described = None if function is None else signature(function, 1)
        args: list[Any] = []
        for n, each in enumerate(said["args"]):
            name = None if described is None else _bare(described.at(n).name)
            place = self.start.under_any() if name is None else self.start.under(name)
            args.append(place.shown(each, hidden))
        return {**said, "args": args, "kwargs": self.start.shown(said.get("kwargs", {}), hidden)}

    def _named(self, name: str | None) -> Place:
        """Return the place of a payload that has a name besides: a step's result may be one bare text."""
        return self.start if name is None else self.start.joined(self.start.under(name))

    def _signal(self, signal: Any, hidden: Hidden) -> Any:
        value = _of_text(
            signal.get("value"), hidden, lambda plain: self._named(signal.get("name")).shown(plain, hidden)
        )
        return {**signal, "value": value}

    def _error(self, error: Any, hidden: Hidden) -> Any:
        shown = self._parts_of_error(error, hidden)
        return hidden.masked_in(shown)

    def _parts_of_error(self, error: Any, hidden: Hidden) -> Any:
        if not isinstance(error, dict):
            return error
        shown = dict(cast("dict[str, Any]", error))
        for name in ("attributes", "args"):
            if name in shown:
                shown[name] = self.start.shown(shown[name], hidden)
        if shown.get("cause") is not None:
            shown["cause"] = self._parts_of_error(shown["cause"], hidden)
        if shown.get("members"):
            shown["members"] = [self._parts_of_error(each, hidden) for each in shown["members"]]
        return shown


def _shown_at(place: Place | None, value: Any, hidden: Hidden) -> Any:
    return hidden.note(value) if place is None else place.shown(value, hidden)


def _is_edit(edit: Any) -> bool:
    return isinstance(edit, dict) and isinstance(edit.get("path"), str)  # pyright: ignore[reportUnknownMemberType]


def _within(value: Any, show: Callable[[Any, Hidden], Any], hidden: Hidden) -> Any:
    """Show what the trail has as JSON, or as JSON text."""
    if not isinstance(value, str):
        return show(value, hidden)
    return _of_text(value, hidden, lambda plain: show(plain, hidden))


def _of_text(text: str | None, hidden: Hidden, show: Callable[[Any], Any]) -> str | None:
    """Return JSON text of what ``show`` makes of what a text says.

    What is no JSON, or not of the shape that it should have, is hidden whole: a worker may have written anything.
    """
    if text is None:
        return None
    try:
        plain = from_json(text)
        shown = show(plain)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return to_json(hidden.note(None)).decode()
    return text if shown is plain else to_json(shown).decode()


def _rewritten(record: T, hidden: Hidden, **parts: Any) -> T:
    return replace(cast("Any", record), **parts) if hidden.count else record


def _bare(name: str) -> str:
    return name.partition("[")[0]
