"""The named fields of types: their types, and their names in JSON and in schemas."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from dataclasses import Field as DataclassField
from functools import lru_cache
from inspect import signature
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import AliasChoices, AliasGenerator, AliasPath, BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import TypeAliasType, is_typeddict

Place = tuple[str | int, ...]
"""The place of a value: the keys and indexes that lead to it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One named field of a value, such as a model's field or a tool's parameter.

    Attributes:
        name: Its name in Python.
        paths: The places where it is read from the JSON, in this order.
        key: Its name in the schema.
        declared: Its type.
        is_made: Whether it has a default factory.
    """

    name: str
    paths: tuple[Place, ...]
    key: str
    declared: Any
    is_made: bool = False


def slot_of(
    name: str, info: FieldInfo, generate: Any = None, *, by_name: bool = False, is_made: bool = False
) -> Slot:
    """Return the slot of a field.

    name: Its name in Python.
    info: Its ``FieldInfo``.
    generate: The ``alias_generator`` of the config, if there is one.
    by_name: Whether it can also be set by its name.
    is_made: Whether it has a default factory that ``info`` does not have.
    """
    alias = info.validation_alias if info.validation_alias is not None else info.alias
    if alias is None and generate is not None:
        alias = _generated(generate, name)
    paths = _paths(alias)
    key = next((str(path[0]) for path in paths if len(path) == 1), name)
    if not paths or by_name:
        paths = (*paths, (name,))
    declared = info.annotation
    return Slot(name, paths, key, declared, is_made or info.default_factory is not None)


def _generated(generate: Any, name: str) -> Any:
    if not isinstance(generate, AliasGenerator):
        return generate(name)
    make = generate.validation_alias or generate.alias
    return None if make is None else make(name)


def _paths(alias: Any) -> tuple[Place, ...]:
    match alias:
        case str():
            return ((alias,),)
        case AliasPath():
            return (tuple(alias.path),)
        case AliasChoices():
            return tuple(path for choice in alias.choices for path in _paths(choice))
        case _:
            return ()


@lru_cache(512)
def model_slots(kind: type[BaseModel]) -> tuple[Slot, ...]:
    """Return the slots of a model."""
    config = kind.model_config
    by_name = bool(config.get("populate_by_name") or config.get("validate_by_name"))
    return tuple(slot_of(name, info, by_name=by_name) for name, info in kind.model_fields.items())


@lru_cache(512)
def dataclass_slots(kind: Any) -> tuple[tuple[Slot, ...], tuple[str, ...]]:
    """Return the slots of a dataclass, and the names of its init-only parameters."""
    own: Mapping[str, FieldInfo] = getattr(kind, "__pydantic_fields__", None) or {}
    config: Mapping[str, Any] = getattr(kind, "__pydantic_config__", None) or {}
    by_name = bool(config.get("populate_by_name") or config.get("validate_by_name"))
    hints = hints_of(kind)
    slots: list[Slot] = []
    for each in fields(kind):
        if not each.init:
            continue
        info = own.get(each.name) or _info_of(each, hints.get(each.name, Any))
        slots.append(
            slot_of(
                each.name,
                info,
                config.get("alias_generator"),
                by_name=by_name,
                is_made=each.default_factory is not MISSING and each.default_factory not in _STABLE,
            )
        )
    known = {each.name for each in fields(kind)}
    try:
        taken = tuple(name for name in signature(kind).parameters if name not in known)
    except (TypeError, ValueError):
        taken = ()
    return tuple(slots), taken


_STABLE: Final[tuple[object, ...]] = (list, dict, set, frozenset, tuple, str, int, float, bool, bytes)


def _info_of(each: DataclassField[Any], hint: Any) -> FieldInfo:
    if isinstance(each.default, FieldInfo):
        return FieldInfo.from_annotated_attribute(hint, each.default)
    return FieldInfo.from_annotation(hint)


@lru_cache(512)
def typed_dict_slots(kind: Any) -> tuple[Slot, ...]:
    """Return the slots of a TypedDict."""
    config: Mapping[str, Any] = getattr(kind, "__pydantic_config__", None) or {}
    by_name = bool(config.get("populate_by_name") or config.get("validate_by_name"))
    hints = hints_of(kind)
    return tuple(
        slot_of(
            name, FieldInfo.from_annotation(_required(hint)), config.get("alias_generator"), by_name=by_name
        )
        for name, hint in hints.items()
    )


def hints_of(kind: Any) -> dict[str, Any]:
    """Return a class's or function's annotations; empty if they cannot be resolved."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # for example names imported for type checkers only
        return {}


def parameter_slot(name: str, hint: Any, default: Any) -> Slot:
    """Return the slot of a function's parameter.

    Args:
        name: Its name.
        hint: Its annotation.
        default: Its default; ``PydanticUndefined`` if it has none.
    """
    if default is PydanticUndefined:
        return slot_of(name, FieldInfo.from_annotation(hint))
    return slot_of(name, FieldInfo.from_annotated_attribute(hint, default))


def _required(hint: Any) -> Any:
    origin = get_origin(hint)
    is_wrapped = origin in (typing.Required, typing.NotRequired) or getattr(origin, "_name", "") == "ReadOnly"
    return _required(get_args(hint)[0]) if is_wrapped else hint


def _bare(declared: Any) -> Any:
    """Return a type without annotations and aliases."""
    while True:
        if get_origin(declared) is typing.Annotated:
            declared = get_args(declared)[0]
        elif isinstance(declared, TypeAliasType):
            declared = declared.__value__
        elif isinstance(declared, typing.NewType):
            declared = declared.__supertype__
        else:
            return declared


def _members(declared: Any) -> list[Any]:
    bare = _bare(declared)
    if get_origin(bare) in (Union, UnionType):
        return [member for each in get_args(bare) for member in _members(each)]
    return [bare]


def typed_dict_in(declared: Any, value: Mapping[Any, Any]) -> Any:
    """Return the TypedDict of a value, if its type has one that fits."""
    for each in _members(declared):
        origin = get_origin(each) or each
        if is_typeddict(origin) and set(value) <= set(hints_of(origin)):
            return origin
    return None


def part_type(declared: Any, n: int, *, is_row: bool = False) -> Any:
    """Return the type of the n-th item of a sequence, or of a mapping's values."""
    for each in _members(declared):
        arguments = get_args(each)
        origin = get_origin(each)
        if not arguments or not isinstance(origin, type):
            continue
        if not is_row:
            if issubclass(origin, Mapping) and len(arguments) == 2:
                return arguments[1]
        elif origin is tuple and Ellipsis not in arguments:
            return arguments[n] if n < len(arguments) else None
        elif not issubclass(origin, Mapping):
            return arguments[0]
    return None
