"""Python values to JSON text and back."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import deque
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from signoff.codec import annotations, scalars, time_zones
from signoff.codec.annotations import Reader
from signoff.codec.ciphers import is_encrypted
from signoff.codec.plain_data import check_text, is_plain, to_plain
from signoff.codec.round_trip import Comparison
from signoff.codec.set_order import in_one_order, kind_of
from signoff.codec.unstorable_values import Unfit, name_of, segment
from signoff.errors import InvalidValue, NotSerializable, PayloadTooLarge, SignoffError
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.codec")

MAX_BYTES = 1024 * 1024
"""Maximum length of a value's JSON, in UTF-8 bytes."""

MAX_CARRIED = 16 * MAX_BYTES
"""Maximum size of the data that a run carries into its next generation, and of the final state of a flow. It is larger
because many writes, each within its limit, contribute to these."""

_DIGITS: Final = b"0123456789"

_UNCHANGED = scalars.EXACT | {float}

_HOLDERS: Final = (dict, list)
_UNDECLARED: Final = (dict, list, dict[str, Any], list[Any])

_LARGEST = 10**15
_LONGEST = len(str(-_LARGEST))
"""Smaller integers take a fast path if the limit allows this many characters."""


def encode(value: object, *, path: str = "value", limit: int = MAX_BYTES) -> str:
    """Write a value as JSON text, by its runtime type.

    Args:
        value: Plain data, pydantic models, dataclasses, dates and times, UUIDs, Decimals, bytes, enums,
            paths, sets, tuples and combinations of these. NaN and the infinities are refused: JSON has none.
        path: The value's name in errors, such as ``args.order``.
        limit: The maximum length of the text, in UTF-8 bytes.

    Returns:
        JSON text, the same for equal values of one type except for the order of dict keys.

    Raises:
        NotSerializable: A part of it cannot be stored, or would come back as another value.
        PayloadTooLarge: The text exceeds the limit.
    """
    # Most results of steps are ids or counts.
    if type(value) is int and -_LARGEST < value < _LARGEST and limit >= _LONGEST:
        return repr(value)
    return _to_text(value, path, limit)[0]


def _to_text(value: object, path: str, limit: int) -> tuple[str, bool]:
    """Return the JSON text of a value, and whether it is a dict or a list of exact JSON types."""
    plain = type(value) in _HOLDERS and is_plain(value)
    try:
        raw = _write(value if plain else to_plain(value))
    except Unfit as unfit:
        raise NotSerializable(*unfit.under(path)) from unfit.__cause__
    if len(raw) > limit:
        raise PayloadTooLarge(path, len(raw), limit)
    text = raw.decode()
    if is_encrypted(text):
        # A plain value that looks like a ciphertext. An escape keeps a reader with keys from decrypting it.
        return text.replace("s", "\\u0073", 1), plain
    return text, plain


def decode(text: str, annotation: object = Any, *, path: str = "value") -> Any:
    """Read a value.

    Args:
        text: JSON text.
        annotation: The declared type. ``Any`` gives plain data: a dict for a model, its value for an enum, a string
            for a date.
        path: The value's name in errors.

    Returns:
        The value, a new object.

    Raises:
        InvalidValue: The text is not valid JSON, or does not fit the annotation, or pydantic cannot read that type.
    """
    try:
        if annotation is Any:
            return from_json(text, allow_inf_nan=False)
        if type(annotation) is type and annotation in _UNCHANGED:
            value = from_json(text, allow_inf_nan=False)
            if type(value) is annotation:  # otherwise it is converted or refused below
                return value
        return _read(annotations.reader(annotation), text)
    except ValidationError as error:
        raise InvalidValue(*_first_problem(error, path)) from error
    except annotations.Unreadable as error:
        raise InvalidValue(path, str(error)) from error
    except Exception as error:  # the text is not valid JSON, or a validator of the declared type failed
        raise InvalidValue(path, f"cannot be read: {type(error).__name__}: {error}") from error


