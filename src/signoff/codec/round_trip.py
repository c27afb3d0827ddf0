"""Compares a value with the one read from its text.

Plain data that is passed for a declared type (a string for a date, a dict for a model) may come back as an instance of
that type. Any other value must come back with the same type and equal parts.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel, RootModel

from signoff.codec import scalars, time_zones
from signoff.codec.set_order import kind_of
from signoff.codec.unstorable_values import Unfit, name_of


@dataclass(slots=True)
class Comparison:
    """Compares a value with the one read from its text.

    Attributes:
        is_ambiguous: Whether the declared type has a union whose members look the same in JSON.
        is_open: Whether a part of the declared type is undeclared, so that it comes back as plain data.
        converted: Whether plain data came back as a declared type.
        undeclared: The name of the first type that came back as plain data; None if none did.
    """

    is_ambiguous: bool = False
    is_open: bool = False
    converted: bool = False
    undeclared: str | None = None

    def compare(self, value: Any, again: Any, *, inside: bool = False) -> None:
        """Compare one value.

        Args:
            value: The original value.
            again: The value that came back.
            inside: Whether it is a part of an instance, all parts of which already have their declared types.

        Raises:
            Unfit: It came back changed.
        """
        kind = kind_of(value)
        if kind is not kind_of(again):
            self._convert(value, again, inside)
        elif kind not in scalars.EXACT:
            _comparer(kind)(self, value, again)
        elif value != again:
            self._change(value, again, inside)

    def _change(self, value: Any, again: Any, inside: bool) -> None:
        if self.is_ambiguous:
            raise Unfit(f"{_CHANGED}{_advice(value, again, True)}")
        if inside:
            raise Unfit(_CHANGED_BY_CODE)
        self.converted = True

    def _convert(self, value: Any, again: Any, inside: bool) -> None:
        """Accept a value that came back as another type, if nothing is lost."""
        kind, other = kind_of(value), kind_of(again)
        if (kind is int and other is float) or (kind is float and other is int):
            if value == again and not self.is_ambiguous:
                return None
        elif kind in _SEQUENCES and other in _SEQUENCES and not self.is_ambiguous:
            if self.is_open and kind is deque:
                raise Unfit(_undeclared(kind, other))
            if self.is_open:
                self.undeclared = self.undeclared or name_of(kind)
            return self.compare_items(value, again)
        elif _are_generic_twins(kind, other):
            return _compare_models(self, value, again)
        elif self.is_open and not self.is_ambiguous and other in _PLAIN and kind not in _PLAIN:
            if not value == again:  # only equality is defined for every type
                raise Unfit(_undeclared(kind, other))
            self.undeclared = self.undeclared or name_of(kind)
            return None
        elif not inside and self._stands_for(value, again):
            self.converted = True
            return None
        raise Unfit(
            f"{_name(kind, other)} would come back as {_name(other, kind)}"
            + _advice(value, again, self.is_ambiguous)
        )

    def _stands_for(self, value: Any, again: Any) -> bool:
        """Whether a value is plain data that came back as an instance of the declared type."""
        kind, other = kind_of(value), kind_of(again)
        if kind is dict:
            self._compare_parts(value, again)
            return True
        if self.is_ambiguous or kind is bool or kind not in _PLAIN:
            return kind in _CONTAINERS and other in _CONTAINERS and self._are_equal_sets(value, again)
        if kind is list:
            items: Any = cast("RootModel[Any]", again).root if isinstance(again, RootModel) else again
            if isinstance(items, list | tuple):
                self.compare_items(value, items)
                return True
            return other in _CONTAINERS and self._are_equal_sets(value, again)
        return other not in _PLAIN

    def _are_equal_sets(self, value: Any, again: Any) -> bool:
        """Whether a set and another container have the same items."""
        if self.is_ambiguous or len(value) != len(again):
            return False
        if isinstance(value, list | tuple | deque):
            plain = [item for item in cast("Iterable[Any]", value) if type(item) not in _PLAIN]
            return not plain or set(cast("Iterable[Any]", value)) == again
        return {*value} == {*again}

    def _compare_parts(self, value: dict[Any, Any], again: Any) -> None:
        """Compare the instances in a dict that was passed for a model or a mapping."""
        for key, item in value.items():
            if type(item) in _PLAIN_SCALARS:
                continue
            if isinstance(again, Mapping):
                part = cast("Mapping[Any, Any]", again).get(key, _MISSING)
            else:
                part = getattr(again, key, _MISSING) if type(key) is str else _MISSING
            if part is not _MISSING:
                self._compare_at(key, value, item, part)
            elif type(item) not in _PLAIN and not isinstance(again, BaseModel):
                raise Unfit("would be lost: its declared type has no such field").at(key, value)

    def compare_items(self, value: Any, again: Any) -> None:
        """Compare two sequences."""
        if len(value) != len(again):
            raise Unfit(f"{len(value)} items would come back as {len(again)}")
        if _are_exactly(value, again):
            return
        exact = scalars.EXACT
        for index, (item, twin) in enumerate(zip(value, again, strict=True)):
            if type(item) is not type(twin) or type(item) not in exact or item != twin:
                self._compare_at(index, value, item, twin)

    def compare_mapping(self, value: dict[Any, Any], again: dict[Any, Any]) -> None:
        """Compare two dicts."""
        if len(value) != len(again):
            self._compare_keys(value, again)
        exact = scalars.EXACT
        for key, item in value.items():
            twin = again.get(key, _MISSING)
            if twin is _MISSING:
                self._compare_keys(value, again)
                return
            if type(item) is not type(twin) or type(item) not in exact or item != twin:
                self._compare_at(key, value, item, twin)
        self._compare_key_types(value, again)

    def _compare_key_types(self, value: dict[Any, Any], again: dict[Any, Any]) -> None:
        for key, twin in zip(value, again, strict=True):
            if type(key) is not type(twin) or type(key) not in scalars.EXACT:
                if key != twin:
                    continue  # in another order
                self._compare_at(key, value, key, twin)

    def _compare_keys(self, value: dict[Any, Any], again: dict[Any, Any]) -> None:
        """Explain keys that did not come back."""
        changed = [key for key in value if key not in again]
        if (
            self.is_open
            and not self.is_ambiguous
            and len(value) == len(again)
            and all(type(key) is str for key in again)
        ):
            kind = name_of(cast("type[Any]", type(changed[0])))
            reason = "the key would come back as text, because nothing declares the type of keys"
            raise Unfit(f"{reason}; declare dict[{kind}, ...], or use text as keys").at(changed[0], value)
        if (
            not self.is_ambiguous
            and len(value) == len(again)
            and all(type(key) in _PLAIN_SCALARS for key in changed)
        ):
            self.converted = True  # such as {"2024-05-06": ...} for a dict with dates as keys
            return
        if not changed:
            raise Unfit(f"would come back with more keys: {[key for key in again if key not in value]}")
        key = changed[0]
        if len(value) == len(again):
            reason = "the key would come back as another one" + _advice(key, again, self.is_ambiguous)
        else:
            reason = "would be lost: its declared type has no such key"
        raise Unfit(reason).at(key, value)

    def compare_fields(self, names: Iterable[str], value: Any, again: Any) -> None:
        """Compare attributes of two instances of one class."""
        for name in names:
            item, twin = getattr(value, name, _MISSING), getattr(again, name, _MISSING)
            if item is not twin:
                self._compare_at(name, value, item, twin, inside=True)

    def _compare_at(self, key: Any, container: Any, item: Any, twin: Any, *, inside: bool = False) -> None:
        try:
            self.compare(item, twin, inside=inside)
        except Unfit as unfit:
            raise unfit.at(key, container) from None


def _are_exactly(items: Any, twins: Any) -> bool:
    """Whether all items are of exact JSON types and came back equal. A fast path for long lists."""
    return (
        scalars.EXACT.issuperset(map(type, items))
        and all(map(operator.is_, map(type, items), map(type, twins)))
        and all(map(operator.eq, items, twins))
    )


_Comparer = Callable[[Comparison, Any, Any], None]


@functools.lru_cache(maxsize=2048)
def _comparer(kind: Any) -> _Comparer:
    if issubclass(kind, RootModel):
        return lambda comparison, value, again: comparison.compare_fields(("root",), value, again)
    if issubclass(kind, BaseModel):
        return _compare_models
    if is_dataclass(kind):
        return functools.partial(_compare_dataclasses, tuple(field.name for field in fields(kind)))
    return next((compare for bases, compare in _COMPARERS if issubclass(kind, bases)), _compare_others)


def _compare_models(comparison: Comparison, value: Any, again: Any) -> None:
    kind = cast("type[BaseModel]", type(value))
    written, excluded = _written_fields(kind)
    comparison.compare_fields(written, value, again)
    if excluded:
        _compare_attributes(comparison, excluded, value, again)
    _compare_attributes(comparison, kind.__private_attributes__, value, again)
    if value.__pydantic_extra__ or again.__pydantic_extra__:
        comparison.compare(value.__pydantic_extra__, again.__pydantic_extra__, inside=True)


@functools.lru_cache(maxsize=2048)
def _written_fields(kind: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of a model's fields: the written ones, and the excluded ones."""
    excluded = [name for name, field in kind.model_fields.items() if field.exclude]
    return [name for name in kind.model_fields if name not in excluded], excluded


