"""A workflow as an agent: its card, its callers, and the questions that they may answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.requests import Request

from signoff import AsyncClient, Promise, Question, Run, Signoff, codec
from signoff.errors import InvalidValue
from signoff.people.questions.call_questions import is_about_call

PREFIX: Final = "a2a-"
"""The beginning of the ids of runs that were started through A2A."""

LONGEST_ID: Final = 200
"""Characters of a message's id, and of an escaped context id."""

_CONTEXT: Final = "~"


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated agent or user behind a request.

    Attributes:
        user_id: Its name, such as ``travel-agent``.
        groups: Its groups, without ``group:``.
        roles: Its roles, without ``role:``.
    """

    user_id: str
    groups: Collection[str] = ()
    roles: Collection[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.user_id, str) or not self.user_id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidValue("user_id", "a caller needs a user id")

    @property
    def name(self) -> str:
        """The caller as an assignee: ``user:travel-agent``."""
        return self.user_id if self.user_id.startswith("user:") else f"user:{self.user_id}"


Authenticate = Callable[[Request], "Caller | Awaitable[Caller | None] | None"]
MayAnswer = Callable[[Caller, Promise], bool]
ArgumentsOf = Callable[[str, Any], Mapping[str, Any]]


def asked_of_caller(caller: Caller, question: Promise) -> bool:
    """Whether a question is the caller's by default: it is assigned to it by name, or is not a person's to decide.

    People decide on approvals, on calls of agents, on steps whose outcome is unknown, and on questions that are
    assigned to others.
    """
    asked = Question.of(question)
    if is_about_call({"action": asked.action, "metadata": asked.metadata}):
        return False
    if question.assignees:
        return caller.name in question.assignees
    return asked.input_type not in ("approval", "external")


@dataclass(frozen=True, slots=True, kw_only=True)
class A2AAgent:
    """A workflow as an agent of the A2A protocol.

    Attributes:
        source: The app, or a client of a server. A client must be open.
        workflow: The name of the workflow. The first message of a task starts a run of it.
        url: The public URL of the agent, under which ``a2a_routes`` are mounted, such as
            ``https://agents.example.com/refunds``.
        caller: Authenticates a request, such as by its bearer token; None refuses it (401). It alone says whose tasks
            are visible and who answers, never the message. It may be async.
        description: Its purpose, for the agents that choose among agents.
        name: Its name; by default the workflow's.
        version: The version in its card.
        may_answer: Decides whether a caller may answer a question through A2A. By default ``asked_of_caller``. The
            question's own rules (assignees, four eyes, quorum) count in any case.
        arguments_of: Returns the run's arguments by name, of the message's text and its data. By default the data are
            the arguments, or else the text is the first one.
        amend_card: Changes the card before it is served, such as its security schemes and examples.
        patience: Seconds after which a message that waits for the task returns the task as it is.

    Example::

        agent = A2AAgent(source=app, workflow="refund", url="https://agents.example.com/refunds", caller=signed_in)
        service = Starlette(routes=a2a_routes(agent))
    """

    source: Signoff | AsyncClient
    workflow: str
    url: str
    caller: Authenticate
    description: str = ""
    name: str = ""
    version: str = "1.0.0"
    may_answer: MayAnswer = asked_of_caller
    arguments_of: ArgumentsOf | None = None
    amend_card: Callable[[AgentCard], None] | None = None
    patience: float = 50.0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[AsyncClient]:
        """Provide a client."""
        if isinstance(self.source, AsyncClient):
            yield self.source
            return
        async with AsyncClient(self.source) as client:
            yield client

    def card(self) -> AgentCard:
        """Return the agent's card."""
        name = self.name or self.workflow
        description = self.description or f"Runs the workflow {self.workflow}."
        card = AgentCard(
            name=name,
            description=description,
            version=self.version,
            supported_interfaces=[
                AgentInterface(url=self.url, protocol_binding="JSONRPC", protocol_version=version)
                for version in ("1.0", "0.3")
            ],
            capabilities=AgentCapabilities(streaming=True, push_notifications=False),
            default_input_modes=["text/plain", "application/json"],
            default_output_modes=["text/plain", "application/json"],
            skills=[
                AgentSkill(id=self.workflow, name=name, description=description, tags=["signoff", "workflow"])
            ],
        )
        if self.amend_card is not None:
            self.amend_card(card)
        return card

    def task_id(self, caller: Caller, message_id: str, context_id: str) -> str:
        """Return the id of the task that a message starts: sent twice, it starts one.

        The id carries the client's context, so no other record has to.

        Raises:
            InvalidValue: The message's id or the context id is too long.
        """
        context = quote(context_id, safe="")
        for path, id in (("messageId", message_id), ("contextId", context)):
            if len(id) > LONGEST_ID:
                raise InvalidValue(path, f"it is longer than {LONGEST_ID} characters")
        start = PREFIX + codec.digest(codec.encode([self.workflow, caller.user_id, message_id]))[:40]
        return f"{start}{_CONTEXT}{context}" if context else start

    def owns(self, run: Run, caller: Caller) -> bool:
        """Whether a run is a task of this agent that the caller has started."""
        is_ours = run.id.startswith(PREFIX) and run.workflow == self.workflow
        return is_ours and run.started_by == caller.name


def context_of(task_id: str) -> str:
    """Return the context id of a task: the client's, or else the task's own id."""
    _, _, context = task_id.partition(_CONTEXT)
    return unquote(context) or task_id
