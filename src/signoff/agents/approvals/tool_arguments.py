"""The arguments of a tool call: as the model sent them, as the tool gets them, and as people see them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import ToolsetTool
from pydantic_core import PydanticUndefined

from signoff.agents.steps.in_workflow import function_tool
from signoff.people.questions.edits import all_edits, is_same, rows_from
from signoff.people.schemas.shown_values import ABSENT, show, show_slots
from signoff.people.schemas.type_fields import Place, Slot, hints_of, parameter_slot

LONGEST: Final = 500
"""The longest shown text of the model, in characters, where the tool gets another value."""

MOST: Final = 20
"""The most shown rows or fields of the model's value."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        sent: The arguments from the model, as JSON.
        validated: The arguments that the tool gets: the objects that its validators made.
        shown: The arguments that people and policies see: ``validated`` in the tool's schema.
        unseen: The places of values that JSON cannot express; there, ``shown`` has the sent value.
        made: The places of values that the model did not send, and that each validation makes anew.
    """

    sent: dict[str, Any]
    validated: dict[str, Any]
    shown: dict[str, Any]
    unseen: Sequence[Place] = ()
    made: Sequence[Place] = ()

    @classmethod
    def of(
        cls, tool: ToolsetTool[Any] | None, name: str, args: object, validated: dict[str, Any]
    ) -> Arguments:
        """Return the arguments of a call.

        Args:
            tool: The tool; None: there is none.
            name: The name it is called by.
            args: The arguments from the model, a dict or its JSON.
            validated: The validated arguments.
        """
        sent = plain(args)
        found = None if tool is None else function_tool(tool, name)
        slots = () if found is None else _slots_of(found.function)
        single = None if found is None else found.function_schema.single_arg_name
        if found is not None and single is not None and set(validated) == {single}:
            given = _without_envelope(sent, single, found.function_schema.json_schema)
            seen = show(validated[single], given, hints_of(found.function).get(single))
        else:
            seen = show_slots(slots, validated, sent)
        written: object = seen.value
        value = cast("dict[str, Any]", written) if isinstance(written, dict) else validated
        has_own_schema = single is not None or (slots and all(slot.name in validated for slot in slots))
        if tool is not None and not has_own_schema:  # its validator fills in no defaults
            value = with_defaults(tool.tool_def.parameters_json_schema, value)
        return cls(sent, validated, value, tuple(seen.unseen), tuple(seen.made))

    @property
    def places(self) -> list[str]:
        """JSON Pointers to values that JSON cannot express."""
        return [_pointer(place) for place in self.unseen]

    @property
    def converted(self) -> dict[str, Any]:
        """The model's values of arguments that validators converted; long values are elided."""
        return {
            name: _cut(show(value).value)
            for name, value in self.sent.items()
            if name in self.shown and not _is_within(value, self.shown[name])
        }

    @property
    def differs(self) -> list[dict[str, Any]]:
        """The differences between the shown and the sent arguments."""
        edits = all_edits(show(self.sent).value, self.shown)
        return [{name: part for name, part in edit.items() if name != "old"} for edit in edits]

    @property
    def repeatable(self) -> dict[str, Any]:
        """The arguments to validate again for the same result, with the values that validators make anew."""
        sent = cast("dict[str, Any]", show(self.sent).value)
        for place in self.made:
            _add(sent, self.shown, place)
        return sent

    def edited(self, edit: Mapping[str, Any]) -> dict[str, Any]:
        """Return an edit as the model would have sent it.

        Its unchanged parts stay as the model sent them: they are not converted again.
        """
        sent = self.repeatable if self.made else self.sent
        return cast("dict[str, Any]", _merged(sent, self.shown, dict(edit)))


def plain(arguments: object) -> dict[str, Any]:
    """Return a call's arguments as plain JSON data; ``{}`` for none."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return {}  # no tool accepts them
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}


def sent_in(context: RunContext[Any]) -> dict[str, Any] | None:
    """Return the model's arguments of the call that runs; None: the model did not make it."""
    for message in reversed(context.messages):
        if isinstance(message, ModelResponse):
            called = [part for part in message.parts if isinstance(part, ToolCallPart)]
            return next(
                (plain(part.args) for part in called if part.tool_call_id == context.tool_call_id), None
            )
    return None


def _without_envelope(sent: dict[str, Any], name: str, schema: Mapping[str, Any]) -> Any:
    """Return the sent value of a single argument: its fields, or the value under its name."""
    is_wrapped = list(sent) == [name] and name not in schema.get("properties", {})
    return sent[name] if is_wrapped else sent


