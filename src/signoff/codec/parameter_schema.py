"""The parameters of a function as a JSON Schema, from which forms are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, Final, NotRequired, Required, Unpack, get_args, get_origin, get_type_hints

import typing_extensions
from pydantic_core import from_json

from signoff.codec.annotations import schemas
from signoff.codec.signatures import signature
from signoff.codec.values import encode
from signoff.errors import SignoffError

BY_POSITION: Final = "x-by-position"
"""The keyword that lists the parameters to pass in ``args``, in order. All others are passed in ``kwargs``."""

REST: Final = "x-rest"
"""The keyword that names the list whose items follow them in ``args``."""

MAX_DEFAULT: Final = 4096
"""Longer defaults (as JSON) are omitted."""

_REST_KEY: Final = "**"


def parameters_schema(function: Callable[..., Any], *, skip: int = 1) -> dict[str, Any] | None:
    """Describe the parameters of a function.

    ``*args`` is a list under its name, named by ``x-rest``; ``**kwargs`` is ``additionalProperties``.
    ``x-by-position`` lists the parameters that cannot be passed by name. A parameter of unknown type has the empty
    schema. Defaults that JSON does not have, and those of secrets, are omitted.

    Args:
        function: The function.
        skip: How many leading parameters the engine passes, such as ``ctx``.

    Returns:
        A JSON Schema (2020-12) of an object with a property for each parameter; None for a builtin that Python
        cannot describe.

    Example::

        parameters_schema(refund)["properties"]["cents"] == {"title": "cents", "type": "integer", "default": 0}
    """
    described = signature(function, skip)
    if described is None:
        return None
    parameters = _without(list(described.shape.parameters.values()), skip)
    declared = {each.name: described.hints.get(each.name, Any) for each in parameters}
    options: dict[str, Any] = {}
    required = [
        each.name for each in parameters if each.default is Parameter.empty and each.kind not in _CATCH_ALL
    ]
    for rest in (each for each in parameters if each.kind is Parameter.VAR_KEYWORD):
        options, needed = _options(declared.pop(rest.name))
        required.extend(needed)
    named, definitions = schemas({**declared, **options})
    properties: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind is not Parameter.VAR_KEYWORD:
            properties[parameter.name] = _property(parameter, named[parameter.name])
    for name in options:
        if name != _REST_KEY:
            properties[name] = {"title": name, **named[name]}
    made: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": named.get(_REST_KEY, False),
        **_by_position(parameters),
    }
    return {**made, "$defs": definitions} if definitions else made


def description_of(function: Callable[..., Any], longest: int) -> str | None:
    """Return the first paragraph of a function's docstring on one line, cut to ``longest`` characters, or None."""
    first = (inspect.getdoc(function) or "").strip().split("\n\n")[0]
    text = " ".join(first.split())
    return (text if len(text) <= longest else f"{text[: longest - 1]}…") or None


def _without(parameters: list[Parameter], skip: int) -> list[Parameter]:
    """Return the parameters without those that the engine fills. ``*args`` stays, since it takes any number."""
    taken = 0
    while taken < min(skip, len(parameters)) and parameters[taken].kind is not Parameter.VAR_POSITIONAL:
        taken += 1
    return parameters[taken:]


def _options(annotation: Any) -> tuple[dict[str, Any], Sequence[str]]:
    """Return the types that ``**kwargs`` takes, by name or one for all, and the names of the required ones."""
    if get_origin(annotation) is not Unpack:
        return {_REST_KEY: annotation}, ()
    (kind,) = get_args(annotation)
    if not typing_extensions.is_typeddict(kind):
        return {_REST_KEY: Any}, ()
    marks = {name: get_origin(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    needed = [
        name
        for name, mark in marks.items()
        if mark is Required or (mark is not NotRequired and name in kind.__required_keys__)
    ]
    return dict(get_type_hints(kind)), needed


def _property(parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return {"title": parameter.name, "type": "array", "items": schema}
    titled = {**schema, "title": parameter.name}
    if parameter.default is Parameter.empty or schema.get("writeOnly"):
        return titled
    try:
        return {
            **titled,
            "default": from_json(encode(parameter.default, path=parameter.name, limit=MAX_DEFAULT)),
        }
    except SignoffError:
        return titled


def _by_position(parameters: Sequence[Parameter]) -> dict[str, Any]:
    rest = next((each.name for each in parameters if each.kind is Parameter.VAR_POSITIONAL), None)
    kinds = _ONLY_BY_POSITION if rest is None else _ANY_POSITION
    names = [each.name for each in parameters if each.kind in kinds]
    keywords: dict[str, Any] = {BY_POSITION: names} if names else {}
    return keywords if rest is None else {**keywords, REST: rest}


_CATCH_ALL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_ONLY_BY_POSITION = (Parameter.POSITIONAL_ONLY,)
_ANY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
