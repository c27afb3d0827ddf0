"""Exceptions to JSON text and back. Reading imports nothing and calls no ``__init__`` of a user's class."""

from __future__ import annotations

import contextlib
import traceback
import types
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic_core import ValidationError, from_json, to_json

from signoff.codec import error_attributes, placeholder_errors, validation_errors
from signoff.codec.error_attributes import Packer
from signoff.codec.values import MAX_BYTES
from signoff.errors import InvalidValue, StepFailed

_MOST_TEXT = 32_000
"""How many characters are kept of a traceback, and of the message of an error that is too large."""

_PARTS: Mapping[str, Any] = {"attributes": {}, "cause": None, "notes": [], "members": [], "args": []}
"""Optional parts of a record with their empty values, in the order in which they are dropped."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE

_NEEDED = ("args", "members")
"""Parts without which an error cannot be rebuilt."""

_NOT_ATTRIBUTES = ("__notes__", placeholder_errors.MESSAGE)

_LOST = (
    "not kept of this error, because it is too large or not plain data: {};"
    " read what you need inside the step, and raise an error that carries it"
)

_Key = TypeVar("_Key", int, str)
_Error = TypeVar("_Error", bound=BaseException)


class RemoteTraceback(Exception):
    """The original traceback of a rebuilt error, as text: the first cause in its chain, so that logs show it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def encode_error(error: BaseException) -> str:
    """Write an error as JSON text. This never fails: parts that cannot be written are left out.

    Args:
        error: Any exception.

    Returns:
        ``{"type": "module:qualname", "message", "args", "attributes", "members", "cause", "notes", "dropped",
        "rebuildable", "traceback"}``. ``members`` are those of an exception group; ``dropped`` names the omitted
        parts; ``rebuildable`` says whether the rest makes an error of this type with the same message.
    """
    try:
        return _fit(_record(Packer(_record), error, 0) | {"traceback": _traceback(error)})
    except Exception:  # code of the error's class failed, so none of its parts can be read
        return _fit(_outline(error))


def decode_error(text: str) -> Exception:
    """Rebuild an error from its record.

    It has its own class if the record is ``rebuildable`` and that class is an ``Exception`` in an imported module.
    Otherwise it is a ``StepFailed``, or a placeholder that the same ``except`` clauses catch.

    Args:
        text: The text from ``encode_error``.

    Returns:
        The error, not raised yet, with the original traceback as text at the start of its chain of causes.

    Raises:
        InvalidValue: The text is not such a record.
    """
    try:
        record = from_json(text)
        error = _rebuild(record)
        trace = record["traceback"]
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise InvalidValue("error", f"is not a recorded error: {problem!r}") from problem
    if trace:
        _set(_first_cause(error), "__cause__", RemoteTraceback(trace))
    return error


def round_trip_error(error: BaseException) -> tuple[str, Exception]:
    """Write an error and rebuild it, so that a run sees the same error as its replay.

    Args:
        error: Any exception.

    Returns:
        The text, and the error as every replay rebuilds it.
    """
    text = encode_error(error)
    return text, decode_error(text)


# To a record


def _outline(error: BaseException) -> dict[str, Any]:
    """Return a minimal record, which does not depend on code of the error's class."""
    return {
        "type": _type_of(error),
        "message": _message(error),
        **_PARTS,
        "dropped": list(_PARTS),
        "rebuildable": False,
        **placeholder_errors.describe(error),
        "traceback": "",
    }


def _record(packer: Packer, error: BaseException, level: int) -> dict[str, Any]:
    """Return the record of an error whose parts are ``level`` levels deep in JSON."""
    args, lost_args = _keep(packer, dict(enumerate(_arguments(error))), level)
    attributes, lost_attributes = _keep(packer, _attributes(error), level)
    for name in lost_attributes:
        with contextlib.suppress(Exception):  # it has no plain attributes
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
    # Decided once and recorded, so that every process decides alike.
    if not lost_args and not lost_members and not placeholder_errors.is_partial(type(error)):
        record["rebuildable"] = not lost_attributes or _has_same_message(error, record)
    return record


def _has_same_message(error: BaseException, record: dict[str, Any]) -> bool:
    """Whether an error still has its message without the lost attributes."""
    try:
        return _message(_assemble(type(error), record)) == record["message"]
    except Exception:  # its class cannot be rebuilt without them
        return False


