"""Exceptions to JSON text and back. Nothing is imported, and no ``__init__`` of a user's class is called."""

from __future__ import annotations

import contextlib
import traceback
import types
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic_core import ValidationError, from_json, to_json

from signoff.codec import error_attributes, stand_in_errors, validation_errors
from signoff.codec.error_attributes import Packer
from signoff.codec.values import MAX_BYTES
from signoff.errors import InvalidValue, StepFailed

_MOST_TEXT = 32_000
"""How many characters of a traceback, or of the message of an error that is too large, are kept."""

_PARTS: Mapping[str, Any] = {"attributes": {}, "cause": None, "notes": [], "members": [], "args": []}
"""What a record can do without, the least missed first, and what it then has in its place."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

_NEEDED = ("args", "members")
"""What an error cannot be rebuilt without."""

_NOT_ATTRIBUTES = ("__notes__", stand_in_errors.MESSAGE)

_LOST = (
    "not kept of this error, because it is too large or not plain data: {};"
    " read what you need inside the step, and raise an error that carries it"
)

_Key = TypeVar("_Key", int, str)
_Error = TypeVar("_Error", bound=BaseException)


class RemoteTraceback(Exception):
    """Where a rebuilt error came from, as text: the first cause in the error's chain, for logs to show."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def encode_error(error: BaseException) -> str:
    """Write an error as JSON text. This never fails: what cannot be written is left out.

    Args:
        error: Any exception.

    Returns:
        ``{"type": "module:qualname", "message", "args", "attributes", "members", "cause", "notes", "dropped",
        "rebuildable", "traceback"}``. The ``members`` are an exception group's; ``dropped`` names what is left
        out; ``rebuildable`` says whether the rest makes an error of this type that says the same.
    """
    try:
        return _fit(_record(Packer(_record), error, 0) | {"traceback": _traceback(error)})
    except Exception:  # the error's own code failed in a place where nothing of it can be kept
        return _fit(_outline(error))


def decode_error(text: str) -> Exception:
    """Rebuild an error from its record.

    It gets its own class if the record says that it can be rebuilt, and if that class is an ``Exception`` in a
    module that is imported already. Otherwise it is a ``StepFailed``.

    Args:
        text: What ``encode_error`` wrote.

    Returns:
        The error, not raised yet, with the original traceback as text at the start of its chain of causes.

    Raises:
        InvalidValue: The text is no such record.
    """
    try:
        record = from_json(text)
        error = _rebuild(record)
        trace = record["traceback"]
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise InvalidValue("error", f"is no record of an error: {problem!r}") from problem
    if trace:
        _set(_first_cause(error), "__cause__", RemoteTraceback(trace))
    return error


def round_trip_error(error: BaseException) -> tuple[str, Exception]:
    """Write an error and rebuild it: what a run sees must be what its replay will see.

    Args:
        error: Any exception.

    Returns:
        The text, and the error as every replay rebuilds it.
    """
    text = encode_error(error)
    return text, decode_error(text)


# To a record


def _outline(error: BaseException) -> dict[str, Any]:
    """Say the least there is to say about an error, whatever its own code does."""
    return {
        "type": _type_of(error),
        "message": _message(error),
        **_PARTS,
        "dropped": list(_PARTS),
        "rebuildable": False,
        **stand_in_errors.describe(error),
        "traceback": "",
    }


def _record(packer: Packer, error: BaseException, level: int) -> dict[str, Any]:
    """Describe an error and, from ``level`` levels of JSON on, what it carries."""
    args, lost_args = _keep(packer, dict(enumerate(_arguments(error))), level)
    attributes, lost_attributes = _keep(packer, _attributes(error), level)
    for name in lost_attributes:
        with contextlib.suppress(Exception):  # nothing of it is plain
            attributes[name] = packer.pack_remains(_attributes(error)[name], level)
    members, lost_members = _keep(packer, dict(enumerate(_members(error))), level)
    causes, lost_causes = _keep(packer, _causes(error), level)
    record = _outline(error) | {
        "args": [] if lost_args else list(args.values()),
        "attributes": attributes,
        "members": [] if lost_members else list(members.values()),
        "cause": causes.get("cause"),
        "notes": [
            error_attributes.clean(note) for note in getattr(error, "__notes__", ()) if isinstance(note, str)
        ],
        "dropped": [
            *(f"args[{index}]" for index in lost_args),
            *(f"attributes.{error_attributes.clean(name)}" for name in lost_attributes),
            *(f"members[{index}]" for index in lost_members),
            *lost_causes,
        ],
    }
    # Decided here and recorded, so that no process decides it otherwise.
    if not lost_args and not lost_members and not stand_in_errors.is_partial(type(error)):
        record["rebuildable"] = not lost_attributes or _says_the_same(error, record)
    return record


