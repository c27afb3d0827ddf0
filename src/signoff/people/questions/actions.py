"""Actions: the tool call, with its exact arguments, that runs once a question is approved."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from signoff import codec
from signoff.errors import InvalidValue, RegistrationError
from signoff.people.questions.proposals import full_json

LONGEST_TOOL = 256  # characters

_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # longer than any stored list


@dataclass(frozen=True, slots=True)
class Action:
    """The tool call that a workflow runs if a question is approved. People see it, and approve exactly it.

    Attributes:
        tool: The tool's name, such as ``send_mail``.
        arguments: Its arguments as JSON.
        about: Anything else that the approval covers, as JSON: for example which of several approvals of one call it
            is. A standing approval ("all like this") applies only to actions with an equal ``about``. Only a hash is
            stored; show the value to people yourself.

    Example::

        await ctx.wait_for_user("Send it?", action=Action("send_mail", {"to": "bob", "text": "Hello"}))
    """

    tool: str
    arguments: Mapping[str, Any]
    about: Any = None

    def to_data(self, text: str) -> dict[str, Any]:
        """Return the action as plain data.

        Args:
            text: The question's text, for error messages.

        Raises:
            RegistrationError: The tool name is invalid, or the arguments are not an object.
            NotSerializable: An argument or ``about`` is not JSON.
        """
        if (
            not 0 < len(self.tool) <= LONGEST_TOOL
            or not self.tool.isprintable()
            or self.tool != self.tool.strip()
        ):
            raise RegistrationError(f"question {text!r}: {self.tool!r} is not a valid tool name")
        arguments = full_json(self.arguments, "action.arguments")
        if not isinstance(arguments, dict):
            raise RegistrationError(
                f"question {text!r}: an action's arguments must be an object, keyed by name"
            )
        done: dict[str, Any] = {"tool": self.tool, "arguments": arguments}
        if self.about is None:
            return done
        return {**done, "about": codec.digest(codec.encode(full_json(self.about, "action.about")))}


def at_pointer(arguments: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer (RFC 6901). The empty pointer is the whole value.

    Raises:
        LookupError: Nothing is at the pointer.
        InvalidValue: It is not a valid JSON Pointer.
    """
    if pointer and not pointer.startswith("/"):
        raise InvalidValue("same", f"{pointer!r} is not a JSON Pointer such as /to or /lines/0/price")
    value = arguments
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value)[name]
        elif isinstance(value, list) and _INDEX.fullmatch(name):
            value = cast("list[Any]", value)[int(name)]
        else:
            raise KeyError(name)
    return value


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON text: unlike ``edits.is_same``, 1 and 1.0 differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def action_rows(proposal: Any, action: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Return the rows that show an action to people, as (label, value).

    Args:
        proposal: The proposal shown above them. Arguments equal to it are not repeated.
        action: ``{"tool": ..., "arguments": {...}}``, redacted for the viewer; None if the question has no action.
    """
    if action is None:
        return []
    tool, arguments = action["tool"], action.get("arguments")
    shown = [("Tool", tool)]
    return shown if is_same(arguments, proposal) else [*shown, ("Arguments", arguments)]