def _keep(packer: Packer, items: Mapping[_Key, object], level: int) -> tuple[dict[_Key, Any], list[_Key]]:
    """Write the items that can be written, and return the keys of the others."""
    kept: dict[_Key, Any] = {}
    lost: list[_Key] = []
    for key, value in items.items():
        try:
            kept[key] = packer.pack(value, level + 2)
        except Exception:  # not data, or code of its class failed
            lost.append(key)
    return kept, lost


def _arguments(error: BaseException) -> tuple[object, ...]:
    # A group's second argument is its members, which have a part of their own.
    return (error.message,) if isinstance(error, BaseExceptionGroup) else error.args


def _members(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


def _causes(error: BaseException) -> dict[str, BaseException]:
    cause = error.__cause__
    return {} if cause is None or isinstance(cause, RemoteTraceback) else {"cause": cause}


def _attributes(error: BaseException) -> dict[str, object]:
    """Collect an error's attributes from its slots and its dict, without running code of its class."""
    found: dict[str, object] = {}
    if type(error) is ValidationError:
        with contextlib.suppress(Exception):  # the validated values may run code
            found[validation_errors.KEY] = validation_errors.describe(error)
    for name, slot in _slots(type(error)).items():
        value = _read_slot(slot, error)
        # A builtin error prints a slot that is None, but not one that was never set.
        if value is not _UNSET and (value is not None or _is_heap_type(slot.__objclass__)):
            found[name] = value
    return found | {name: value for name, value in vars(error).items() if name not in _NOT_ATTRIBUTES}


def _slots(kind: type) -> dict[str, types.MemberDescriptorType]:
    """Return the slots of a class, including those of the builtin error that it derives from."""
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
    """Write a record as text, without optional parts if it is too large."""
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
    """Drop the largest attributes until the record is smaller by ``excess`` bytes."""
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
    except Exception:  # its metaclass failed
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
    """Make the error that a record describes, with its causes and notes."""
    error = _instance(record)
    if error is None:  # not ``or``: an error may be falsy, such as one with a length of 0
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
    """Set an attribute, even if the error is a frozen dataclass."""
    object.__setattr__(error, name, value)


def _lost_attributes(record: dict[str, Any]) -> str:
    """Name the attributes that a rebuilt error lacks or has in part."""
    prefix = "attributes."
    return ", ".join(name.removeprefix(prefix) for name in record["dropped"] if name.startswith(prefix))


def _stand_in(record: dict[str, Any]) -> Exception | None:
    """Make a placeholder for an error that cannot be rebuilt here, which the same ``except`` clauses catch."""
    name = record["type"].replace(":", ".").removeprefix("builtins.")
    if record["rebuildable"] and error_attributes.find(record["type"]) is None:
        kind = placeholder_errors.find(record["type"], record.get("bases", []), record.get("found", False))
    else:
        kind = placeholder_errors.find_partial(record["type"], record.get("bases", []))
    if kind is None:
        return None
    try:
        error = _assemble(kind, record)
    except Exception:  # its bases have changed
        return None
    error.__dict__[placeholder_errors.MESSAGE] = record["message"]
    if isinstance(error, StepFailed):
        error.__dict__.update(type_name=name, message=record["message"])
    return error


def _instance(record: dict[str, Any]) -> Exception | None:
    """Make an instance of the recorded class, or return None if that is not possible here."""
    kind = error_attributes.find(record["type"])
    if not record["rebuildable"] or not isinstance(kind, type) or not issubclass(kind, Exception):
        return None
    try:
        return _assemble(kind, record)
    except Exception:  # the class has changed, or an extension forbids instances of it
        return None


def _assemble(kind: type[_Error], record: dict[str, Any]) -> _Error:
    if cast("Any", kind) is ValidationError:
        packed = record["attributes"][validation_errors.KEY]
        rebuilt = validation_errors.rebuild(error_attributes.unpack(packed, _rebuild))
        _set(rebuilt, "args", ())  # as in pydantic's errors
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
    """Return the interpreter's class that a class derives from: its ``__new__`` is safe to call."""
    while _is_heap_type(kind) and kind.__base__ is not None:
        kind = kind.__base__
    return kind


def _is_heap_type(kind: type) -> bool:
    """Whether a class was created at run time, such as by a ``class`` statement. The interpreter's classes were not."""
    return bool(kind.__flags__ & _HEAP_TYPE)


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


_BASES = (object, BaseException, BaseExceptionGroup)
_UNSET = object()
