"""Readers of values by their annotation, and JSON Schemas of annotations."""

from __future__ import annotations

import collections
import collections.abc
import functools
import sys
import types
import typing
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import datetime, time
from enum import Enum, Flag
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Never,
    NewType,
    NoReturn,
    NotRequired,
    Required,
    Self,
    TypeVar,
    Union,
    cast,
)

import typing_extensions
from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import from_json, to_json
from pydantic_core.core_schema import CoreConfig

from signoff.codec import enum_literals
from signoff.codec.models import core_schemas
from signoff.codec.type_hints import type_text
from signoff.errors import InvalidValue
from signoff.runtime import private_names
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.codec")

# Bytes outside models are base64: pydantic's default holds UTF-8 only.
_CONFIG = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", allow_inf_nan=False)

_CORE_CONFIG: Final = CoreConfig(ser_json_bytes="base64", val_json_bytes="base64", allow_inf_nan=False)
"""The same configuration, for a validator that is built without an adapter."""

_MODE: Final[JsonSchemaMode] = "validation"

_MOST_READERS = 4096

_MOST_SCHEMAS: Final = 256


class Unreadable(Exception):
    """An annotation that pydantic cannot read."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads values of one declared type.

    Attributes:
        read: Turns JSON text into a value, or raises pydantic's ``ValidationError``.
        is_ambiguous: Whether the type has a union of types that look the same in JSON.
        is_open: Whether a part of the type is undeclared, such as ``Any`` or a bare ``dict``: plain data comes back.
        has_times: Whether it contains datetimes or times, whose text may name a time zone.
        has_sets: Whether it contains sets, which are given a fixed order.
        runs_code: Whether each read runs code that may produce another value: default factories and validators.
    """

    read: Callable[[str | bytes], Any]
    is_ambiguous: bool
    is_open: bool
    has_times: bool
    has_sets: bool
    runs_code: bool


def reader(annotation: object) -> Reader:
    """Return the reader of a declared type.

    Raises:
        Unreadable: Pydantic cannot read this type.
    """
    known = _readers.get(id(annotation))
    if known is None:
        if len(_readers) >= _MOST_READERS:
            _readers.clear()
        known = _readers[id(annotation)] = (annotation, _equal_reader(annotation))
    return known[1]


# By identity, because `A | B` equals `B | A`, but reads differently if both members fit.
# The annotation is kept with its reader, so that no other object gets its id.
_readers: dict[int, tuple[object, Reader]] = {}


def _equal_reader(annotation: object) -> Reader:
    try:
        return _reader_by_spelling(annotation, repr(annotation))
    except RecursionError as error:
        raise Unreadable(f"the declared type {type_text(annotation)} is nested too deep") from error
    except TypeError:  # unhashable, such as Annotated with a list
        return _build(annotation)


@functools.lru_cache(maxsize=1024)
def _reader_by_spelling(annotation: object, _spelling: str) -> Reader:
    return _build(annotation)


