"""Proposals: values that people approve as proposed, or edit. The workflow continues with exactly what they saw."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from pydantic import BaseModel, RootModel

from signoff import codec
from signoff.errors import InvalidValue, NotSerializable
from signoff.people.questions.edits import is_same, rows_from
from signoff.people.schemas.shown_values import ABSENT, show
from signoff.people.schemas.type_fields import Slot, dataclass_slots, model_slots


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed value.

    Attributes:
        value: The value at the time of the proposal.
        shown: The JSON that people see.
        declared: Its type; with None or a JSON Schema it is plain data.
    """

    value: Any
    shown: Any
    declared: Any

    @classmethod
    def of(cls, value: Any, declared: Any) -> Proposal:
        """Return a proposal of a workflow's value.

        Args:
            value: An instance of the type, which is not validated again; or plain data, which is validated here.
            declared: The type, a JSON Schema or None.

        Raises:
            NotSerializable: JSON cannot represent all of it.
            InvalidValue: Plain data does not fit the type.
        """
        sent: Any = ABSENT
        if _is_plain(value):
            sent = json.loads(codec.encode(value, path="proposal"))
            if declared is None or isinstance(declared, dict):
                return cls(sent, sent, declared)
            value = codec.decode(codec.encode(sent), cast("object", declared), path="proposal")
        else:
            value = copy.deepcopy(value)
        plain = _in_full(value, sent, declared, "proposal")
        if declared is None or isinstance(declared, dict):
            value = plain
        return cls(value, plain, declared)

    def approved(self, plain: Any) -> Any:
        """Return the approved value, as the workflow gets it.

        Unchanged parts are taken from the proposal and not validated again. An edit is validated once.

        Args:
            plain: The approved value as JSON.

        Raises:
            InvalidValue: It fits the schema but not the type, or the type changes it.
        """
        if self.declared is None or isinstance(self.declared, dict):
            return plain
        if is_same(plain, self.shown):
            return copy.deepcopy(self.value)
        made = codec.decode(codec.encode(plain), cast("object", self.declared), path="proposal")
        again = self._shown_of(made)
        if not is_same(again, plain):
            made = self._settled(made, again, plain)
        return _kept(self.value, made, self.shown, plain)

    def _shown_of(self, value: Any) -> Any:
        return show(value, ABSENT, self.declared, bytes_as="base64").value

    def _settled(self, made: Any, again: Any, plain: Any) -> Any:
        """Undo a validator's change to an edit, if the validator would change its own result again.

        A validator that strips text leaves stripped text alone. One that converts euros to cents would convert the
        cents again; the user saw and edited cents, so cents they stay.
        """
        try:
            twice = self._made_of(again)
        except InvalidValue:
            twice = None
        return _as_approved(made, again, plain, self.shown, self._made_of(self.shown), twice, "proposal")

    def _made_of(self, plain: Any) -> Any:
        """Return the JSON of the value that the type parses from JSON."""
        made = codec.decode(codec.encode(plain), cast("object", self.declared), path="proposal")
        return self._shown_of(made)


def full_json(value: Any, path: str) -> Any:
    """Return a value as the JSON that people approve, including fields that its serializer would leave out.

    Args:
        value: The value. A model with aliases is written as its own schema describes it.
        path: Its name, for error messages.

    Raises:
        NotSerializable: JSON cannot represent all of it.
    """
    written = codec.encode(value, path=path)  # refuses secrets
    return json.loads(written) if _is_plain(value) else _in_full(value, ABSENT, None, path)


def _in_full(value: Any, sent: Any, declared: Any, path: str) -> Any:
    seen = show(value, sent, declared, bytes_as="base64")
    if seen.unseen:
        place = ".".join(map(str, (path, *seen.unseen[0])))
        raise NotSerializable(
            place, "JSON cannot represent it, and people cannot approve a value that they cannot see"
        )
    return json.loads(codec.encode(seen.value, path=path))


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(
            type(key) is str and _is_plain(part) for key, part in cast("dict[Any, Any]", value).items()
        )
    if isinstance(value, list):
        return all(map(_is_plain, cast("list[Any]", value)))
    return value is None or type(cast("object", value)) in (str, int, float, bool)


def _kept(old: Any, new: Any, shown: Any, plain: Any) -> Any:
    """Return an edited value with its unedited parts taken from the old value."""
    if is_same(shown, plain):
        return copy.deepcopy(old)
    if isinstance(cast("object", new), RootModel) and type(old) is type(new):
        return _with(new, "root", _kept(old.root, new.root, shown, plain))
    if isinstance(shown, list) and isinstance(plain, list):
        return _kept_row(old, new, cast("list[Any]", shown), cast("list[Any]", plain))
    if not isinstance(shown, Mapping) or not isinstance(plain, Mapping) or type(old) is not type(new):
        return new
    before, after = cast("Mapping[str, Any]", shown), cast("Mapping[str, Any]", plain)
    made = new
    for name, key in _names(new):
        if key in before and key in after and _has(old, name):
            made = _with(made, name, _kept(_part(old, name), _part(new, name), before[key], after[key]))
    for name in _derived(old, new, before, after):
        made = _with(made, name, _part(old, name))
    return made