def _says_the_same(error: BaseException, record: dict[str, Any]) -> bool:
    """Whether an error without some of its attributes can still say what it said."""
    try:
        return _message(_assemble(type(error), record)) == record["message"]
    except Exception:  # its class refuses to be rebuilt like this
        return False


def _keep(packer: Packer, items: Mapping[_Key, object], level: int) -> tuple[dict[_Key, Any], list[_Key]]:
    """Write what can be written, and name what can't."""
    kept: dict[_Key, Any] = {}
    lost: list[_Key] = []
    for key, value in items.items():
        try:
            kept[key] = packer.pack(value, level + 2)
        except Exception:  # no data, or its own code failed
            lost.append(key)
    return kept, lost


def _arguments(error: BaseException) -> tuple[object, ...]:
    # A group's second argument is its members, which are recorded as such.
    return (error.message,) if isinstance(error, BaseExceptionGroup) else error.args


def _members(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


def _causes(error: BaseException) -> dict[str, BaseException]:
    cause = error.__cause__
    return {} if cause is None or isinstance(cause, RemoteTraceback) else {"cause": cause}


def _attributes(error: BaseException) -> dict[str, object]:
    """Collect an error's attributes from its slots and its dict, running no code of its class."""
    found: dict[str, object] = {}
    if type(error) is ValidationError:
        with contextlib.suppress(Exception):  # what it validated has code of its own
            found[validation_errors.KEY] = validation_errors.describe(error)
    for name, slot in _slots(type(error)).items():
        value = _read_slot(slot, error)
        # To a builtin error a slot with None is not the same as one that was never set: it would print it.
        if value is not _UNSET and (value is not None or _is_heap_type(slot.__objclass__)):
            found[name] = value
    return found | {name: value for name, value in vars(error).items() if name not in _NOT_ATTRIBUTES}


def _slots(kind: type) -> dict[str, types.MemberDescriptorType]:
    """Find the slots of a class, both its own and those of the builtin error that it derives from."""
    return {
        name: slot
        for base in reversed(kind.__mro__)
        if base not in _BASES
        for name, slot in vars(base).items()
        if isinstance(slot, types.MemberDescriptorType) and (base, name) != (AttributeError, "obj")
    }


def _read_slot(slot: types.MemberDescriptorType, error: BaseException) -> object:
    try:
        return slot.__get__(error, type(error))
    except AttributeError:
        return _UNSET


def _fit(record: dict[str, Any]) -> str:
    """Write a record as text, and if it is too large without what it can do without."""
    for part, nothing in _PARTS.items():
        text = to_json(record).decode()
        excess = len(text.encode()) - MAX_BYTES
        if excess <= 0:
            return text
        if record[part] == nothing:
            continue
        if part == "attributes":
            record = _without_the_largest(record, excess)
        else:
            dropped = [*record["dropped"], part]
            rebuildable = record["rebuildable"] and part not in _NEEDED
            record = record | {part: nothing, "dropped": dropped, "rebuildable": rebuildable}
    return to_json(record | {"message": record["message"][:_MOST_TEXT]}).decode()


def _without_the_largest(record: dict[str, Any], excess: int) -> dict[str, Any]:
    """Drop as many attributes as make a record smaller by ``excess`` bytes, the largest first."""
    left = dict(record["attributes"])
    dropped = list(record["dropped"])
    sizes = {name: len(to_json({name: packed})) for name, packed in left.items()}
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if excess <= 0:
            break
        del left[name]
        dropped.append(f"attributes.{name}")
        excess -= sizes[name]
    return record | {"attributes": left, "dropped": dropped}


def _type_of(error: BaseException) -> str:
    try:
        return error_attributes.path_of(type(error))
    except Exception:  # its metaclass answers for it
        return "builtins:Exception"


def _message(error: BaseException) -> str:
    try:
        return error_attributes.clean(str(error))
    except Exception as problem:
        return f"(its __str__ raised {type(problem).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return error_attributes.clean("".join(traceback.format_exception(error)))[-_MOST_TEXT:]
    except Exception as problem:
        return f"(formatting its traceback raised {type(problem).__name__})"


# From a record


def _rebuild(record: dict[str, Any]) -> Exception:
    """Make the error that a record describes, its causes and its notes."""
    error = _instance(record)
    if error is None:  # not ``or``: its class may say that it is false, as one with a length does
        error = _stand_in(record)
    if error is None:
        name = record["type"].replace(":", ".").removeprefix("builtins.")
        error = StepFailed(name, record["message"])
    if record["cause"] is not None:
        _set(error, "__cause__", error_attributes.unpack(record["cause"], _rebuild))
    notes = list(record["notes"])
    lost = _lost_attributes(record)
    if lost and (note := _LOST.format(lost)) not in notes:
        notes.append(note)
    if notes:
        _set(error, "__notes__", notes)
    return error


def _set(error: BaseException, name: str, value: object) -> None:
    """Set an attribute, also of a frozen dataclass."""
    object.__setattr__(error, name, value)


def _lost_attributes(record: dict[str, Any]) -> str:
    """Name the attributes that a rebuilt error does not have, or has in part."""
    prefix = "attributes."
    return ", ".join(name.removeprefix(prefix) for name in record["dropped"] if name.startswith(prefix))


def _stand_in(record: dict[str, Any]) -> Exception | None:
    """Make an error in place of one whose class is not here, which the same ``except`` clauses catch."""
    name = record["type"].replace(":", ".").removeprefix("builtins.")
    if record["rebuildable"] and error_attributes.find(record["type"]) is None:
        kind = stand_in_errors.find(record["type"], record.get("bases", []), record.get("found", False))
    else:
        kind = stand_in_errors.find_partial(record["type"], record.get("bases", []))
    if kind is None:
        return None
    try:
        error = _assemble(kind, record)
    except Exception:  # its bases have changed
        return None
    error.__dict__[stand_in_errors.MESSAGE] = record["message"]
    if isinstance(error, StepFailed):
        error.__dict__.update(type_name=name, message=record["message"])
    return error


def _instance(record: dict[str, Any]) -> Exception | None:
    """Make an instance of the recorded class, if that can be done here."""
    kind = error_attributes.find(record["type"])
    if not record["rebuildable"] or not isinstance(kind, type) or not issubclass(kind, Exception):
        return None
    try:
        return _assemble(kind, record)
    except Exception:  # the class has changed, or is of an extension that lets nobody make instances
        return None


def _assemble(kind: type[_Error], record: dict[str, Any]) -> _Error:
    if cast("Any", kind) is ValidationError:
        packed = record["attributes"][validation_errors.KEY]
        rebuilt = validation_errors.rebuild(error_attributes.unpack(packed, _rebuild))
        _set(rebuilt, "args", ())  # as pydantic's own have none
        return cast("_Error", rebuilt)
    args = tuple(error_attributes.unpack(each, _rebuild) for each in record["args"])
    native: Any = _native(kind)
    if issubclass(kind, BaseExceptionGroup):
        error = native.__new__(
            kind, *args, [error_attributes.unpack(each, _rebuild) for each in record["members"]]
        )
    else:
        error = native.__new__(kind)
        _set(error, "args", args)
    slots = _slots(cast(type, kind))
    for name, packed in record["attributes"].items():
        value = error_attributes.unpack(packed, _rebuild)
        if name in slots:
            slots[name].__set__(error, value)
        else:
            error.__dict__[name] = value
    return error


def _native(kind: type) -> type:
    """Find the interpreter's own class that a class derives from: its ``__new__`` is known to be safe."""
    while _is_heap_type(kind) and kind.__base__ is not None:
        kind = kind.__base__
    return kind


def _is_heap_type(kind: type) -> bool:
    """Whether a class was made by a ``class`` statement or the like: not one of the interpreter's own."""
    return bool(kind.__flags__ & _HEAP_TYPE)


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


_BASES = (object, BaseException, BaseExceptionGroup)
_UNSET = object()
