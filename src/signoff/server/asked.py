"""What a question asks, for the API's description: the ``data`` of a promise that is one.

A worker may have written anything as ``data``, so the description does not promise this shape to all of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, Union, get_args

from pydantic import Field
from typing_extensions import TypedDict

from signoff.people.questions import InputType


class AskedOption(TypedDict):
    """What can be selected."""

    value: str
    label: NotRequired[str]
    help: NotRequired[str]


class AskedAttachment(TypedDict):
    """What people may look at beside a question, by its address."""

    name: str
    url: str
    media_type: NotRequired[str]


class AskedAction(TypedDict):
    """What is done once a question is approved."""

    tool: str
    arguments: Any
    about: NotRequired[str]


class AskedQuorum(TypedDict):
    """How many must approve, of so many who vote at most."""

    approvals: int
    of: int


class AskedEscalation(TypedDict):
    """Others who are asked, too, or instead, when nobody has answered for so long."""

    after_seconds: float
    to: list[str]
    replace: bool


class AskedPolicy(TypedDict):
    """What holds of a question beside its form. Seconds count from when it was asked."""

    asked_at: NotRequired[float]
    excluded: NotRequired[Annotated[list[str], Field(description="Users who may not answer")]]
    quorum: NotRequired[AskedQuorum]
    remind_every: NotRequired[float]
    reminders: NotRequired[list[float]]
    escalations: NotRequired[list[AskedEscalation]]
    deadline: NotRequired[
        Annotated[float, Field(description="After how many seconds `timeout_answer` is taken")]
    ]
    timeout_answer: NotRequired[Any]


class Asked(TypedDict):
    """What a question asks."""

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