def schemas(declared: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return JSON Schemas of types, as ``reader`` reads them.

    Args:
        declared: Types, by any names.

    Returns:
        The schemas by these names, and the definitions under ``#/$defs`` that they refer to. A type without a schema
        gets the empty schema, which everything fits.
    """
    # The repr tells apart types that are equal, such as `A | B` and `B | A`.
    try:
        key = tuple((name, annotation, repr(annotation)) for name, annotation in declared.items())
        known = _schemas.get(key)
    except Exception:  # a type is nested too deep or unhashable, or its metaclass fails in repr
        return _make_schemas(declared)[0]
    if known is not None:
        named, definitions = from_json(known)
        return named, definitions
    made, are_all = _make_schemas(declared)
    if are_all and (text := _exact_json(made)) is not None:
        if len(_schemas) >= _MOST_SCHEMAS:
            _schemas.clear()
        _schemas[key] = text
    return made


_schemas: dict[object, bytes] = {}
"""JSON of results of ``schemas``. A schema takes milliseconds to make, and many workflows have the same parameters."""


def _exact_json(made: tuple[dict[str, Any], dict[str, Any]]) -> bytes | None:
    """Return the result as JSON if that reads back equal, else None: a class's own schema may contain a tuple."""
    try:
        text = to_json(made)
        return text if from_json(text) == [*made] else None
    except ValueError:  # raised by pydantic for values that JSON does not have
        return None


def _make_schemas(declared: Mapping[str, object]) -> tuple[tuple[dict[str, Any], dict[str, Any]], bool]:
    """Return the result of ``schemas``, and whether it is complete: each type has a schema."""
    adapters: dict[str, TypeAdapter[Any]] = {}
    for name, annotation in declared.items():
        try:
            adapter = _adapter(annotation)
            adapter.json_schema(schema_generator=_Schema)
        except Exception as error:  # a class may define its schema by code, which may fail
            log.debug("%s has no JSON Schema: %s", type_text(annotation), error)
        else:
            adapters[name] = adapter
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (name, _MODE, adapter) for name, adapter in adapters.items()
    ]
    try:
        made, rest = TypeAdapter.json_schemas(inputs, schema_generator=_Schema)
    except RecursionError:  # a type that just fitted the recursion limit on its own
        return ({name: {} for name in declared}, {}), False
    named = {name: made.get((name, _MODE), {}) for name in declared}
    return (named, rest.get("$defs", {})), len(adapters) == len(declared)


def value_schema(annotation: object) -> dict[str, Any] | None:
    """Return a JSON Schema of one declared type.

    Returns:
        The schema; None if everything fits, or if written values need not fit the schema: models have aliases, flags
        are combined, or keys are numbers written as strings.
    """
    if _is_undeclared(_bare(annotation)):
        return None
    if any(_has_aliases(part) or _has_other_text(part) for part in _parts(annotation)):
        return None
    named, definitions = schemas({"value": annotation})
    schema = named["value"]
    return {**schema, "$defs": definitions} if schema and definitions else schema or None


def check_type(path: str, annotation: object) -> None:
    """Check that a value is a type that can be read from JSON.

    Args:
        path: Its name in errors, such as ``returns``.
        annotation: Any object.

    Raises:
        InvalidValue: It is not.
    """
    if annotation is Any:
        return
    if not isinstance(annotation, str | dict):  # pydantic would take a dict for a core schema
        try:
            reader(annotation)
        except Unreadable as error:
            if isinstance(annotation, type) or typing.get_origin(annotation) is not None:
                raise InvalidValue(path, str(error)) from error
        else:
            return
    raise InvalidValue(path, f"{annotation!r:.100} is not a type; pass a class, or a type such as list[int]")


def has_aliases(annotation: object) -> bool:
    """Whether a declared type or a part of it has fields with other names in JSON."""
    return any(_has_aliases(part) for part in _parts(annotation))


def readable(annotation: object) -> Any:
    """Return an equivalent type that pydantic accepts on every Python version, such as for ``typing.TypedDict``."""
    return _readable(annotation)


def _has_aliases(part: Any) -> bool:
    if not (isinstance(part, type) and issubclass(part, BaseModel)):
        return False
    return any(field.alias or field.validation_alias for field in part.model_fields.values())


def _has_other_text(part: Any) -> bool:
    """Whether values of a type are written as JSON that need not fit its schema."""
    if isinstance(part, type) and issubclass(part, Flag):
        return True
    arguments = typing.get_args(part)
    key = _bare(arguments[0]) if len(arguments) == 2 else None
    if not (isinstance(key, type) and issubclass(key, Enum)):
        return False
    return any(not isinstance(member.value, str) for member in key)


