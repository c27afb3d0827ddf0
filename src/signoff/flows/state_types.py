"""The declared types of a flow's state: values are validated by them, and come back as the same types."""

from __future__ import annotations

import collections.abc
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from signoff import codec
from signoff.codec.annotations import Unreadable, reader
from signoff.errors import NotSerializable, RegistrationError

_LISTS: Final = (list, collections.abc.Sequence, collections.abc.MutableSequence)


class StateTypes:
    """The types of a state's keys. A key without a type is plain JSON data.

    Args:
        types: The types, by key.
    """

    def __init__(self, types: Mapping[str, Any] | None = None) -> None:
        self._types: dict[str, Any] = dict(types or {})

    @classmethod
    def of(cls, flow: str, declared: object) -> StateTypes:
        """Read the argument of ``Flow(state=...)``.

        Args:
            flow: The flow's name.
            declared: Types by key, a class with fields, or None.

        Raises:
            RegistrationError: It is something else, or a type cannot be evaluated.
        """
        if declared is None:
            return cls()
        if isinstance(declared, Mapping):
            types = dict(cast("Mapping[str, Any]", declared))
        else:
            types = _fields_of(flow, declared)
        for key, type in types.items():
            if isinstance(type, str):
                raise RegistrationError(
                    f"flow {flow!r}, state.{key}: pass the type itself, not the text {type!r}"
                )
            try:
                reader(type)
            except Unreadable as error:
                raise RegistrationError(f"flow {flow!r}, state.{key}: {error}") from None
        return cls(types)

    def write(self, key: str, value: Any) -> Any:
        """Return a value for a key as plain data.

        Raises:
            NotSerializable: It would come back changed.
            InvalidValue: It does not match the key's type.
            PayloadTooLarge: It is over the limit.
        """
        return self._plain(key, value, self._types.get(key, Any))

    def write_item(self, key: str, value: Any) -> Any:
        """Return an item for a key's list as plain data. Raises as ``write`` does."""
        declared = self._types.get(key, Any)
        items = typing.get_args(declared) if typing.get_origin(declared) in _LISTS else ()
        return self._plain(key, value, items[0] if items else Any)

    def read(self, key: str, plain: Any) -> Any:
        """Return a key's plain data as its declared type.

        Raises:
            InvalidValue: It does not match the type.
        """
        return codec.decode(
            codec.encode(plain, limit=codec.MAX_CARRIED), self._types[key], path=f"state.{key}"
        )

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def _plain(self, key: str, value: Any, declared: Any) -> Any:
        try:
            return json.loads(codec.normalize(value, declared, path=f"state.{key}")[0])
        except NotSerializable as error:
            remedy = f"Flow(state={{{key!r}: ...}})"
            raise NotSerializable(
                error.path, error.reason.replace("an annotation, or returns=", remedy)
            ) from error.__cause__


class TypedState(Mapping[str, Any]):
    """A read-only state whose values are decoded by their declared types, once.

    Args:
        plain: The state, as plain data.
        types: The declared types.
    """

    def __init__(self, plain: Mapping[str, Any], types: StateTypes) -> None:
        self._plain = plain
        self._types = types
        self._read: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._types:
            return self._plain[key]
        if key not in self._read:
            self._read[key] = self._types.read(key, self._plain[key])
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    def __len__(self) -> int:
        return len(self._plain)

    def __repr__(self) -> str:
        return repr(dict(self))

    def forget(self, key: str) -> None:
        """Decode a key anew, because its value has changed."""
        self._read.pop(key, None)


def _fields_of(flow: str, declared: object) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    if isinstance(declared, type):
        try:
            hints = typing.get_type_hints(declared, include_extras=True)
        except NameError as error:
            raise RegistrationError(
                f"flow {flow!r}: the annotations of {declared.__name__} cannot be evaluated: {error}"
            ) from None
    if not hints:
        raise RegistrationError(
            f"flow {flow!r}: state= is a mapping of keys to types, or a class that declares fields, such as a "
            f"TypedDict, not {declared!r}"
        )
    return {
        name: _bare(hint)
        for name, hint in hints.items()
        if not name.startswith("_") and typing.get_origin(hint) is not typing.ClassVar
    }


def _bare(hint: Any) -> Any:
    """Return the type of a field, without ``Required`` or ``NotRequired``."""
    while typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        (hint,) = typing.get_args(hint)
    return hint
