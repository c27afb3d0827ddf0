"""The question of an interrupt, and the value that its answer gives to the graph."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from pydantic import TypeAdapter

from signoff import Action, Answer, Context, QuestionCancelled, SignalTimeout
from signoff.errors import RegistrationError, SignoffError
from signoff.integrations.langgraph.graph_steps import Raised

Schema = Mapping[str, Any]

DECISIONS: Final = ("approve", "edit", "reject", "respond")
_ANYTHING: Final[Schema] = {"type": "object"}


class DecisionNotAllowed(SignoffError):
    """A person decided what the graph's middleware does not allow for the tool, so nothing was decided."""


class GraphQuestions:
    """Asks people the interrupts of a graph.

    Args:
        context: The run's context.
        terms: Arguments of ``Context.wait_for_user`` for each question, such as ``assignees``.
        answers: The type of the answer to an interrupt without a schema, or a function of its value that returns it.
        tools: The schemas of the arguments of the graph's tools.
        name: The graph's name.
    """

    def __init__(
        self,
        context: Context,
        terms: Mapping[str, Any],
        answers: Any,
        tools: Mapping[str, Schema],
        name: str,
    ) -> None:
        self._context = context
        self._terms = terms
        self._answers = answers
        self._tools = tools
        self._name = name

    async def ask(self, raised: Raised, problem: str | None) -> Any:
        """Ask what an interrupt asks. Returns the value for the graph.

        Raises:
            SignalTimeout, QuestionCancelled: Nobody answered, and the graph has no answer for that.
            DecisionNotAllowed: A person has rejected a tool call that the middleware does not allow to reject.
            CannotRunHere: The type of the answer is not known.
        """
        value = raised["value"]
        if _is_review(value):
            configs: list[Any] = value["review_configs"]
            asked = [
                self._decide(
                    raised, each["name"], each["args"], _allowed(configs, place, each["name"]), each, place
                )
                for place, each in enumerate(value["action_requests"])
            ]
            return {"decisions": await asyncio.gather(*asked)}
        if _is_tool_call(value):
            branches = _branches(raised.get("schema", {}))
            form = branches.get("edit")
            return await self._decide(
                raised, value["name"], value["args"], [*branches], value, None, form, problem
            )
        return await self._ask_value(raised, problem)

    # Tool calls

    async def _decide(
        self,
        raised: Raised,
        tool: str,
        arguments: dict[str, Any],
        allowed: Sequence[str],
        shown: Mapping[str, Any],
        place: int | None,
        form: Schema | None = None,
        problem: str | None = None,
    ) -> dict[str, Any]:
        """Ask about one tool call. Returns a decision of the middleware."""
        unknown = [each for each in allowed if each not in DECISIONS]
        if unknown or not allowed:
            raise DecisionNotAllowed(f"tool {tool!r}: its allowed decisions {allowed!r} are not known")
        about = {"interrupt": raised["id"], **({} if place is None else {"action": place})}
        terms: dict[str, Any] = {**self._terms, "metadata": {**about, **self._terms.get("metadata", {})}}
        terms["help"] = "\n\n".join(filter(None, (problem, shown.get("description")))) or None
        try:
            if "approve" not in allowed and "edit" not in allowed:
                return await self._respond(tool, arguments, allowed, terms)
            answer = await self._approval(tool, arguments, allowed, form, terms)
        except SignalTimeout:
            return _rejection(tool, allowed, "No one decided in time.")
        except QuestionCancelled as withdrawn:
            return _rejection(tool, allowed, f"The question was withdrawn: {withdrawn}")
        return _decision(tool, arguments, allowed, answer)

    def _approval(
        self,
        tool: str,
        arguments: dict[str, Any],
        allowed: Sequence[str],
        form: Schema | None,
        terms: dict[str, Any],
    ) -> Awaitable[Answer]:
        ask = partial(self._context.wait_for_user, f"Allow {tool}?", action=Action(tool, arguments), **terms)
        if "edit" not in allowed:
            return ask()
        schema = form or self._tools.get(tool, _ANYTHING)
        try:
            return ask(proposal=arguments, proposal_type=dict(schema))
        except (
            SignoffError,
            ValueError,
        ):  # the model's arguments do not match it, or it is not a schema for forms
            return ask(proposal=arguments, proposal_type=dict(_ANYTHING))

    async def _respond(
        self, tool: str, arguments: dict[str, Any], allowed: Sequence[str], terms: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Ask for the result of a tool that a person is."""
        about = {**terms["metadata"], "tool": tool, "arguments": arguments}
        if "respond" not in allowed:
            raise DecisionNotAllowed(f"tool {tool!r} can only be rejected: allow another decision, too")
        answer = await self._context.wait_for_user(
            f"What does {tool} return?",
            input_type="text",
            skippable="reject" in allowed,
            **cast("dict[str, Any]", {**terms, "metadata": about}),
        )
        if answer.skipped:
            return _rejection(tool, allowed, answer.note)
        return {"type": "respond", "message": answer.value}

    # Other interrupts

    async def _ask_value(self, raised: Raised, problem: str | None) -> Any:
        schema = raised.get("schema") or self._schema_of(raised["value"])
        if schema is None:
            self._context.cannot_run_here(
                f"interrupt({raised['value']!r:.200}) does not declare its answer, and Signoff does not guess whether "
                "a text is a yes: pass response_schema= to interrupt(), or answers= to run_graph(), such as "
                "answers=bool"
            )
        text, shown = _text_of(raised["value"], self._name)
        terms: dict[str, Any] = {
            "help": problem,
            **self._terms,
            "metadata": {"interrupt": raised["id"], **shown, **self._terms.get("metadata", {})},
        }
        match schema:
            case {"type": "boolean"}:
                return (await self._context.wait_for_user(text, **terms)).approved is True
            case {"type": "string", "enum": [*options]}:
                chosen = self._context.wait_for_user(text, input_type="select", options=options, **terms)
                return (await chosen).value
            case {"type": "string"} if not {"pattern", "format", "const"} & schema.keys():
                lengths = {"min_length": schema.get("minLength"), "max_length": schema.get("maxLength")}
                written = self._context.wait_for_user(text, input_type="text", **lengths, **terms)
                return (await written).value
            case {"type": "object", "properties": {}}:
                form = self._context.wait_for_user(text, input_type="form", answer_type=dict(schema), **terms)
                return (await form).value
            case _:
                inner = {name: part for name, part in schema.items() if name != "$defs"}
                wrapped = {
                    "type": "object",
                    "properties": {"answer": inner},
                    "required": ["answer"],
                    "additionalProperties": False,
                    "$defs": schema.get("$defs", {}),
                }
                form = self._context.wait_for_user(text, input_type="form", answer_type=wrapped, **terms)
                return (await form).value["answer"]

    def _schema_of(self, value: Any) -> Schema | None:
        declared = self._answers
        if callable(declared) and not isinstance(declared, type):
            declared = cast("Callable[[Any], Any]", declared)(value)
        if declared is None or isinstance(declared, dict):
            return cast("Schema | None", declared)
        try:
            return TypeAdapter(declared).json_schema()
        except Exception as error:
            raise RegistrationError(f"answers: {declared!r} is not a type of an answer: {error}") from error


def _decision(tool: str, arguments: dict[str, Any], allowed: Sequence[str], answer: Answer) -> dict[str, Any]:
    if answer.approved is not True:
        return _rejection(tool, allowed, answer.note)
    if "edit" in allowed and (answer.edits or "approve" not in allowed):
        return {"type": "edit", "edited_action": {"name": tool, "args": answer.proposal}}
    if answer.edits or "approve" not in allowed:
        raise DecisionNotAllowed(f"tool {tool!r}: {allowed!r} does not include this decision")
    return {"type": "approve"}


def _rejection(tool: str, allowed: Sequence[str], reason: str | None) -> dict[str, Any]:
    if "reject" not in allowed:
        raise DecisionNotAllowed(
            f"tool {tool!r} was not allowed, and its middleware does not allow to reject it"
        )
    return {"type": "reject", **({"message": reason} if reason else {})}


def _is_review(value: Any) -> bool:
    """Whether it is the request of the human-in-the-loop middleware for several tool calls."""
    if not isinstance(value, dict):
        return False
    request = cast("dict[str, Any]", value)
    return isinstance(request.get("action_requests"), list) and isinstance(
        request.get("review_configs"), list
    )


def _is_tool_call(value: Any) -> bool:
    """Whether it is the request of the human-in-the-loop middleware for one tool call."""
    return isinstance(value, dict) and cast("dict[str, Any]", value).get("type") == "tool_approval"


def _allowed(configs: Sequence[Mapping[str, Any]], place: int, tool: str) -> Sequence[str]:
    if place < len(configs) and configs[place].get("action_name") == tool:
        return configs[place]["allowed_decisions"]
    return next((each["allowed_decisions"] for each in configs if each.get("action_name") == tool), ())


def _branches(schema: Schema) -> dict[str, Schema | None]:
    """Return the decisions that the schema of one tool call allows; for ``edit`` with the schema of its arguments."""
    defs: Mapping[str, Any] = schema.get("$defs", {})

    def resolved(part: Any) -> Mapping[str, Any]:
        name = part.get("$ref", "").removeprefix("#/$defs/")
        return {**resolved(defs[name]), **part} if name in defs else part

    found: dict[str, Schema | None] = {}
    for each in schema.get("oneOf") or schema.get("anyOf") or [schema]:
        properties = resolved(each).get("properties", {})
        kind = properties.get("type", {}).get("const")
        if not isinstance(kind, str):
            continue
        found[kind] = None
        if kind == "edit":
            action = resolved(properties.get("edited_action", {}))
            arguments = resolved(action.get("properties", {}).get("args", _ANYTHING))
            inner = {name: part for name, part in arguments.items() if name != "$ref"}
            found[kind] = {**inner, **({"$defs": defs} if defs else {})}
    return found


def _text_of(value: Any, name: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a question, and what is shown beside it."""
    if isinstance(value, str) and value.strip():
        return value, {}
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for key in ("question", "message", "prompt", "instruction"):
            if isinstance(text := fields.get(key), str) and text.strip():
                return text, {"value": {each: part for each, part in fields.items() if each != key}}
    return f"{name} asks", {"value": value}
