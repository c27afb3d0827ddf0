"""Pydantic models, and other types with a schema of their own, to plain JSON data.

The author of a model decides what it writes: excluded fields, aliases, custom serializers. This module refuses what
its serializer loses silently: masked secrets, NaN as null, keys that are not strings.
"""

from __future__ import annotations

import functools
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from enum import Enum
from itertools import islice
from typing import Any, cast

from pydantic import BaseModel, JsonValue, RootModel, TypeAdapter
from pydantic_core import SchemaSerializer, from_json

from signoff.codec import scalars, time_zones
from signoff.codec.unstorable_values import MAX_DEPTH, SECRETS, TOO_DEEP, Unfit, refuse

_UNWRITTEN = object()
"""Takes the place of the written data, to find out why a serializer failed."""

_MOST_SCHEMAS = 2_000
"""The schema of a class is searched only if it has no more nested schemas than this."""

_Config = Mapping[str, Any]
_Check = Callable[[Any, object, _Config, int], None]
_Pairs = Iterable[tuple[object, object, object]]


def has_own_schema(kind: type) -> bool:
    """Whether a type itself defines how pydantic reads and writes it."""
    names = ("__pydantic_serializer__", "__get_pydantic_core_schema__", "__pydantic_config__")
    return any(hasattr(kind, name) for name in names)


@functools.lru_cache(maxsize=2048)
def is_written_by_field(kind: Any) -> bool:
    """Whether a model class is written field by field, by name and type, without serializers of its own."""
    schema = getattr(kind, "__pydantic_core_schema__", None)
    if not isinstance(schema, dict) or issubclass(kind, RootModel):  # its schema is not complete yet
        return False
    found = list(islice(core_schemas(schema), _MOST_SCHEMAS + 1))
    return len(found) <= _MOST_SCHEMAS and not any(
        str(name).startswith("serialization") and name != "serialization_alias"
        for each in found
        for name in each
    )


def core_schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a core schema of pydantic and all nested dicts, except for those in metadata and serializers."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            held = cast("dict[str, Any]", part)
            yield held
            waiting += [each for name, each in held.items() if name not in ("metadata", "serialization")]
        elif isinstance(part, list | tuple):
            waiting += cast("list[Any]", part)


@functools.lru_cache(maxsize=2048)
def is_derived(kind: Any) -> bool:
    """Whether a model class has fields that a base lacks: declared as that base, it is written without them."""
    return any(
        issubclass(base, BaseModel)
        and base is not BaseModel
        and base.model_fields.keys() != kind.model_fields.keys()
        for base in kind.__mro__
    )


def to_plain(value: object, depth: int) -> JsonValue:
    """Turn a model into plain JSON data by its own serializer.

    Fields are written by name, without computed ones, so that the model can read them.

    Args:
        value: A model, a pydantic dataclass or another value with a schema of its own.
        depth: How many containers it is in.

    Returns:
        New plain data, which no other object shares.

    Raises:
        Unfit: It cannot be written, or would not come back.
    """
    try:
        text = _serializer(type(value)).to_json(value, by_alias=False, round_trip=True, warnings=False)
        plain = from_json(text, allow_inf_nan=False)
    except Exception as error:
        _check(value, _UNWRITTEN, {}, depth)
        raise Unfit(f"cannot be written by its own serializer: {error}") from error
    _check(value, plain, {}, depth)
    root = getattr(value, "root", None)
    if isinstance(value, RootModel) and isinstance(root, datetime | time):
        return time_zones.with_suffix(root, plain)
    return plain


def in_order(items: list[Any]) -> list[Any]:
    """Sort the items of a set, so that equal sets have equal text in every process."""
    return sorted(items, key=json.dumps)


def _serializer(kind: type) -> SchemaSerializer:
    own = getattr(kind, "__pydantic_serializer__", None)
    return _adapter(kind).serializer if own is None else own


@functools.lru_cache(maxsize=512)
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _check(value: object, written: object, config: _Config, depth: int) -> None:
    """Compare a value in a model with the data that the model's serializer wrote for it.

    Args:
        value: The value.
        written: Its plain data, or ``_UNWRITTEN`` to search for parts that cannot be written.
        config: The configuration of the innermost model that contains it.
        depth: How many containers it is in.

    Raises:
        Unfit: It would not come back.
    """
    if type(value) not in scalars.EXACT:
        _checker(type(value))(value, written, config, depth)
    elif written is _UNWRITTEN:
        scalars.check_exact(value)


@functools.lru_cache(maxsize=2048)
def _checker(kind: Any) -> _Check:
    if issubclass(kind, RootModel):
        return _check_root
    if issubclass(kind, BaseModel):
        return _check_model
    if is_dataclass(kind):
        return _check_dataclass
    return next((check for bases, check in _CHECKS if issubclass(kind, bases)), _check_other)


def _check_root(value: Any, written: object, _config: _Config, depth: int) -> None:
    _check_pairs(value, [("root", value.root, written)], value.model_config, depth)


def _check_model(value: Any, written: object, _config: _Config, depth: int) -> None:
    held = value.__dict__ | value.__pydantic_extra__ if value.__pydantic_extra__ else value.__dict__
    _check_pairs(value, _pair_fields(held, written), value.model_config, depth)
    _name_zones(held.items(), written)