@lru_cache(512)
def _slots_of(function: Any) -> tuple[Slot, ...]:
    hints = hints_of(function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return tuple(
        parameter_slot(
            name,
            hints.get(name, Any),
            PydanticUndefined if each.default is inspect.Parameter.empty else each.default,
        )
        for name, each in parameters.items()
        if each.kind not in variadic
    )


DEEPEST: Final = 20
"""The depth to which defaults are filled in."""


def with_defaults(schema: object, value: Any, root: object = None, depth: int = 0) -> Any:
    """Fill in the defaults of a JSON Schema.

    Args:
        schema: The schema.
        value: Its value.
        root: The root schema, for references; None: this schema.
        depth: The depth of this value.
    """
    root = schema if root is None else root
    properties = _members_of(_members_of(_resolved(schema, root)).get("properties"))
    if not isinstance(value, dict) or depth > DEEPEST:
        return cast("Any", value)
    made = dict(cast("dict[str, Any]", value))
    for name, part in properties.items():
        if name in made:
            made[name] = with_defaults(part, made[name], root, depth + 1)
            continue
        for found in (_members_of(part), _members_of(_resolved(part, root))):
            if "default" in found:
                made[name] = deepcopy(found["default"])
                break
    return made


def _members_of(part: object) -> dict[str, Any]:
    return cast("dict[str, Any]", part) if isinstance(part, dict) else {}


def _resolved(schema: object, root: object) -> object:
    """Follow a schema's references within the root schema."""
    for _ in range(DEEPEST):
        reference = _members_of(schema).get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found = root
        for part in reference[2:].split("/"):
            found = _members_of(found).get(part.replace("~1", "/").replace("~0", "~"))
        schema = found
    return None


def _merged(sent: Any, shown: Any, edit: Any) -> Any:
    if sent is ABSENT:
        return edit
    if is_same(shown, edit):
        return sent
    if isinstance(sent, dict) and isinstance(shown, dict) and isinstance(edit, dict):
        return _merged_objects(
            cast("dict[str, Any]", sent), cast("dict[str, Any]", shown), cast("dict[str, Any]", edit)
        )
    if isinstance(sent, list) and isinstance(shown, list) and isinstance(edit, list):
        return _merged_lists(cast("list[Any]", sent), cast("list[Any]", shown), cast("list[Any]", edit))
    return edit


def _merged_objects(sent: dict[str, Any], shown: dict[str, Any], edit: dict[str, Any]) -> dict[str, Any]:
    is_plain = sent.keys() <= shown.keys()  # no validator has renamed fields
    made: dict[str, Any] = {}
    for name, value in edit.items():
        if name not in shown:
            made[name] = value
        elif name in sent:
            made[name] = _merged(sent[name], shown[name], value)
        elif not is_plain or not is_same(shown[name], value):
            made[name] = value
    return made


def _merged_lists(sent: list[Any], shown: list[Any], edit: list[Any]) -> list[Any]:
    """Return the rows of an edit. A moved or unchanged row stays as the model sent it."""
    if len(sent) != len(shown):
        return edit
    from_ = rows_from(shown, edit)
    return [
        value if n is None else _merged(sent[n], shown[n], value)
        for n, value in zip(from_, edit, strict=True)
    ]


def _is_within(sent: Any, shown: Any) -> bool:
    """Whether everything sent is shown unchanged."""
    if isinstance(sent, dict) and isinstance(shown, dict):
        held = cast("dict[str, Any]", shown)
        return all(
            name in held and _is_within(value, held[name])
            for name, value in cast("dict[str, Any]", sent).items()
        )
    if isinstance(sent, list) and isinstance(shown, list):
        first, second = cast("list[Any]", sent), cast("list[Any]", shown)
        return len(first) == len(second) and all(map(_is_within, first, second))
    return is_same(sent, shown)


def _add(sent: Any, shown: Any, place: Place) -> None:
    """Add a shown value at a place that was not sent, or at the first place around it that was not sent."""
    for part in place:
        shown = shown[part]
        if isinstance(sent, dict) and part not in sent:
            sent[part] = deepcopy(shown)
            return
        if isinstance(sent, list) and not (isinstance(part, int) and part < len(cast("list[Any]", sent))):
            return
        if not isinstance(sent, (dict, list)):
            return
        sent = cast("Any", sent)[part]


def _cut(sent: Any) -> Any:
    """Elide the middle of long values, with the omitted length. The rest keeps its names."""
    if len(json.dumps(sent)) <= LONGEST:
        return sent
    if isinstance(sent, dict):
        parts = list(cast("dict[str, Any]", sent).items())
        kept = {name: _cut(part) for name, part in parts[:MOST]}
        return kept if len(parts) <= MOST else {**kept, "…": f"{len(parts) - MOST} more"}
    if isinstance(sent, list):
        rows = cast("list[Any]", sent)
        kept_rows = [_cut(each) for each in rows[:MOST]]
        return kept_rows if len(rows) <= MOST else [*kept_rows, f"… {len(rows) - MOST} more"]
    text = str(sent)
    return f"{text[: LONGEST // 2]}… {len(text) - LONGEST // 2:,} characters more"


def _pointer(place: Place) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place)
