"""Redaction of records: which of their parts are payloads, and how each is redacted."""

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
from signoff.records.flow_records import CLOSE_REFUSED, EVENT_UNHEARD, INTERRUPT, NOTE_FACTS
from signoff.records.origins import facts_of, origin_of
from signoff.redaction.cache import Remembered
from signoff.redaction.durable_values import shown_protocol, shown_value
from signoff.redaction.flow_facts import interrupt_in, own_facts
from signoff.redaction.hidden_values import Hidden, Pointer, marker
from signoff.redaction.paths import Place, start_of
from signoff.redaction.schemas import without_examples, without_secrets
from signoff.wire.durable_values import PROTOCOL, function_of

T = TypeVar("T")

_QUOTING: Final = frozenset({"WrongAnswer", "InvalidValue", "NotSerializable"})
"""Refusals whose message may quote an answer."""

_KNOWN: Final = frozenset(AuditKind)

_OWN_OF_OPTION: Final = frozenset({"value", "label", "help"})

_OWN_OF_QUESTION: Final = frozenset({"input_type", "digest", "policy", "options", "answer_schema"})
"""Parts of a question that are not searched, or are handled separately."""

_OWN_OF_EVENT: Final = frozenset(
    {"data", "assignees", "to", "from", "error", "digest", "rule", "link", "groups", "roles"}
)
"""Details of events that are not searched, or are handled separately."""

_WORDS: Final = frozenset({"note", "reason", "detail"})

_INPUTS_OF_ERROR: Final = ("recorded_inputs", "issued_inputs")

FindFunction = Callable[[str], Callable[..., Any] | None]
"""Returns a workflow's function by its name, or None if it is not known."""


