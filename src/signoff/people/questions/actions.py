"""What is done once a question is approved: a tool, with its very arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from signoff import codec
from signoff.errors import InvalidValue, RegistrationError
from signoff.people.questions.proposals import written_in_full

LONGEST_TOOL = 256  # characters

_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # no list that is kept is longer


@dataclass(frozen=True, slots=True)
class Action:
    """What a workflow will do if a question is approved. People are shown it, and approve no other.

    Attributes:
        tool: What does it, such as ``send_mail``.
        arguments: With which arguments, as JSON has them.
        about: What is approved of it where it is asked about more than once, or something beside it, as JSON. A rule
            ("all like this") approves only what is about the very same. A hash of it is kept; show it yourself.

    Example::

        await ctx.wait_for_user("Send it?", action=Action("send_mail", {"to": "bob", "text": "Hello"}))
    """

    tool: str
    arguments: Mapping[str, Any]
    about: Any = None

    def to_data(self, text: str) -> dict[str, Any]:
        """Return it as plain data.

        Args:
            text: The question's, for messages.

        Raises:
            RegistrationError: The tool has no name, or the arguments are not by name.
            NotSerializable: An argument, or what it is about, is not JSON.
        """
        if (
            not 0 < len(self.tool) <= LONGEST_TOOL
            or not self.tool.isprintable()
            or self.tool != self.tool.strip()
        ):
            raise RegistrationError(f"question {text!r}: {self.tool!r} is no name of a tool")
        arguments = written_in_full(self.arguments, "action.arguments")
        if not isinstance(arguments, dict):
            raise RegistrationError(f"question {text!r}: an action's arguments are an object, by their names")
        done: dict[str, Any] = {"tool": self.tool, "arguments": arguments}
        if self.about is None:
            return done
        return {**done, "about": codec.digest(codec.encode(written_in_full(self.about, "action.about")))}


def found_at(arguments: Any, pointer: str) -> Any:
    """Return what is at a JSON Pointer (RFC 6901); the empty one is the whole.

    Raises:
        LookupError: Nothing is there.
        InvalidValue: It is no JSON Pointer.
    """
    if pointer and not pointer.startswith("/"):
        raise InvalidValue("same", f"{pointer!r} is no JSON Pointer, such as /to or /lines/0/price")
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
    """Whether two are the very same JSON: 1 is neither 1.0 nor true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def shown_beside(proposal: Any, action: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Return what people are shown of an action: (label, value) each.

    Args:
        proposal: What they are shown as proposed; arguments that are the very same are not shown twice.
        action: ``{"tool": ..., "arguments": {...}}``, as they may see it; None: there is none.
    """
    if action is None:
        return []
    tool, arguments = action["tool"], action.get("arguments")
    shown = [("Tool", tool)]
    return shown if is_same(arguments, proposal) else [*shown, ("Arguments", arguments)]