def normalize(
    value: object, annotation: object = Any, *, path: str = "result", limit: int = MAX_BYTES
) -> tuple[str, Any]:
    """Write a value and read it back, so that a run continues with the same value that its replay will see.

    Plain data may be passed for the declared type, such as a dict for a model. It is validated once, here.

    Args:
        value: As for ``encode``.
        annotation: As for ``decode``.
        path: The value's name in errors.
        limit: As for ``encode``.

    Returns:
        The text, and the value as every replay reads it from the text.

    Raises:
        NotSerializable: As for ``encode``. Also if it would come back changed, such as a subclass without its fields,
            or as another member of a union such as ``datetime | str``, whose members look the same in JSON.
        InvalidValue: As for ``decode``.
        PayloadTooLarge: As for ``encode``.
    """
    kind = type(value)
    if kind in _UNCHANGED and (annotation is Any or annotation is kind):
        return encode(value, path=path, limit=limit), value
    text, is_plain_data = _to_text(value, path, limit)
    again = _read_back(value, text, annotation, path)
    if is_plain_data and (annotation is Any or (_leaves_parts_open(annotation) and type(again) is kind)):
        return text, again
    if annotation is Any and _is_plain(value, again):
        return text, again
    compared = _compare(value, again, annotation, path)
    if compared.undeclared is not None:
        _warn(path, compared.undeclared)
    if not compared.converted:
        return text, again
    return _settle(text, again, annotation, path, limit)


def _leaves_parts_open(annotation: Any) -> bool:
    """Whether a declared type does not declare the types of its parts."""
    return annotation in _UNDECLARED


def _read_back(value: object, text: str, annotation: object, path: str) -> Any:
    """Read the text that was just written of a value.

    Raises:
        NotSerializable: It is of the declared type, but its class does not read what it writes.
        InvalidValue: It does not fit the declared type.
    """
    try:
        return decode(text, annotation, path=path)
    except InvalidValue as error:
        if cast("object", type(value)) is not annotation or type(value) in _JSON:
            raise
        kind = name_of(type(value))
        reason = (
            f"{kind} does not read what it writes: {error.reason}; have its serializers and validators match"
        )
        raise NotSerializable(error.path, reason) from error


def encode_for(
    reader: str, value: object, *, path: str = "value", limit: int = MAX_BYTES, warns: bool = True
) -> str:
    """Write a value for code that declares its type elsewhere, such as the run that waits for a signal.

    Each part must come back the same if that code declares the part's own type.

    Args:
        reader: The name of the code that reads it, for a warning: without a declared type it gets plain data.
        value: As for ``encode``.
        path: The value's name in errors.
        limit: As for ``encode``.
        warns: Whether to warn about values that are not plain data, once for each reader and type.

    Returns:
        JSON text.

    Raises:
        NotSerializable: As for ``normalize``.
        PayloadTooLarge: As for ``encode``.
    """
    text, is_plain_data = _to_text(value, path, limit)
    if type(value) in _UNCHANGED or is_plain_data or _is_plain(value, from_json(text)):
        return text
    kind = _check_own_types(value, path)
    if kind is not None and warns:
        _warn_reader(reader, kind)
    return text


def warn_reader(reader: str, value: object) -> None:
    """Warn, once for each reader and type, that the reader gets a value as plain data unless it declares its type."""
    if type(value) not in _UNCHANGED and not _is_plain(value, from_json(encode(value))):
        _warn_reader(reader, name_of(type(value)))


