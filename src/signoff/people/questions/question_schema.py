"""Schema of a question: the JSON in ``data`` of a question's promise. Readers validate rows against it.

Rows of earlier versions may differ, so the API description does not promise this shape for all ``data``.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, NotRequired, Union, cast, get_args

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

InputType = Literal["approval", "text", "select", "multiselect", "form", "external"]

Seconds = Annotated[float, Field(allow_inf_nan=False)]


class AskedOption(TypedDict):
    """An option of a question."""

    value: str
    label: NotRequired[str]
    help: NotRequired[str]


class AskedAttachment(TypedDict):
    """A file to look at, by URL."""

    name: str
    url: str
    media_type: NotRequired[str]


class AskedAction(TypedDict):
    """The tool call that runs if the question is approved."""

    tool: str
    arguments: Any
    about: NotRequired[str]


class AskedQuorum(TypedDict):
    """The number of approvals needed, and the maximum number of votes."""

    approvals: int
    of: int


class AskedEscalation(TypedDict):
    """Additional or replacement assignees if the question stays unanswered for some time."""

    after_seconds: Seconds
    to: list[str]
    replace: NotRequired[bool]


class AskedPolicy(TypedDict):
    """The rules of a question beside its form. Seconds count from when it was asked."""

    asked_at: NotRequired[Seconds]
    excluded: NotRequired[Annotated[list[str], Field(description="Users who may not answer")]]
    quorum: NotRequired[AskedQuorum]
    remind_every: NotRequired[Seconds]
    reminders: NotRequired[list[Seconds]]
    escalations: NotRequired[list[AskedEscalation]]
    deadline: NotRequired[
        Annotated[Seconds, Field(description="After how many seconds `timeout_answer` is taken")]
    ]
    timeout_answer: NotRequired[Any]


class Asked(TypedDict):
    """A question."""

    text: str
    input_type: Annotated[
        str, Field(description=f"{', '.join(get_args(InputType))}, or what a newer version has")
    ]
    answer_schema: Annotated[
        dict[str, Any], Field(description="JSON Schema that the answer's value must fit")
    ]
    options: list[AskedOption]
    metadata: Annotated[Any, Field(description="What else is shown; an object, unless it is redacted")]
    skippable: bool
    digest: Annotated[str, Field(description="Of all that is asked; an answer may say which one it saw")]
    help: NotRequired[str]
    default: NotRequired[Annotated[Any, Field(description="What the form begins with")]]
    attachments: NotRequired[list[AskedAttachment]]
    other: NotRequired[
        Annotated[str, Field(description="Label of a text of their own, where one may be written instead")]
    ]
    proposal: NotRequired[Annotated[Any, Field(description="What is approved")]]
    action: NotRequired[AskedAction]
    callback: NotRequired[Annotated[dict[str, Any], Field(description="How it is answered from elsewhere")]]
    policy: NotRequired[AskedPolicy]


PROMISED: Final = Annotated[
    Union[Asked, Any],  # noqa: UP007 - a class of TypedDict has no |
    Field(description="Of a question what it asks, of another promise any JSON"),
]
"""The ``data`` of a promise."""


def problem_in_question(data: object) -> str | None:
    """Return why ``data`` is not a readable question, with the field; None: it is readable."""
    try:
        asked = _asked().validate_python(data, strict=True)
    except ValidationError as error:
        return _first(error)
    if asked.get("proposal") is not None:
        form: Any = asked["answer_schema"].get("properties")
        edited: Any = cast("dict[str, Any]", form).get("edited") if isinstance(form, dict) else None
        if not isinstance(edited, dict):
            return "answer_schema.properties.edited: a question with a proposal needs a schema for edited values there"
    return None


def problem_in_policy(data: object) -> str | None:
    """Return why ``data`` is not a readable policy, with the field; None: it is readable."""
    try:
        policy = _policies().validate_python(data, strict=True)
    except ValidationError as error:
        return _first(error)
    if policy.get("remind_every", 1.0) <= 0:
        return "remind_every: must be above 0"
    return None


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)


@cache
def _policies() -> TypeAdapter[AskedPolicy]:
    return TypeAdapter(AskedPolicy)


@cache
def _asked() -> TypeAdapter[Asked]:
    return TypeAdapter(Asked)
