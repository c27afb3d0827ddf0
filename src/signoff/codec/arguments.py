"""The arguments of a call to JSON text and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_json

from signoff.codec.annotations import Unreadable, reader
from signoff.codec.signatures import Signature, Slot, signature
from signoff.codec.values import MAX_BYTES, decode, encode, encode_for, normalize
from signoff.errors import InvalidValue, PayloadTooLarge


class _Envelope(BaseModel):
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


def encode_arguments(
    function: Callable[..., Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    skip: int = 1,
    limit: int = MAX_BYTES,
    name: str | None = None,
    known: Callable[..., Any] | None = None,
) -> str:
    """Write the arguments of a call as JSON text.

    The text is canonical if the function is given: what can be passed by position is, and the rest is sorted
    by name, so ``f(1, b=2)`` and ``f(1, 2)`` give the same text. Defaults are not filled in.

    Args:
        function: What will be called, if it is known here. Then the arguments are checked against it.
        args: The arguments by position, without those that the engine passes.
        kwargs: The arguments by name.
        skip: How many leading parameters the engine passes, such as ``ctx``.
        limit: How long the text may be, in UTF-8 bytes.
        name: What will be called, if that is known by its name only.
        known: The function that has this name here, if there is one. The arguments must fit the types that it declares.
            Their text does not depend on it, so that a call by name is the same in every process.

    Returns:
        ``{"args": [...], "kwargs": {...}}``

    Raises:
        InvalidValue: They do not fit the function's parameters, or the types declared for these.
        NotSerializable: One of them cannot be stored.
        PayloadTooLarge: They are over the limit together.
    """
    described = None if function is None else signature(function, skip)
    if described is None:
        return _by_name(name, known, args, kwargs, skip, limit)
    args, kwargs = _bind(described, args, kwargs)
    texts = [_write(value, described.at(index), limit) for index, value in enumerate(args)]
    named = {name: _write(value, described.named(name), limit) for name, value in kwargs.items()}
    return _envelope(texts, named, limit)


def _by_name(
    name: str | None,
    known: Callable[..., Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    skip: int,
    limit: int,
) -> str:
    """Write the arguments of a call whose function may be another one where it runs."""
    described = None if known is None else signature(known, skip)
    if described is not None:
        try:
            described.bind(args, kwargs)
        except TypeError:  # it may have other parameters where it runs
            described = None
    reader = "a function that is not known here" if name is None else f"workflow {name!r}, called by name,"

    def write(value: object, key: int | str) -> str:
        path = f"args[{key}]" if isinstance(key, int) else f"args.{key}"
        slot = Slot("", Any)
        if described is not None:
            slot = described.at(key) if isinstance(key, int) else described.named(key)
        if slot.annotation is Any:
            return encode_for(reader, value, path=path, limit=limit)
        return _write(value, slot, limit)

    texts = [write(value, index) for index, value in enumerate(args)]
    return _envelope(texts, {key: write(value, key) for key, value in kwargs.items()}, limit)


def decode_arguments(
    text: str, function: Callable[..., Any], *, skip: int = 1
) -> tuple[list[Any], dict[str, Any]]:
    """Read the arguments of a call back, each as its parameter declares it.

    Args:
        text: What ``encode_arguments`` wrote.
        function: What will be called.
        skip: How many leading parameters the engine passes, such as ``ctx``.

    Returns:
        The arguments by position, without those the engine passes, and those by name.

    Raises:
        InvalidValue: They do not fit the function as it is now.
    """
    stored: _Envelope = decode(text, _Envelope, path="args")
    described = signature(function, skip)
    if described is None:
        return stored.args, stored.kwargs
    args, kwargs = _bind(described, stored.args, stored.kwargs)
    return (
        [_read(value, described.at(index)) for index, value in enumerate(args)],
        {name: _read(value, described.named(name)) for name, value in kwargs.items()},
    )


def settled_arguments(text: str, function: Callable[..., Any], *, skip: int = 1) -> str | None:
    """Write down what is made of arguments when they are read, so that it is made once.

    The caller may not have had the function, as with a run that was started over HTTP. Then default factories
    and validators run when they are read, and may give another value each time. So may a parameter's default that is
    an object: each process makes its own.

    Args:
        text: What a run was started with.
        function: What will be called.
        skip: How many leading parameters the engine passes, such as ``ctx``.

    Returns:
        The arguments with what was made of them; None if nothing was, or if it cannot be written.
    """
    described = signature(function, skip)
    if described is None or not _makes_values(described):
        return None
    try:
        args, kwargs = decode_arguments(text, function, skip=skip)
        bound = described.shape.bind(*[None] * skip, *args, **kwargs)
        bound.apply_defaults()
        settled = encode_arguments(function, bound.args[skip:], bound.kwargs, skip=skip)
    except Exception:  # they do not fit, or do not come back as they are: the run says so
        return None
    return None if settled == text else settled


def settled_value(text: str, annotation: object) -> str | None:
    """Write down what is made of a value when it is read as a type, so that it is made once.

    Args:
        text: The value, as JSON.
        annotation: The type.

    Returns:
        The value with what its type made of it, such as defaults of a factory; None if nothing was, or if it cannot be
        written.
    """
    if not _runs_code(annotation):
        return None
    try:
        settled = encode(decode(text, annotation))
    except Exception:  # it does not fit, or does not come back as it is: its reader says so
        return None
    return None if json.loads(settled) == json.loads(text) else settled


def _makes_values(described: Signature) -> bool:
    parameters = list(described.shape.parameters.values())[described.skip :]
    if any(type(each.default) not in _CONSTANT for each in parameters):
        return True
    return any(_runs_code(described.hints.get(each.name, Any)) for each in parameters)


def _runs_code(annotation: object) -> bool:
    try:
        return annotation is not Any and reader(annotation).runs_code
    except Unreadable:
        return False


_CONSTANT: Final = (bool, int, float, str, type(None), type, tuple)  # the last two: there is none, and ``()``


def _bind(
    described: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    try:
        return described.bind(args, kwargs)
    except TypeError as error:
        raise InvalidValue("args", str(error)) from None


def _write(value: object, slot: Slot, limit: int) -> str:
    text, _ = normalize(value, slot.annotation, path=f"args.{slot.name}", limit=limit)
    return text


def _read(plain: Any, slot: Slot) -> Any:
    if slot.annotation is Any or type(plain) is slot.annotation:
        return plain
    return decode(to_json(plain).decode(), slot.annotation, path=f"args.{slot.name}")


def _envelope(args: list[str], kwargs: Mapping[str, str], limit: int) -> str:
    named = ",".join(f"{encode(name, path='args')}:{kwargs[name]}" for name in sorted(kwargs))
    text = f'{{"args":[{",".join(args)}],"kwargs":{{{named}}}}}'
    size = len(text.encode())
    if size > limit:
        raise PayloadTooLarge("args", size, limit)
    return text
