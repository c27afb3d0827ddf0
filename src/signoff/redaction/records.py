"""Which parts of records are payloads, and the records without what is hidden of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from pydantic_core import from_json, to_json

from signoff.codec.signatures import signature
from signoff.codec.strict_json import UNDECRYPTED
from signoff.engine.run.call_inputs import KEY as INPUTS
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
from signoff.records.flow_records import CLOSE_REFUSED, EVENT_UNHEARD, INTERRUPT, INTERRUPT_FACTS, NOTE_FACTS
from signoff.records.origins import facts_of, origin_of
from signoff.redaction.cache import Remembered
from signoff.redaction.hidden_values import Hidden, Pointer, marker
from signoff.redaction.paths import Place, start_of
from signoff.redaction.schemas import without_examples, without_secrets

T = TypeVar("T")

_QUOTING: Final = frozenset({"WrongAnswer", "InvalidValue", "NotSerializable"})
"""Refusals whose words may quote an answer."""

_KNOWN: Final = frozenset(AuditKind)

_OWN_OF_OPTION: Final = frozenset({"value", "label", "help"})

_OWN_OF_QUESTION: Final = frozenset({"input_type", "digest", "policy", "options", "answer_schema"})
"""Parts of a question in which nothing is looked for, or not as in the others."""

_OWN_OF_EVENT: Final = frozenset(
    {"data", "assignees", "to", "from", "error", "digest", "rule", "link", "groups", "roles"}
)
"""Details of events in which nothing is looked for, or not as in the others."""

_WORDS: Final = frozenset({"note", "reason", "detail"})

_INPUTS_OF_ERROR: Final = ("recorded_inputs", "issued_inputs")

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
        self.remembered = Remembered()
        self._function = function
        self._record: Mapping[type, Callable[[Any, Hidden], Any]] = {
            Run: self._run,
            Promise: self._promise,
            Entry: self._entry,
            AuditEvent: self._event,
            Schedule: self._schedule,
            Rule: self._rule,
            WorkflowInfo: self._workflow,
        }

    @property
    def is_empty(self) -> bool:
        """Whether it hides nothing."""
        return self.start.is_empty

    def shown(self, record: T, secrets: Iterable[str] = ()) -> T:
        """Return a record without what is hidden; the very record if it has nothing of it.

        Args:
            record: Any record; of a kind without payloads it is returned as it is.
            secrets: What is hidden elsewhere in its run, so that it is hidden here, too.
        """
        show = self._record.get(type(record))
        return record if show is None or self.is_empty else _twice(record, secrets, show)

    def _shows(self, record: object) -> Callable[[Any, Hidden], Any] | None:
        return self._record.get(type(record))

    def entry(self, entry: Entry, workflow: str | None = None, secrets: Iterable[str] = ()) -> Entry:
        """Return a journal entry without what is hidden.

        Args:
            entry: The entry.
            workflow: Of which workflow it is: its arguments may begin a new generation.
            secrets: What is hidden elsewhere in its run.
        """
        return _twice(entry, secrets, lambda each, hidden: self._entry(each, hidden, workflow))

    def secrets_in(self, record: Any, workflow: str | None = None) -> frozenset[str]:
        """Return the texts that are hidden of a record by its paths."""
        hidden, show = Hidden(), self._shows(record)
        if isinstance(record, Entry):
            self._entry(record, hidden, workflow)
        elif show is not None:
            show(record, hidden)
        return hidden.secrets

    # Records

    def _entry(self, entry: Entry, hidden: Hidden, workflow: str | None = None) -> Entry:
        is_own = entry.kind is EntryKind.PROGRESSED and entry.name in (CLOSE_REFUSED, EVENT_UNHEARD)

        def value(plain: Any) -> Any:
            if entry.kind is EntryKind.OPENED and entry.call in (CallKind.QUESTION, CallKind.STEP):
                return self.question(plain, hidden)
            if entry.kind is EntryKind.OPENED and entry.call is CallKind.CHILD:
                return self._arguments(plain, hidden, entry.name)
            if entry.kind in (EntryKind.STARTED, EntryKind.CONTINUED):
                return self._arguments(plain, hidden, workflow)
            if entry.call is CallKind.QUESTION:
                return self._answer(plain, hidden)
            if is_own and isinstance(plain, dict) and cast("dict[str, Any]", plain).keys() <= NOTE_FACTS:
                return _own(plain, hidden)
            return self._named(entry.name or workflow).shown(plain, hidden)

        def details(plain: Any) -> Any:
            told = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {}
            carried: list[dict[str, Any]] = told.get("signals") or []
            changed: dict[str, Any] = {}
            if carried:
                changed["signals"] = [self._signal(each, hidden) for each in carried]
            if INPUTS in told:
                changed[INPUTS] = self._inputs(told[INPUTS], hidden, entry.name)
            return {**told, **changed} if changed else cast("Any", plain)

        return _rewritten(
            entry,
            hidden,
            value=_of_text(entry.value, hidden, value, is_masked=is_own),
            error=_of_text(entry.error, hidden, lambda plain: self._error(plain, hidden)),
            details=_of_text(entry.details, hidden, details),
            name=entry.name
            if entry.name is None or is_own
            else hidden.masked(entry.name),  # of a question its text
        )

    def _run(self, run: Run, hidden: Hidden) -> Run:
        return _rewritten(
            run,
            hidden,
            arguments=_of_text(
                run.arguments, hidden, lambda plain: self._arguments(plain, hidden, run.workflow)
            ),
            result=_of_text(run.result, hidden, lambda plain: self._named(run.workflow).shown(plain, hidden)),
            error=_of_text(run.error, hidden, lambda plain: self._error(plain, hidden)),
            suspended_reason=None if run.suspended_reason is None else hidden.masked(run.suspended_reason),
            concurrency_key=None if run.concurrency_key is None else hidden.masked(run.concurrency_key),
        )

    def _promise(self, promise: Promise, hidden: Hidden) -> Promise:
        is_question = promise.kind is PromiseKind.QUESTION
        asked = self.question if is_question else self.start.shown
        answered = self._answer if is_question else self.start.shown
        return _rewritten(
            promise,
            hidden,
            data=_of_text(promise.data, hidden, lambda plain: asked(plain, hidden), is_masked=is_question),
            value=_of_text(promise.value, hidden, lambda plain: answered(plain, hidden)),
            note=None if promise.note is None else hidden.masked(promise.note),
            progress=_of_text(
                promise.progress, hidden, lambda plain: _masked_words(plain, hidden), is_masked=True
            ),
            origin=self._origin(promise.origin, hidden),
        )

    def _schedule(self, schedule: Schedule, hidden: Hidden) -> Schedule:
        workflow = schedule.workflow
        shown = _of_text(schedule.arguments, hidden, lambda plain: self._arguments(plain, hidden, workflow))
        return _rewritten(schedule, hidden, arguments=shown)

    def _rule(self, rule: Rule, hidden: Hidden) -> Rule:
        shown = _of_text(rule.arguments, hidden, lambda plain: self._pointed(plain, hidden))
        return _rewritten(rule, hidden, arguments=shown)

    def _workflow(self, workflow: WorkflowInfo, hidden: Hidden) -> WorkflowInfo:
        """Return a workflow whose parameters have no defaults and examples of what is hidden."""
        shown = _of_text(
            workflow.parameters, hidden, lambda plain: without_examples(plain, self.start, hidden)
        )
        return _rewritten(workflow, hidden, parameters=shown)

    def _event(self, event: AuditEvent, hidden: Hidden) -> AuditEvent:
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
            return {
                name: each if name in _OWN_OF_EVENT else hidden.masked_in(each) for name, each in told.items()
            }

        is_masked = event.kind in _KNOWN
        shown = _rewritten(
            event,
            hidden,
            origin=self._origin(event.origin, hidden),
            details=_of_text(event.details, hidden, details, is_masked=is_masked),
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
            return hidden.masked_in(self.start.shown(asked, hidden))
        shown = dict(cast("dict[str, Any]", asked))
        if shown.get("metadata") is not None:
            shown["metadata"] = self._metadata(shown["metadata"], hidden, self.start)
        for name in ("proposal", "default"):
            if shown.get(name) is not None:
                shown[name] = self.start.shown(shown[name], hidden, ())
        action: dict[str, Any] | None = shown.get("action")
        if action is not None:
            shown["action"] = action | {"arguments": self.start.shown(action.get("arguments"), hidden)}
        if shown.get("options"):
            shown["options"] = [
                self._option(each, hidden, ("options", n)) for n, each in enumerate(shown["options"])
            ]
        policy: dict[str, Any] = shown.get("policy") or {}
        if policy.get("timeout_answer") is not None:
            answer = hidden.masked_in(self._answer(policy["timeout_answer"], hidden))
            shown["policy"] = policy | {"timeout_answer": answer}
        if shown.get("answer_schema") is not None:
            choices = choices_of(shown.get("options") and asked["options"], shown.get("options"))
            shown["answer_schema"] = without_secrets(shown["answer_schema"], hidden, choices)
        masked = {
            name: each if name in _OWN_OF_QUESTION else hidden.masked_in(each)
            for name, each in shown.items()
            if name in asked
        }
        about = _about(cast("dict[str, Any]", asked).get("metadata"))
        if about is not None:
            masked["metadata"] = {**masked["metadata"], INTERRUPT: _own(about, hidden)}
        return masked

    def _metadata(self, metadata: Any, hidden: Hidden, place: Place) -> Any:
        """Return what is shown of a question's metadata; which interrupt of a flow it is, is no payload."""
        about = _about(metadata)
        if about is None:
            return place.shown(metadata, hidden)
        said = {name: metadata[name] for name in metadata if name != INTERRUPT}
        shown: Any = place.shown(said, hidden)
        return {**cast("dict[str, Any]", shown if isinstance(shown, dict) else {}), INTERRUPT: about}

    def _option(self, option: Any, hidden: Hidden, where: Pointer) -> Any:
        """Return an option; a value with something hidden is replaced by a placeholder that can be chosen."""
        if not isinstance(option, dict):
            return option
        shown: dict[str, Any] = {}
        for name, each in cast("dict[str, Any]", option).items():
            if name == "value":
                is_shown = not isinstance(each, str) or hidden.masked(each) == each
                shown[name] = each if is_shown else hidden.placed(marker((*where, name)))
            elif name in _OWN_OF_OPTION:
                shown[name] = hidden.masked_in(each)
            else:
                shown[name] = hidden.masked_in(self.start.under(name).shown(each, hidden))
        return shown

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
        return shown

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

    def _inputs(self, inputs: Any, hidden: Hidden, name: str | None) -> Any:
        """Return what a call was called with; each argument is a payload of its own name."""
        if not isinstance(inputs, dict):
            return inputs
        shown: dict[str, Any] = {}
        for part, each in cast("dict[str, Any]", inputs).items():
            if part == "arguments":
                shown[part] = self._arguments(each, hidden, name)
            elif part == "data":
                shown[part] = self.start.shown(each, hidden)
            elif part == "metadata":
                shown[part] = self._metadata(each, hidden, self._named(part))
            else:
                shown[part] = self._named(part).shown(each, hidden)
        asked = self.question(shown, hidden)
        return hidden.masked_in(asked)

    def _named(self, name: str | None) -> Place:
        """Return the place of a payload that has a name besides: a step's result may be one bare text."""
        return self.start if name is None else self.start.joined(self.start.under(name))

    def _signal(self, signal: Any, hidden: Hidden) -> Any:
        value = _of_text(
            signal.get("value"), hidden, lambda plain: self._named(signal.get("name")).shown(plain, hidden)
        )
        return {**signal, "value": value}

    def _error(self, error: Any, hidden: Hidden) -> Any:
        """Return an error without what is hidden of its attributes and arguments, and of those of its causes."""
        if not isinstance(error, dict):
            return error
        shown = dict(cast("dict[str, Any]", error))
        if "$type" in shown:  # a cause or a member: it is packed as a part of the error
            return {**shown, "value": self._error(shown.get("value"), hidden)}
        for name in ("attributes", "args"):
            if name in shown:
                shown[name] = self.start.shown(self._with_inputs(shown[name], hidden), hidden)
        if shown.get("cause") is not None:
            shown["cause"] = self._error(shown["cause"], hidden)
        if shown.get("members"):
            shown["members"] = [self._error(each, hidden) for each in shown["members"]]
        return shown

    def _with_inputs(self, attributes: Any, hidden: Hidden) -> Any:
        """Return the attributes of an error, with what calls were called with as it is shown."""
        if not isinstance(attributes, dict):
            return attributes
        fields = cast("dict[str, Any]", attributes)
        found = {
            name: self._inputs(fields[name], hidden, None) for name in _INPUTS_OF_ERROR if fields.get(name)
        }
        return {**fields, **found} if found else fields