def _compare_dataclasses(names: tuple[str, ...], comparison: Comparison, value: Any, again: Any) -> None:
    kind = cast(Any, type(value))
    declared = {field.name: field for field in fields(kind)}
    comparison.compare_fields([name for name in names if declared[name].init], value, again)
    made = [name for name in names if not declared[name].init]
    extra = [
        name for name in getattr(value, "__dict__", ()) if name not in declared and not _is_cached(kind, name)
    ]
    if made or extra:
        _compare_attributes(comparison, [*made, *extra], value, again)


def _compare_attributes(comparison: Comparison, names: Iterable[str], value: Any, again: Any) -> None:
    """Compare attributes that are not written. Objects other than data, such as a lock, may differ."""
    for name in names:
        item, twin = getattr(value, name, _MISSING), getattr(again, name, _MISSING)
        if item is twin or (type(item) is type(twin) and not _is_data(item)):
            continue
        try:
            comparison.compare(item, twin, inside=True)
        except Unfit as unfit:
            reason = "is not a field that is written, and would come back as another value"
            advice = "make it one, or set it in the step that needs it"
            raise Unfit(f"{reason}; {advice}").at(name, value) from unfit


def _is_data(value: object) -> bool:
    kind = type(value)
    return (
        kind in scalars.EXACT
        or scalars.converter(kind) is not None
        or isinstance(value, dict | list | tuple | set | frozenset | deque | BaseModel)
        or is_dataclass(value)
    )