def _check_own_types(value: Any, path: str) -> str | None:
    """Check that each part comes back if its own type is declared.

    Returns:
        The name of the first type that is not plain; None if all are.

    Raises:
        NotSerializable: A part would come back changed.
    """
    kind = cast("Any", kind_of(value))
    if kind in _UNCHANGED:
        return None
    if issubclass(kind, dict):
        items = cast("dict[Any, Any]", value)
        found = [_check_own_types(item, path + segment(key)) for key, item in items.items()]
        if any(type(key) is not str for key in items):
            found.append("dict with keys that are not text")
    elif issubclass(kind, _CONTAINERS) and not hasattr(kind, "_fields"):
        found = [_check_own_types(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if kind is not list:
            found.append(name_of(kind))
    elif _are_equal(value, from_json(encode(value, path=path, limit=sys.maxsize))):
        return None
    else:
        try:
            normalize(value, kind, path=path, limit=sys.maxsize)
        except InvalidValue as error:
            raise NotSerializable(error.path, error.reason) from error
        return name_of(kind)
    return next((name for name in found if name is not None), None)


def _settle(text: str, again: Any, annotation: object, path: str, limit: int) -> tuple[str, Any]:
    """Return the text of converted plain data, after a check that reading it converts nothing more.

    Raises:
        NotSerializable: Each read converts it again, or makes another value.
    """
    settled = encode(again, path=path, limit=limit)
    if not _is_stable(again, settled, annotation, path):
        raise NotSerializable(
            path, "its declared type changes it at each reading; convert it in a step instead"
        )
    if _is_stable(again, text, annotation, path):
        return text, again
    return settled, again  # each read makes new defaults, such as an id or a time


def _is_stable(again: Any, text: str, annotation: object, path: str) -> bool:
    try:
        return not _compare(again, decode(text, annotation, path=path), annotation, path).converted
    except SignoffError:
        return False


def _compare(value: object, again: Any, annotation: object, path: str) -> Comparison:
    reader = annotations.reader(annotation)
    comparison = Comparison(reader.is_ambiguous, reader.is_open)
    try:
        comparison.compare(value, again)
    except Unfit as unfit:
        raise NotSerializable(*unfit.under(path)) from unfit.__cause__
    except Exception as error:  # code of their classes failed
        raise NotSerializable(path, f"cannot be compared with what came back: {error!r}") from error
    return comparison


def digest(text: str) -> str:
    """Hash JSON text, independent of key order and white space.

    Args:
        text: JSON text.

    Returns:
        The SHA-256 of its canonical form, in hexadecimal.
    """
    canonical = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _read(reader: Reader, text: str) -> Any:
    value = (
        _read_times(reader, text)
        if reader.has_times and time_zones.may_have_marks(text)
        else reader.read(text)
    )
    return in_one_order(value) if reader.has_sets else value


def _read_times(reader: Reader, text: str) -> Any:
    plain, marks = time_zones.take_off(from_json(text, allow_inf_nan=False))
    value = reader.read(to_json(plain))
    return value if marks is None else time_zones.put_back(value, marks)


def _write(plain: Any) -> bytes:
    try:
        raw = to_json(plain)
    except PydanticSerializationError as error:
        check_text(plain)
        raise Unfit(str(error)) from error
    if len(raw) > scalars.MAX_DIGITS and _has_long_number(raw):
        check_text(plain)
    return raw


def _has_long_number(raw: bytes) -> bool:
    """Whether there are more digits in a row than a number may have, in a number or a string."""
    length = scalars.MAX_DIGITS + 1
    for place in range(scalars.MAX_DIGITS, len(raw), length):  # a longer row covers one of these places
        if raw[place] in _DIGITS:
            before, after = raw[max(0, place - length) : place], raw[place : place + length]
            found = len(before) - len(before.rstrip(_DIGITS)) + len(after) - len(after.lstrip(_DIGITS))
            if found >= length:
                return True
    return False


def _first_problem(error: ValidationError, path: str) -> tuple[str, str]:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first, more = problems[0], len(problems) - 1
    where = path + "".join(segment(key) for key in first["loc"])
    return where, first["msg"] + (f" (and {more} more)" if more else "")


def _is_plain(value: object, again: object) -> bool:
    """Whether a value is plain JSON data that came back equal."""
    return type(value) in _JSON and _are_equal(value, again)


def _are_equal(value: object, again: object) -> bool:
    try:
        return bool(value == again)
    except Exception:  # code of their classes failed
        return False


def _warn_reader(reader: str, kind: str) -> None:
    _warn_once(
        (reader, kind),
        "%s gets a value of type %s as plain JSON data, unless it declares that type",
        reader,
        kind,
    )


def _warn(path: str, kind: str) -> None:
    """Warn, once for each path and type, that a value came back as plain data."""
    _warn_once(
        (path, kind),
        "%s has a value of type %s without a declared type, so it came back as plain JSON data; declare its type",
        path,
        kind,
    )


def _warn_once(key: tuple[str, str], message: str, *parts: str) -> None:
    if key in _warned:
        return
    if len(_warned) >= _MOST_WARNED:
        _warned.clear()
    _warned.add(key)
    log.warning(message, *parts)


_warned: set[tuple[str, str]] = set()
_MOST_WARNED = 4096
_CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset, deque)
_JSON = scalars.EXACT | {float, list, dict}
