"""Python values to JSON text and back."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from signoff.codec import annotations, scalars
from signoff.codec.ciphers import is_encrypted
from signoff.codec.plain import check_text, to_plain
from signoff.codec.refusals import Unfit, segment
from signoff.errors import InvalidValue, NotSerializable, PayloadTooLarge

MAX_BYTES = 1024 * 1024
"""How long a value's JSON may be, in UTF-8 bytes."""

_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (scalars.MAX_DIGITS + 1))

_UNCHANGED = scalars.EXACT | {float}


def encode(value: object, *, path: str = "value", limit: int = MAX_BYTES) -> str:
    """Write a value as JSON text, by its runtime type.

    Args:
        value: Plain data, pydantic models, dataclasses, dates and times, UUIDs, Decimals, bytes, enums,
            paths, sets, tuples and what is made of them. NaN and the infinities are refused: JSON has none.
        path: What the value is called in errors, such as ``args.order``.
        limit: How long the text may be, in UTF-8 bytes.

    Returns:
        JSON text, the same for equal values of one type except for the order of dict keys.

    Raises:
        NotSerializable: Something in it cannot be stored, or would come back as something else.
        PayloadTooLarge: The text is over the limit.
    """
    try:
        plain = to_plain(value)
        raw = _write(plain)
    except Unfit as unfit:
        raise NotSerializable(*unfit.under(path)) from unfit.__cause__
    if len(raw) > limit:
        raise PayloadTooLarge(path, len(raw), limit)
    text = raw.decode()
    if is_encrypted(text):
        # It only looks so: spelled in another way, it is not taken for it once there are keys.
        return text.replace("s", "\\u0073", 1)
    return text


def decode(text: str, annotation: object = Any, *, path: str = "value") -> Any:
    """Read a value back.

    Args:
        text: JSON text.
        annotation: The declared type. ``Any`` gives plain data: what was a model comes back as a dict, an
            enum as its value, a date as text.
        path: What the value is called in errors.

    Returns:
        The value, made anew.

    Raises:
        InvalidValue: The text is no JSON, or does not fit the annotation, or pydantic cannot read that type.
    """
    try:
        if annotation is Any:
            return from_json(text, allow_inf_nan=False)
        return annotations.reader(annotation).read(text)
    except ValidationError as error:
        raise InvalidValue(*_first_problem(error, path)) from error
    except annotations.Unreadable as error:
        raise InvalidValue(path, str(error)) from error
    except Exception as error:  # the text is no JSON, or a validator of the declared type failed
        raise InvalidValue(path, f"cannot be read: {type(error).__name__}: {error}") from error


def normalize(value: object, annotation: object = Any, *, path: str = "result") -> tuple[str, Any]:
    """Write a value and read it back: what a run goes on with must be what its replay will see.

    Args:
        value: As for ``encode``.
        annotation: As for ``decode``.
        path: What the value is called in errors.

    Returns:
        The text, and the value as every replay reads it from there.

    Raises:
        NotSerializable: As for ``encode``. Also if it would come back as another member of a declared union,
            such as ``datetime | str``, whose members look the same in JSON.
        InvalidValue: As for ``decode``.
        PayloadTooLarge: As for ``encode``.
    """
    text = encode(value, path=path)
    kind = type(value)
    if kind in _UNCHANGED and (annotation is Any or annotation is kind):
        return text, value
    again = decode(text, annotation, path=path)
    if annotation is Any or not annotations.reader(annotation).is_ambiguous or _came_back(value, again):
        return text, again
    raise NotSerializable(path, _changed(value, again))


def digest(text: str) -> str:
    """Hash JSON text so that the order of keys and the spacing do not matter.

    Args:
        text: JSON text.

    Returns:
        The SHA-256 of its canonical form, in hexadecimal.
    """
    canonical = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _write(plain: Any) -> bytes:
    try:
        raw = to_json(plain)
    except PydanticSerializationError as error:
        check_text(plain)
        raise Unfit(str(error)) from error
    if len(raw) > scalars.MAX_DIGITS and _LONG_NUMBER.search(raw):
        check_text(plain)
    return raw


def _first_problem(error: ValidationError, path: str) -> tuple[str, str]:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first, more = problems[0], len(problems) - 1
    where = path + "".join(segment(key) for key in first["loc"])
    return where, first["msg"] + (f" (and {more} more)" if more else "")


def _came_back(value: object, again: object) -> bool:
    """Whether what was read is what was written, where a plain dict may stand for a model."""
    if isinstance(value, dict) and not isinstance(again, dict):
        return True
    if isinstance(value, list) and isinstance(again, list):
        pairs = zip(cast("list[object]", value), cast("list[object]", again), strict=True)
        return all(_came_back(item, read) for item, read in pairs)
    if isinstance(value, dict) and isinstance(again, dict):
        value, again = cast("dict[object, object]", value), cast("dict[object, object]", again)
        return value.keys() == again.keys() and all(_came_back(value[key], again[key]) for key in value)
    return value == again


def _changed(value: object, again: object) -> str:
    change = f"a {type(value).__name__} would come back as a {type(again).__name__}"
    if type(value) is type(again):
        change = "it would come back changed"
    return f"{change}, as members of its declared union look the same in JSON; declare one type, or tag them"
