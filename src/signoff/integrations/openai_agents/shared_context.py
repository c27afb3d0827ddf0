"""The context object of an agent's run. Each tool call gets a copy; its changes are journaled with its result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from signoff.errors import NotSerializable


class SharedContext:
    """The context object of an agent's run.

    Args:
        context: A dict of JSON, a dataclass or a model that JSON can restore; or None.

    Raises:
        NotSerializable: It is anything else, or a part of it is not JSON.
    """

    def __init__(self, context: Any) -> None:
        self._context: Any = context
        self._is_dict = type(context) is dict
        kind = cast("type[Any]", type(context))
        is_known = context is None or kind is dict or isinstance(context, BaseModel)
        if not is_known and not dataclasses.is_dataclass(context):
            raise NotSerializable(
                "context",
                f"{kind.__name__} is not a dict, a dataclass or a pydantic model; keep clients and connections in "
                "module variables",
            )
        try:
            self._type = TypeAdapter[Any](kind)
        except PydanticUserError as error:
            raise NotSerializable("context", str(error)) from error
        copy, _ = self.copy()
        if kind is dict and copy != context:
            raise NotSerializable(
                "context",
                "the dict has values that JSON does not restore; use a dataclass or a pydantic model",
            )

    def copy(self) -> tuple[Any, dict[str, Any]]:
        """Return a copy of the context, and its JSON.

        Raises:
            NotSerializable: A part of it is not JSON.
        """
        try:
            data = self._type.dump_python(self._context, mode="json")
            return self._read(data), data or {}
        except ValueError as error:
            raise NotSerializable("context", str(error)) from error

    def _read(self, data: Any) -> Any:
        return self._type.validate_python(data, by_alias=True, by_name=True)

    def changes(self, copy: Any, before: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the fields that a tool has changed in its copy, as JSON; None if there are none."""
        after = cast("dict[str, Any]", self._type.dump_python(copy, mode="json") or {})
        changed = {
            name: value for name, value in after.items() if name not in before or before[name] != value
        }
        removed = [name for name in before if name not in after]
        return {"set": changed, "removed": removed} if changed or removed else None

    def apply(self, changes: Mapping[str, Any] | None) -> None:
        """Make a tool's changes in the context itself."""
        if changes is None:
            return
        if self._is_dict:
            context: dict[str, Any] = self._context
            context.update(changes["set"])
            for name in changes["removed"]:
                context.pop(name, None)
            return
        data = self.copy()[1]
        changed = self._read({**data, **changes["set"]})
        for name in changes["set"]:
            setattr(self._context, name, getattr(changed, name))