def _is_cached(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), functools.cached_property)


def _compare_sequences(comparison: Comparison, value: Any, again: Any) -> None:
    comparison.compare_items(value, again)
    if getattr(value, "maxlen", None) != getattr(again, "maxlen", None):
        raise Unfit(f"is a deque whose maxlen of {value.maxlen} does not come back; declare a list")


def _compare_mappings(comparison: Comparison, value: Any, again: Any) -> None:
    comparison.compare_mapping(value, again)
    if getattr(value, "default_factory", None) is not getattr(again, "default_factory", None):
        raise Unfit("is a defaultdict whose default does not come back; return dict(...) of it")


def _compare_sets(comparison: Comparison, value: Any, again: Any) -> None:
    twins = {item: item for item in again}
    if len(twins) != len(value):
        raise Unfit(f"{len(value)} items would come back as {len(twins)}")
    for item in value:
        if item not in twins:
            if type(item) not in _PLAIN:
                _compare_unlike(comparison, item, again)
                return
            comparison.converted = True
        elif type(item) not in scalars.EXACT or type(item) is not type(twins[item]):
            comparison.compare(item, twins[item])


def _compare_unlike(comparison: Comparison, item: Any, again: Any) -> None:
    kind = cast("type[Any]", type(item))
    if comparison.is_open:
        raise Unfit(f"has a {name_of(kind)} that would come back changed, because nothing declares its type")
    other = next((each for each in again if type(each) is not type(item)), None)
    if other is None:
        raise Unfit(f"has a {name_of(kind)} that would come back changed; declare a list")
    comparison.compare(item, other, inside=True)


def _compare_floats(_: Comparison, value: float, again: float) -> None:
    if value != again and not (math.isnan(value) and math.isnan(again)):
        raise Unfit(_CHANGED)
    if math.copysign(1, value) != math.copysign(1, again) and not math.isnan(value):
        raise Unfit(_CHANGED)


def _compare_decimals(_: Comparison, value: Decimal, again: Decimal) -> None:
    if str(value) != str(again):
        raise Unfit(f"{_CHANGED}, as {again}")