def _shown_at(place: Place | None, value: Any, hidden: Hidden) -> Any:
    return hidden.note(value) if place is None else place.shown(value, hidden)


def choices_of(before: Any, shown: Any) -> dict[str, str]:
    """Return how the values of options are shown, of those that are not shown as they are."""
    if before is None or shown is None:
        return {}
    options: list[tuple[dict[str, Any], dict[str, Any]]] = list(zip(before, shown, strict=True))
    pairs = [(each.get("value"), other.get("value")) for each, other in options]
    return {str(value): str(other) for value, other in pairs if value != other}


def _is_edit(edit: Any) -> bool:
    return isinstance(edit, dict) and isinstance(edit.get("path"), str)  # pyright: ignore[reportUnknownMemberType]


def _within(value: Any, show: Callable[[Any, Hidden], Any], hidden: Hidden) -> Any:
    """Show what the trail has as JSON, or as JSON text."""
    if not isinstance(value, str):
        return show(value, hidden)
    return _of_text(value, hidden, lambda plain: show(plain, hidden))


def _of_text(
    text: str | None, hidden: Hidden, show: Callable[[Any], Any], *, is_masked: bool = False
) -> str | None:
    """Return JSON text of what ``show`` makes of what a text says, without what is hidden elsewhere.

    What is not valid JSON, or not of the shape that it should have, is hidden whole: a worker may have written
    anything.

    Args:
        text: The text.
        hidden: What is hidden.
        show: Hides what the paths say.
        is_masked: Whether ``show`` looks for what is hidden elsewhere, too.
    """
    if not text:  # it is not there, or left out of a list
        return text
    if text.startswith(UNDECRYPTED):
        return text
    try:
        plain = from_json(text)
        shown = show(plain)
        if not is_masked and (shown is not plain or hidden.is_in(text)):
            shown = hidden.masked_in(shown)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return to_json(hidden.note(None)).decode()
    return text if shown is plain else to_json(shown).decode()