class Redaction:
    """Redacts records that leave a server.

    Args:
        paths: Paths of hidden values in payloads, such as ``card.number``, ``*.password`` or ``$.customer['tax id']``.
        function: Finds the functions of workflows, which name the positional arguments.

    Raises:
        InvalidValue: A path is malformed.

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
        """Return a record without hidden values; the same object if it has none.

        Args:
            record: Any record. One of a kind without payloads is returned itself.
            secrets: Texts that are hidden elsewhere in its run, to be hidden here as well.
        """
        show = self._record.get(type(record))
        return record if show is None or self.is_empty else _twice(record, secrets, show)

    def _shows(self, record: object) -> Callable[[Any, Hidden], Any] | None:
        return self._record.get(type(record))

    def entry(self, entry: Entry, workflow: str | None = None, secrets: Iterable[str] = ()) -> Entry:
        """Return a journal entry without hidden values.

        Args:
            entry: The entry.
            workflow: The run's workflow, whose parameters name the arguments of a new generation.
            secrets: Texts that are hidden elsewhere in its run.
        """
        return _twice(entry, secrets, lambda each, hidden: self._entry(each, hidden, workflow))

    def secrets_in(self, record: Any, workflow: str | None = None) -> frozenset[str]:
        """Return the texts of a record that the paths hide."""
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
                return own_facts(plain, hidden)
            place = self._named(entry.name or workflow)
            return shown_value(plain, lambda each: place.shown(each, hidden), hidden)

        def details(plain: Any) -> Any:
            facts = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {}
            carried: list[dict[str, Any]] = facts.get("signals") or []
            changed: dict[str, Any] = {}
            if carried:
                changed["signals"] = [self._signal(each, hidden) for each in carried]
            if INPUTS in facts:
                changed[INPUTS] = self._inputs(facts[INPUTS], hidden, entry.name)
            return {**facts, **changed} if changed else cast("Any", plain)

        return _rewritten(
            entry,
            hidden,
            value=_of_text(entry.value, hidden, value, is_masked=is_own),
            error=_of_text(entry.error, hidden, lambda plain: self._error(plain, hidden)),
            details=_of_text(entry.details, hidden, details),
            # The name of a question is its text.
            name=entry.name if entry.name is None or is_own else hidden.masked(entry.name),
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
        asked = self.question if is_question else self._data
        answered = self._answer if is_question else self._result_of(promise)
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
        """Return a workflow without defaults and examples of hidden parameters."""
        shown = _of_text(
            workflow.parameters, hidden, lambda plain: without_examples(plain, self.start, hidden)
        )
        return _rewritten(workflow, hidden, parameters=shown)

    def _event(self, event: AuditEvent, hidden: Hidden) -> AuditEvent:
        def details(plain: Any) -> Any:
            if not isinstance(plain, dict):
                return self.start.shown(plain, hidden)
            facts = dict(cast("dict[str, Any]", plain))
            for name, show in (
                ("data", self.question),
                ("value", self._answer),
                ("arguments", self._pointed),
            ):
                if facts.get(name) is not None:
                    facts[name] = _within(facts[name], show, hidden)
            if event.kind is AuditKind.REFUSED and facts.get("error") in _QUOTING:
                facts["detail"] = hidden.note(None)
            if event.kind not in _KNOWN:  # recorded by a newer version
                return self.start.shown(facts, hidden)
            return {
                name: each if name in _OWN_OF_EVENT else hidden.masked_in(each)
                for name, each in facts.items()
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
        """Return an origin without hidden values, such as ``origin.address``."""
        if origin is None:
            return None
        place = self.start.under("origin")
        if place.is_hidden:
            return Origin(OriginWay(hidden.note(None)))
        return origin_of(place.shown(facts_of(origin), hidden))

    # Payloads

    def _data(self, data: Any, hidden: Hidden) -> Any:
        """Return the data of a promise, redacted."""
        if not isinstance(data, dict) or PROTOCOL not in data:
            return self.start.shown(data, hidden)
        fields = cast("dict[str, Any]", data)
        others = {name: each for name, each in fields.items() if name != PROTOCOL}
        return {**self.start.shown(others, hidden), PROTOCOL: self._protocol(fields[PROTOCOL], hidden)}

    def _protocol(self, known: Any, hidden: Hidden) -> Any:
        return shown_protocol(known, hidden, self.start.shown, self.question, self._arguments)

    def _result_of(self, promise: Promise) -> Callable[[Any, Hidden], Any]:
        """Return the function that redacts a promise's value. A bare value has the name of the called function."""
        place = self._named(function_of(promise.data))
        return lambda value, hidden: shown_value(value, lambda each: place.shown(each, hidden), hidden)

    def question(self, asked: Any, hidden: Hidden) -> Any:
        """Return a question's JSON data, redacted. Placeholders in its proposal and default name their place."""
        if not isinstance(asked, dict):
            return hidden.masked_in(self.start.shown(asked, hidden))
        shown = dict(cast("dict[str, Any]", asked))
        if PROTOCOL in shown:
            shown[PROTOCOL] = self._protocol(shown[PROTOCOL], hidden)
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
        about = interrupt_in(cast("dict[str, Any]", asked).get("metadata"))
        if about is not None:
            masked["metadata"] = {**masked["metadata"], INTERRUPT: own_facts(about, hidden)}
        return masked

    def _metadata(self, metadata: Any, hidden: Hidden, place: Place) -> Any:
        """Return a question's metadata, redacted. The description of a flow's interrupt is not a payload."""
        about = interrupt_in(metadata)
        if about is None:
            return place.shown(metadata, hidden)
        others = {name: metadata[name] for name in metadata if name != INTERRUPT}
        shown: Any = place.shown(others, hidden)
        return {**cast("dict[str, Any]", shown if isinstance(shown, dict) else {}), INTERRUPT: about}

    def _option(self, option: Any, hidden: Hidden, where: Pointer) -> Any:
        """Return an option, redacted. A value with a hidden text becomes a placeholder that can be chosen."""
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
        """Return the answer of a question, redacted, with the proposal and the edits of an approval."""
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
        """Return a standing approval's arguments by JSON Pointer, redacted."""
        if not isinstance(arguments, dict):
            return self.start.shown(arguments, hidden)
        pointed = cast("dict[str, Any]", arguments)
        return {pointer: _shown_at(self.start.at(pointer), each, hidden) for pointer, each in pointed.items()}

    def _arguments(self, envelope: Any, hidden: Hidden, workflow: str | None) -> Any:
        """Return the arguments of a call, redacted by their parameters' names."""
        arguments = cast("dict[str, Any]", envelope) if isinstance(envelope, dict) else {}
        if not isinstance(arguments.get("args"), list):
            return self.start.shown(envelope, hidden)
        function = None if workflow is None else self._function(workflow)
        described = None if function is None else signature(function, 1)
        args: list[Any] = []
        for n, each in enumerate(arguments["args"]):
            name = None if described is None else _bare(described.at(n).name)
            place = self.start.under_any() if name is None else self.start.under(name)
            args.append(place.shown(each, hidden))
        return {**arguments, "args": args, "kwargs": self.start.shown(arguments.get("kwargs", {}), hidden)}

    def _inputs(self, inputs: Any, hidden: Hidden, name: str | None) -> Any:
        """Return the inputs of a call, redacted. Each argument is a payload under its own name."""
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
        """Return the place of a payload with a name: a path may match the name, if the payload is a bare value."""
        return self.start if name is None else self.start.joined(self.start.under(name))

    def _signal(self, signal: Any, hidden: Hidden) -> Any:
        value = _of_text(
            signal.get("value"), hidden, lambda plain: self._named(signal.get("name")).shown(plain, hidden)
        )
        return {**signal, "value": value}

    def _error(self, error: Any, hidden: Hidden) -> Any:
        """Return an error without hidden values in its attributes and arguments, and in those of its causes."""
        if not isinstance(error, dict):
            return error
        shown = dict(cast("dict[str, Any]", error))
        if "$type" in shown:  # a cause or a member, packed as a part of the error
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
        """Return the attributes of an error with the recorded inputs of calls redacted."""
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
    """Return the shown values of options by the original ones, where they differ."""
    if before is None or shown is None:
        return {}
    options: list[tuple[dict[str, Any], dict[str, Any]]] = list(zip(before, shown, strict=True))
    pairs = [(each.get("value"), other.get("value")) for each, other in options]
    return {str(value): str(other) for value, other in pairs if value != other}