def _derived(old: Any, new: Any, shown: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    """Return the fields that a dataclass computed from values that its validators had changed once more."""
    if not is_dataclass(new) or isinstance(new, type):
        return []
    again = _object(show(new, bytes_as="base64").value)
    unchanged = [key for key in plain if key in shown and is_same(plain[key], shown[key])]
    if all(is_same(again.get(key), plain[key]) for key in unchanged):
        return []
    return [each.name for each in fields(new) if not each.init and hasattr(old, each.name)]


def _kept_row(old: Any, new: Any, shown: list[Any], plain: list[Any]) -> Any:
    is_row = isinstance(cast("object", new), (list, tuple)) and type(old) is type(new)
    if not is_row or hasattr(new, "_fields"):
        return new
    first, second = cast("Sequence[Any]", old), cast("Sequence[Any]", new)
    if len(first) != len(shown) or len(second) != len(plain):
        return new
    whence = _whence(new, shown, plain)
    parts = [
        part if n is None else _kept(first[n], part, shown[n], row)
        for n, part, row in zip(whence, second, plain, strict=True)
    ]
    return parts if isinstance(cast("object", new), list) else tuple(parts)


def _whence(made: Any, shown: list[Any], plain: list[Any]) -> Sequence[int | None]:
    """Return for each row its index in the old list; None: it is new. The items of a tuple keep their positions."""
    if isinstance(made, list):
        return rows_from(shown, plain)
    return [n if n < len(shown) else None for n in range(len(plain))]


def _as_approved(made: Any, again: Any, plain: Any, shown: Any, stable: Any, twice: Any, path: str) -> Any:
    """Put back the approved value where a validator changes its own result.

    Args:
        made: The value parsed from the edit.
        again: The same as JSON.
        plain: The edit.
        shown: The proposal.
        stable: The JSON of the value parsed from ``shown``.
        twice: The JSON of the value parsed from ``again``, used for new rows, which have no proposal.
        path: Its place.
    """
    if is_same(again, plain):
        return made
    if isinstance(cast("object", made), (list, tuple)) and all(map(_is_list, (again, plain, shown, stable))):
        parts = cast("Sequence[Any]", made)
        rows = _rows_as_approved(parts, again, plain, shown, stable, twice, path)
        if rows is not None:
            return rows if isinstance(cast("object", made), list) else tuple(rows)
    if isinstance(plain, Mapping) and isinstance(again, Mapping):
        after, before = cast("Mapping[str, Any]", plain), _object(shown)
        for name, key in _names(made):
            if key not in after or not _has(made, name):
                continue
            part = _as_approved(
                _part(made, name),
                cast("Mapping[str, Any]", again).get(key),
                after[key],
                before.get(key),
                _object(stable).get(key),
                _object(twice).get(key),
                f"{path}.{key}",
            )
            made = _with(made, name, part)
        return made
    if is_same(shown, stable) or is_same(shown, plain):  # unchanged parts are taken from the proposal
        return made
    approved = cast("object", plain)
    if isinstance(approved, (str, int, float)) and type(made) is type(approved):
        return approved
    raise InvalidValue(path, f"was approved as {plain!r}, but its type changes it to {again!r}")


def _rows_as_approved(
    made: Sequence[Any],
    again: list[Any],
    plain: list[Any],
    shown: list[Any],
    stable: list[Any],
    twice: Any,
    path: str,
) -> list[Any] | None:
    """Return the rows as approved; None: the type has added or removed rows."""
    if not len(made) == len(again) == len(plain) or len(shown) != len(stable):
        return None
    more = cast("list[Any]", twice) if _is_list(twice) and len(twice) == len(again) else [None] * len(again)
    return [
        _as_approved(
            made[place],
            again[place],
            plain[place],
            again[place] if n is None else shown[n],
            more[place] if n is None else stable[n],
            more[place],
            f"{path}.{place}",
        )
        for place, n in enumerate(_whence(made, shown, plain))
    ]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _object(plain: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", plain) if isinstance(plain, Mapping) else {}


# Parts of models, dataclasses and dicts


def _names(value: Any) -> list[tuple[str, str]]:
    """Return the names of a value's parts in Python and in JSON."""
    if isinstance(cast("object", value), Mapping):
        return [(name, name) for name in cast("Mapping[str, Any]", value)]
    return [(slot.name, slot.key) for slot in _slots_of(value)]


def _slots_of(value: Any) -> Sequence[Slot]:
    """Return the fields of a model or dataclass; empty for other values."""
    if isinstance(value, BaseModel):
        return model_slots(type(value))
    if is_dataclass(value) and not isinstance(value, type):
        return dataclass_slots(cast("Any", type(value)))[0]
    return ()


def _has(value: Any, name: str) -> bool:
    return name in cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else hasattr(value, name)


def _part(value: Any, name: str) -> Any:
    return cast("Mapping[str, Any]", value)[name] if isinstance(value, Mapping) else getattr(value, name)


def _with(value: Any, name: str, part: Any) -> Any:
    """Return a value with one part replaced, without validation."""
    if isinstance(value, dict):
        return {**cast("dict[str, Any]", value), name: part}
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: part})
    made = copy.copy(value)
    object.__setattr__(made, name, part)
    return made