def _twice(record: T, secrets: Iterable[str], show: Callable[[T, Hidden], T]) -> T:
    """Return a record without what is hidden: what one of its parts hides is looked for in all of them."""
    before = frozenset(secrets)
    first = Hidden(before)
    shown = show(record, first)
    return shown if first.secrets == before else show(record, Hidden(first.secrets))


def _masked_words(value: Any, hidden: Hidden) -> Any:
    """Return plain data in which the words that people add are without what is hidden."""
    if isinstance(value, list):
        return [_masked_words(each, hidden) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {
        name: hidden.masked_in(each) if name in _WORDS else _masked_words(each, hidden)
        for name, each in fields.items()
    }


def _rewritten(record: T, hidden: Hidden, **parts: Any) -> T:
    return replace(cast("Any", record), **parts) if hidden.count else record


def _bare(name: str) -> str:
    return name.partition("[")[0]


def _about(metadata: Any) -> dict[str, Any] | None:
    """Return what a question's metadata says of the interrupt of a flow that it is; None if it is of something else."""
    about = cast("dict[str, Any]", metadata).get(INTERRUPT) if isinstance(metadata, dict) else None
    if not isinstance(about, dict):
        return None
    facts = cast("dict[str, Any]", about)
    return facts if facts.keys() <= INTERRUPT_FACTS else None


def _own(said: Any, hidden: Hidden) -> Any:
    """Return what a flow says of itself; of ids, which chunks may make of payloads, those without hidden texts."""
    if not isinstance(said, dict):
        return hidden.masked_in(said)
    own = dict(cast("dict[str, Any]", said))
    if own.get("id") is not None and hidden.masked(own["id"]) != own["id"]:
        own["id"] = None  # it has that of its question then
    for name in ("interrupts", "event"):
        if name in own:
            own[name] = hidden.masked_in(own[name])
    return own