def _is_edit(edit: Any) -> bool:
    return isinstance(edit, dict) and isinstance(edit.get("path"), str)  # pyright: ignore[reportUnknownMemberType]


def _within(value: Any, show: Callable[[Any, Hidden], Any], hidden: Hidden) -> Any:
    """Redact a value of the audit trail, which is JSON data or JSON text."""
    if not isinstance(value, str):
        return show(value, hidden)
    return _of_text(value, hidden, lambda plain: show(plain, hidden))


def _of_text(
    text: str | None, hidden: Hidden, show: Callable[[Any], Any], *, is_masked: bool = False
) -> str | None:
    """Redact JSON text: by ``show``, then by the texts that are hidden elsewhere.

    Text that is malformed or of an unexpected shape is hidden as a whole, because a worker may have written anything.

    Args:
        text: The text.
        hidden: The hidden texts.
        show: Redacts the parsed data by paths.
        is_masked: Whether ``show`` itself hides texts that are hidden elsewhere.
    """
    if not text:  # missing, or left out of a list
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
    """Redact a record, twice if needed: texts that are hidden in one part are then hidden in all parts."""
    before = frozenset(secrets)
    first = Hidden(before)
    shown = show(record, first)
    return shown if first.secrets == before else show(record, Hidden(first.secrets))


def _masked_words(value: Any, hidden: Hidden) -> Any:
    """Return plain data without hidden texts in people's notes and reasons."""
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
