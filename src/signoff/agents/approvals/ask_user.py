"""``ask_user``: a tool with which a model asks a person several questions at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from pydantic_ai import ModelRetry, Tool

from signoff.agents.approvals.approval_policy import check_timeout
from signoff.agents.steps.in_workflow import in_workflow
from signoff.errors import OutsideWorkflow, QuestionCancelled, SignalTimeout
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.policies import Escalation
from signoff.people.questions.policy_options import PolicyOptions, check_policy_options
from signoff.records.responders import check_names
from signoff.workflow.context import Context
from signoff.workflow.current_context import current_context, refuse_here

_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 1},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
}


class AskedField(BaseModel):
    """One question of the form."""

    name: Annotated[
        str,
        Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$", description="The name of its value in the result"),
    ]
    question: Annotated[str, Field(min_length=1, description="The text that the person reads")]
    kind: Literal["text", "number", "boolean", "select", "multiselect"] = "text"
    options: Annotated[list[str], Field(description="The choices, for select and multiselect")] = []
    required: bool = True
    help: str | None = None

    def schema_of_answer(self) -> dict[str, Any]:
        """Return the JSON Schema of its answer. Raises ModelRetry if the field is invalid."""
        words = {"title": self.question, **({"description": self.help} if self.help else {})}
        if self.kind not in ("select", "multiselect"):
            return {**_TYPES[self.kind], **words}
        if not self.options or len(set(self.options)) != len(self.options):
            raise ModelRetry(f"field {self.name!r}: a {self.kind} needs options that differ from each other")
        if self.kind == "select":
            return {"type": "string", "enum": self.options, **words}
        chosen: dict[str, Any] = {"type": "array", "items": {"enum": self.options}, "uniqueItems": True}
        return {**chosen, **({"minItems": 1} if self.required else {}), **words}


def ask_user_tool(
    *,
    assignees: Sequence[str] = (),
    timeout: float | None = None,
    name: str = "ask_user",
    exclude_requester: bool = False,
    requester: str | None = None,
    remind_every: float | None = None,
    escalations: Sequence[Escalation] = (),
    hours: BusinessHours | None = None,
) -> Tool[Any]:
    """Return a tool like ``ask_user`` with a policy. The options are those of ``Context.wait_for_user``.

    It asks for a form, so one answer counts: a quorum is for approvals.

    Args:
        assignees: The people who may answer; by default any user.
        timeout: Seconds until the model reads that there was no answer.
        name: The tool's name.
        exclude_requester: Whether the requester must not answer (four eyes).
        requester: The requester, such as ``user:ana``; by default the user who started the run.
        remind_every: Seconds between reminders.
        escalations: The people who may also answer if the question stays open.
        hours: The working time in which all these seconds count.

    Raises:
        InvalidValue: An assignee or a time is invalid.
        RegistrationError: The options do not fit together, or too few people could answer.
    """
    policy: PolicyOptions = {
        "assignees": check_names("assignees", assignees),
        "timeout_seconds": check_timeout(timeout),
        "exclude_requester": exclude_requester,
        "requester": requester,
        "remind_every": remind_every,
        "escalations": escalations,
        "hours": hours,
    }
    check_policy_options(name, "form", policy)
    return Tool(in_workflow(_asking(policy)), name=name, takes_ctx=False)


def _asking(policy: PolicyOptions) -> Callable[[str, list[AskedField]], Awaitable[dict[str, Any] | str]]:
    async def ask_user(message: str, fields: list[AskedField]) -> dict[str, Any] | str:
        """Ask the person you work for. Use it when you cannot know their wishes.

        Args:
            message: The subject.
            fields: The questions.
        """
        names = [field.name for field in fields]
        if not names or len(set(names)) != len(names):
            raise ModelRetry("ask for at least one field, and use each name once")
        form = {
            "type": "object",
            "properties": {field.name: field.schema_of_answer() for field in fields},
            "required": [field.name for field in fields if field.required],
            "additionalProperties": False,
        }
        try:
            answer = await _context_here().wait_for_user(
                message,
                input_type="form",
                answer_type=form,
                **policy,
                skippable=not any(field.required for field in fields),
            )
        except SignalTimeout:
            return "There was no answer in time."
        except QuestionCancelled:
            return "The question was withdrawn."
        return "They did not want to answer." if answer.skipped else answer.value

    return ask_user


def _context_here() -> Context:
    try:
        return current_context()
    except OutsideWorkflow as error:
        raise refuse_here(error) from None


ask_user = in_workflow(_asking({}))
"""A tool for ``Agent(tools=[ask_user])``: the model asks for texts, numbers and choices, in one form in the inbox."""