def _compare_times(_: Comparison, value: Any, again: Any) -> None:
    if value != again:
        raise Unfit(f"{_CHANGED}, as {again}")
    if not time_zones.same_zone(value, again):
        raise Unfit(f"is in the time zone {value.tzinfo}, which would not come back here; convert it to UTC")


def _compare_scalars(_: Comparison, value: Any, again: Any) -> None:
    if value != again:
        raise Unfit(_CHANGED)


def _compare_others(_: Comparison, value: Any, again: Any) -> None:
    if value == again or type(value).__eq__ is object.__eq__:
        return
    raise Unfit(_CHANGED)


def _are_generic_twins(kind: Any, other: Any) -> bool:
    """Whether both are the same generic model, with and without its parameters."""
    return (
        issubclass(kind, BaseModel)
        and issubclass(other, BaseModel)
        and (issubclass(kind, other) or issubclass(other, kind))
        and kind.__module__ == other.__module__
        and kind.__qualname__.partition("[")[0] == other.__qualname__.partition("[")[0]
    )


def _name(kind: type, other: type) -> str:
    name = name_of(kind) if kind.__name__ == other.__name__ else kind.__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _undeclared(kind: Any, other: type) -> str:
    """Return the reason and the advice for a value without a declared type."""
    instead = next((text for kinds, text in _INSTEAD if issubclass(kind, kinds)), "plain JSON data")
    if is_dataclass(cast("object", kind)):
        has_plain = callable(getattr(kind, "plain", None))  # as an Answer has
        instead = "its plain()" if has_plain else "dataclasses.asdict(...) of it, if that is plain JSON data"
    return (
        f"{_name(kind, other)} would come back as {_name(other, kind)}, because nothing declares its type; "
        f"declare it (an annotation, or returns=), or pass {instead}"
    )


def _advice(value: Any, again: Any, is_ambiguous: bool) -> str:
    kind, other = cast("type[Any]", type(value)), cast("type[Any]", type(again))
    if is_ambiguous and not (issubclass(kind, other) and kind not in _PLAIN):
        return ", as members of its declared union look the same in JSON; declare one type, or tag them"
    if kind is bool:
        return "; declare bool"
    if kind.__qualname__ == other.__qualname__:
        return ""
    if issubclass(kind, other) and (issubclass(kind, BaseModel) or is_dataclass(kind)):
        lost = [name for name in _fields_of(kind) if name not in _fields_of(other)]
        without = f" without {', '.join(lost)}" if lost else ""
        return f"{without}; declare {kind.__name__}, or a union of the classes that a field tells apart"
    if issubclass(kind, Enum):
        return f"; declare {kind.__name__}, or pass its value"
    if issubclass(kind, other):
        return f"; declare {kind.__name__}, or pass a plain {other.__name__}"
    return f"; declare {kind.__name__}"


def _fields_of(kind: Any) -> Iterable[str]:
    return kind.model_fields if issubclass(kind, BaseModel) else [field.name for field in fields(kind)]


_INSTEAD: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (BaseModel, "its model_dump(mode='json')"),
    (Enum, "its value"),
    ((set, frozenset), "sorted(...) of it"),
    ((tuple, deque), "list(...) of it"),
    (timedelta, "its total_seconds()"),
    (bytes, "text, such as its base64"),
    ((date, time, Decimal, UUID, PurePath), "str(...) of it"),
)
"""Advice on what to pass if no type is declared."""

_CHANGED = "it would come back changed"
_CHANGED_BY_CODE = (
    "it would come back changed: validators and __post_init__ run at each reading; have them leave as it is what they "
    "have made once"
)
_MISSING = object()
_PLAIN_SCALARS = frozenset({type(None), bool, int, float, str})
_PLAIN = _PLAIN_SCALARS | {list, dict}
_SEQUENCES = frozenset({list, tuple, deque})
_CONTAINERS = _SEQUENCES | {set, frozenset}

_COMPARERS: tuple[tuple[type | tuple[type, ...], _Comparer], ...] = (
    (Enum, _compare_scalars),
    (dict, _compare_mappings),
    ((list, tuple, deque), _compare_sequences),
    ((set, frozenset), _compare_sets),
    (float, _compare_floats),
    (Decimal, _compare_decimals),
    ((datetime, time), _compare_times),
    ((int, str, bytes), _compare_scalars),
)