class _Schema(GenerateJsonSchema):
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Ignore warnings about omitted parts, such as a default that JSON does not have."""


def _adapter(annotation: object) -> TypeAdapter[Any]:
    # Pydantic accepts a configuration for dataclasses and TypedDicts only inside of a NewType.
    return TypeAdapter(cast(Any, NewType)("Value", _readable(annotation)), config=_CONFIG)


def _build(annotation: object) -> Reader:
    try:
        adapter = _adapter(annotation)
        parts = list(_parts(annotation))
        validator = adapter.validator
        if any(map(enum_literals.is_one, parts)):
            schema = enum_literals.by_value(adapter.core_schema)
            validator = private_names.own_validator(schema, _CORE_CONFIG) or validator
        validate = validator.validate_json
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error, RecursionError):
            reason = "it is nested too deep"
        raise Unreadable(
            f"the declared type {type_text(annotation)} cannot be read from JSON: {reason}"
        ) from error
    return Reader(
        functools.partial(validate, by_alias=True, by_name=True),
        is_ambiguous=any(_has_lookalikes(part) or _has_mixed_keys(part) for part in parts),
        is_open=any(_is_undeclared(part) for part in parts),
        has_times=_has_times(parts, adapter.core_schema),
        has_sets=any(_is_set(part) for part in parts),
        runs_code=_runs_code(adapter.core_schema),
    )


def _has_times(parts: Iterable[object], schema: Any) -> bool:
    """Whether a type contains datetimes or times, including pydantic's types such as ``AwareDatetime``."""
    if any(isinstance(part, type) and issubclass(part, datetime | time) for part in parts):
        return True
    return any(each.get("type") in ("datetime", "time") for each in core_schemas(schema))


def _runs_code(schema: Any) -> bool:
    """Whether a core schema of pydantic has default factories or validators."""
    return any(
        held.get("default_factory") or held.get("post_init") or "function" in str(held.get("type", ""))
        for held in core_schemas(schema)
    )


def _is_set(part: Any) -> bool:
    kind: Any = typing.get_origin(part) or part
    return isinstance(kind, type) and issubclass(kind, collections.abc.Set)


def _readable(annotation: Any, inside: frozenset[Any] = frozenset()) -> Any:
    """Replace types that pydantic reads lazily or not at all by types that are equivalent for a complete value.

    Args:
        annotation: The declared type.
        inside: The TypedDicts that contain it.
    """
    origin: Any = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if annotation is Self or annotation is Never or annotation is NoReturn:
        return Any
    if (origin or annotation) in _ITERABLES:
        return list[_readable(arguments[0], inside) if arguments else Any]
    if sys.version_info < (3, 12) and _is_old_typed_dict(annotation):
        return _modern_typed_dict(annotation, inside)
    if origin in _WHOLE:
        return annotation
    readable = tuple(_readable(argument, inside) for argument in arguments)
    if all(new is old for new, old in zip(readable, arguments, strict=True)):
        return annotation
    return _with_arguments(annotation, origin, readable)