def _check_dataclass(value: Any, written: object, config: _Config, depth: int) -> None:
    held = {field.name: getattr(value, field.name, None) for field in fields(value)}
    config = getattr(value, "__pydantic_config__", config)
    _check_pairs(value, _pair_fields(held, written), config, depth)
    _name_zones(held.items(), written)


def _check_dict(value: dict[object, object], written: Any, config: _Config, depth: int) -> None:
    _check_keys(value)
    if not isinstance(written, dict):
        _check_pairs(value, _pair_items(value.items(), written, len(value)), config, depth)
        return
    texts = cast("dict[str, object]", written)
    _check_pairs(value, _pair_items(value.items(), list(texts.values()), len(value)), config, depth)
    if len(texts) == len(value):
        _name_zones(zip(texts, value.values(), strict=True), texts)


def _check_keys(value: dict[object, object]) -> None:
    names: set[str] = set()
    for key in value:
        try:
            names.add(scalars.key_text(key))
        except Unfit as unfit:
            unfit.at(key, value)
            raise
    if len(names) < len(value):
        raise Unfit(scalars.SAME_KEYS)


def _check_list(value: list[object], written: object, config: _Config, depth: int) -> None:
    _check_pairs(value, _pair_items(enumerate(value), written, len(value)), config, depth)
    if isinstance(written, list) and len(cast("list[Any]", written)) == len(value):
        _name_zones(enumerate(value), written)


def _check_set(value: set[object], written: object, config: _Config, depth: int) -> None:
    _check_pairs(value, _pair_items(enumerate(value), written, len(value)), config, depth)
    if isinstance(written, list):
        written[:] = in_order(cast("list[Any]", written))


def _check_pairs(container: object, pairs: _Pairs, config: _Config, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Unfit(TOO_DEEP)
    for key, item, written in pairs:
        try:
            _check(item, written, config, depth + 1)
        except Unfit as unfit:
            unfit.at(key, container)
            raise


def _name_zones(items: Iterable[tuple[Any, object]], written: Any) -> None:
    """Add the time zones of datetimes to the written data, which has their offsets only."""
    if not isinstance(written, dict | list):
        return
    texts = cast("dict[Any, Any]", written)
    for key, item in items:
        if isinstance(item, datetime | time) and (isinstance(key, int) or key in texts):
            texts[key] = time_zones.with_suffix(item, texts[key])


def _pair_fields(held: Mapping[str, object], written: Any) -> _Pairs:
    """Pair fields with their written data, except where the model omits or reshapes them."""
    if written is _UNWRITTEN:
        return [(name, item, _UNWRITTEN) for name, item in held.items()]
    if not isinstance(written, dict):
        return []
    return [  # pyright: ignore[reportUnknownVariableType]
        (name, item, written[name])
        for name, item in held.items()
        if type(item) not in scalars.EXACT and name in written  # pyright: ignore[reportUnknownArgumentType]
    ]


def _pair_items(items: Iterable[tuple[object, object]], written: Any, size: int) -> _Pairs:
    if written is _UNWRITTEN:
        return [(key, item, _UNWRITTEN) for key, item in items]
    if not isinstance(written, list) or len(cast("list[Any]", written)) != size:
        return []
    return [(key, item, text) for (key, item), text in zip(items, cast("list[Any]", written), strict=True)]


def _check_enum(value: Enum, _written: object, _config: _Config, _depth: int) -> None:
    scalars.check_member(value)


def _check_float(value: float, written: object, _config: _Config, _depth: int) -> None:
    if not math.isfinite(value) and not isinstance(written, str):
        raise Unfit(f"is {value}, which JSON cannot hold; in a model, set ser_json_inf_nan='strings'")


def _check_bytes(value: bytes, written: object, config: _Config, _depth: int) -> None:
    if config.get("ser_json_bytes", "utf8") != config.get("val_json_bytes", "utf8"):
        raise Unfit("is bytes in a model that writes them in one way and reads them in another; " + _BASE64)
    if written is _UNWRITTEN and config.get("ser_json_bytes", "utf8") == "utf8" and not _is_utf8(value):
        raise Unfit("is bytes that are not UTF-8 in a model that writes them as text; " + _BASE64)


def _check_time(value: datetime | time, _written: object, _config: _Config, _depth: int) -> None:
    scalars.check_offset(value)


def _check_secret(value: object, written: object, _config: _Config, _depth: int) -> None:
    if isinstance(written, str) and not written.strip("*"):
        refuse(value)


def _check_other(value: Any, written: object, _config: _Config, _depth: int) -> None:
    if isinstance(value, Iterator) or (written is _UNWRITTEN and not _is_known(type(value))):
        refuse(value)  # pyright: ignore[reportUnknownArgumentType]


def _is_known(kind: Any) -> bool:
    return scalars.converter(kind) is not None or has_own_schema(kind)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_BASE64 = 'set model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")'

_CHECKS: tuple[tuple[type | tuple[type, ...], _Check], ...] = (
    (Enum, _check_enum),
    (dict, _check_dict),
    ((list, tuple, deque), _check_list),
    ((set, frozenset), _check_set),
    (float, _check_float),
    (bytes, _check_bytes),
    ((datetime, time), _check_time),
    (SECRETS, _check_secret),
)