def _with_arguments(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Any:
    if origin is Annotated:
        return Annotated[(arguments[0], *annotation.__metadata__)]
    if origin is types.UnionType:
        return functools.reduce(lambda one, other: one | other, arguments)
    if len(arguments) == 1:
        return origin[arguments[0]]  # NotRequired and others do not take a tuple
    return origin[arguments]


def _is_old_typed_dict(annotation: Any) -> bool:
    return typing.is_typeddict(annotation) and type(annotation).__module__ == "typing"


def _modern_typed_dict(annotation: Any, inside: frozenset[Any]) -> Any:
    """Convert a ``typing.TypedDict`` to that of ``typing_extensions``, which pydantic needs before Python 3.12."""
    if annotation in inside:
        return dict[str, Any]
    hints: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(annotation, include_extras=True).items():
        readable = _readable(hint, inside | {annotation})
        is_marked = typing.get_origin(hint) in (Required, NotRequired)
        is_optional = name in annotation.__optional_keys__ and not is_marked
        hints[name] = NotRequired[readable] if is_optional else readable
    return cast(Any, typing_extensions.TypedDict)(annotation.__name__, hints)


def _is_undeclared(part: Any) -> bool:
    if isinstance(part, TypeVar):
        return part.__bound__ is None and not part.__constraints__
    return part in _UNDECLARED


def _parts(annotation: object) -> Iterator[Any]:
    """Yield a type and all types that it is composed of, each once."""
    seen: dict[int, object] = {}
    waiting = [annotation]
    while waiting:
        part = _bare(waiting.pop())
        if id(part) in seen:
            continue
        seen[id(part)] = part  # kept, so that no other object gets its id
        yield part
        waiting.extend(_members(part))


def _members(part: Any) -> Iterable[object]:
    arguments = typing.get_args(part)
    kind: Any = typing.get_origin(part) or part
    if kind is Literal or not (arguments or isinstance(kind, type)):
        return ()
    if (alias := getattr(kind, "__value__", None)) is not None:
        return (*arguments, alias)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [field.annotation for field in kind.model_fields.values()]
    return (*arguments, *_fields(kind))


def _fields(kind: Any) -> Iterable[object]:
    """Return the types of the fields of a dataclass, TypedDict or NamedTuple."""
    if not (typing_extensions.is_typeddict(kind) or is_dataclass(kind) or hasattr(kind, "_fields")):
        return ()
    try:
        return typing.get_type_hints(kind, include_extras=True).values()
    except Exception:  # pydantic reports unresolvable names when it reads
        return ()


def _bare(annotation: Any) -> Any:
    """Unwrap a type: Annotated, Required, NewType, ``type X = ...``."""
    while True:
        origin = typing.get_origin(annotation)
        if origin in (Annotated, Required, NotRequired):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        else:
            return annotation


def _is_union(annotation: object) -> bool:
    return typing.get_origin(annotation) in (Union, types.UnionType)


def _has_mixed_keys(annotation: object) -> bool:
    """Whether the keys of a dict, which are strings in JSON, are of several types."""
    arguments = typing.get_args(annotation)
    return len(arguments) == 2 and not _is_union(annotation) and _is_union(_bare(arguments[0]))


def _has_lookalikes(annotation: object) -> bool:
    """Whether a union has two members of the same shape in JSON."""
    if not _is_union(annotation):
        return False
    shapes = Counter(shape for member in typing.get_args(annotation) for shape in _shapes(_bare(member)))
    return max(shapes.values()) > 1 or (shapes["any"] > 0 and len(shapes.keys() - {"NoneType"}) > 1)


def _shapes(member: Any) -> set[str]:
    """Return the shapes that a member of a union has in JSON."""
    kind: Any = typing.get_origin(member) or member
    if kind is None or kind in (type(None), bool, int, float):
        return {type(None).__name__ if kind is None else kind.__name__}
    if kind is Literal:
        return {_shape_of_value(value) for value in typing.get_args(member)}
    if _is_union(member):
        return {shape for inner in typing.get_args(member) for shape in _shapes(_bare(inner))}
    if typing_extensions.is_typeddict(kind) or is_dataclass(kind):
        return {"object"}
    if not isinstance(kind, type) or kind is object or issubclass(kind, RootModel):
        return {"any"}
    if issubclass(kind, Enum):
        return {_shape_of_value(value.value) for value in kind}
    if issubclass(kind, BaseModel | Mapping):
        return {"object"}
    if issubclass(kind, Collection) and not issubclass(kind, str | bytes):
        return {"array"}
    return {"text"}


def _shape_of_value(value: object) -> str:
    return "text" if isinstance(value, str) else type(value).__name__


_UNDECLARED = cast(
    "tuple[Any, ...]",
    (
        *(Any, object, Self, list, dict, tuple, set, frozenset, collections.deque),
        *(collections.abc.Mapping, collections.abc.Sequence, collections.abc.Set),
        *(collections.abc.Iterable, collections.abc.Collection, collections.abc.MutableMapping),
    ),
)
_WHOLE = (None, Literal, cast(Any, Callable))
_ITERABLES: tuple[Any, ...] = (
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Collection,
    collections.abc.Generator,
)
