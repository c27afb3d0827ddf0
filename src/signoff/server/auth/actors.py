"""The actor of a request: the authenticated user or service, or the user that an unauthenticated request names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request

from signoff.errors import AccessDenied, NotAllowed
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answers import get_question
from signoff.people.questions.question_state import QuestionState
from signoff.records import AuditEvent, Origin, OriginWay, Promise, Rule, Schedule, WorkerInfo
from signoff.records.names import user_name
from signoff.records.paging import Page
from signoff.records.responders import SERVICE, Responder
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.roles import Reach
from signoff.server.mcp.request import McpRequest
from signoff.stores.contract.store import Store


@dataclass(frozen=True)
class Actor:
    """The user or service that sends a request, and how much it may see.

    Attributes:
        identity: The authenticated identity; None if the server needs no authentication, so that callers may name any
            user.
        reach: How much the actor sees.
        mcp: The MCP request that this request belongs to; None: it came in another way.
    """

    identity: Identity | None = None
    reach: Reach = Reach.ALL
    mcp: McpRequest | None = None

    @property
    def person(self) -> Responder | None:
        """The user or service; None if the request is not authenticated."""
        return None if self.identity is None else self.identity.person

    @property
    def namespace(self) -> str | None:
        """The actor's namespace; None means the server's."""
        return None if self.identity is None else self.identity.namespace

    def origin(self, address: str | None) -> Origin:
        """Return the origin of the actor's writes from a client address."""
        if self.mcp is not None and self.mcp.local is not None:
            return self.mcp.local
        if self.identity is None:
            return Origin(OriginWay.OPEN if self.mcp is None else OriginWay.MCP, address=address)
        service = self.identity.person.user_id if self.identity.is_service else None
        way = OriginWay(self.identity.way) if self.mcp is None else OriginWay.MCP
        return Origin(way, self.identity.credential, service, address)

    def caller(self, address: str | None) -> str:
        """Return the caller to count streams for: the key, the user, or the address if unauthenticated."""
        if self.identity is None:
            return f"address {address}"
        return f"{self.identity.way} {self.identity.credential or self.identity.person.user_id}"

    def check_start(self, group: str) -> None:
        """Raise AccessDenied if the actor may not start runs in a group."""
        groups = None if self.identity is None else self.identity.start_groups
        if groups is not None and group not in groups:
            raise AccessDenied(
                f"a run in group {group!r}", f"this key starts runs in {', '.join(sorted(groups))}"
            )

    @property
    def is_for_groups(self) -> bool:
        """Whether the actor may start runs in some groups only."""
        return self.identity is not None and self.identity.start_groups is not None

    def check_schedule(self, schedule: Schedule) -> None:
        """Raise AccessDenied if the actor may not change a schedule, since it may not start runs in its group."""
        groups = None if self.identity is None else self.identity.start_groups
        if groups is not None and schedule.group not in groups:
            raise AccessDenied(
                f"schedule {schedule.id!r} of group {schedule.group!r}",
                f"this key has schedules of {', '.join(sorted(groups))}",
            )

    def user_id(self, field: str, said: str | None) -> str | None:
        """Return the user id to record for the actor.

        Args:
            field: The request field that names the user.
            said: Its value.

        Raises:
            AccessDenied: The request names another user.
        """
        if self.identity is None:
            return said
        own = self.identity.person
        if said is None or user_name(said) == own.user:
            return own.user_id
        if not self.identity.may_act_as:
            raise AccessDenied(f"{field} {said!r}", f"you are {own.user_id!r}")
        if user_name(said).lower().startswith(f"user:{SERVICE}"):
            raise AccessDenied(f"{field} {said!r}", "a service acts for people, not for another service")
        return said

    async def responder(
        self, store: Store, question_id: str, said: Responder, attempt: str | None = None
    ) -> Responder:
        """Return the responder who acts on a question, with groups and roles.

        Args:
            store: The question's store; a refusal is recorded there.
            question_id: The question.
            said: The responder that the request names.
            attempt: The attempted operation; None: to answer.

        Raises:
            NotFound: There is no such question.
            AccessDenied: The request names another user, or groups and roles that the user does not have.
            NotAllowed: The actor may not see the question, or is a service that it is not assigned to.
        """
        if self.identity is None:
            return said
        own = self.identity.person
        question = await get_question(store, question_id)
        async with RefusalRecorder(store, question, own.user_id, attempt):
            if self.user_id("user_id", said.user_id) != own.user_id:
                return said  # a service that vouches for a user also vouches for the user's groups and roles
            _check_own("groups", said.groups, own.groups)
            _check_own("roles", said.roles, own.roles)
            self._check_sees(question)
            if self.identity.is_service and own.user not in question.assignees:
                raise NotAllowed(
                    question_id, own.user, "a service answers only what is assigned to it by name"
                )
        return own

    async def operator(self, store: Store, question_id: str, said: str | None, attempt: str) -> str | None:
        """Return the user id to record for an operation on a question that needs no assignment.

        Args:
            store: The question's store; a refusal is recorded there.
            question_id: The question.
            said: The user that the request names.
            attempt: The attempted operation.

        Raises:
            NotFound: There is no such question.
            AccessDenied: The request names another user.
        """
        try:
            return self.user_id("by", said)
        except AccessDenied as refusal:
            own = None if self.person is None else self.person.user_id
            async with RefusalRecorder(store, await get_question(store, question_id), own, attempt):
                raise refusal

    async def commenter(self, store: Store, question_id: str, said: Responder) -> Responder:
        """Return the responder who comments on a question. Every user who sees it may comment.

        Raises:
            NotFound, AccessDenied, NotAllowed: As ``responder`` does.
        """
        responder = await self.responder(store, question_id, said, "comment")
        if self.reach is not Reach.ALL:
            question = await get_question(store, question_id)
            async with RefusalRecorder(store, question, responder.user_id, "comment"):
                QuestionState.of(question, 0.0).check_asked(responder)
        return responder

    def check_names_people(self, what: str, assignees: Iterable[str] = ()) -> None:
        """Check that a service without ``act_as`` does not choose who answers.

        Args:
            what: The requested operation.
            assignees: The assignees that the request names. Without any, the operation answers in a user's name.

        Raises:
            AccessDenied: It is such a service, and it names no assignee, or names a service.
        """
        if self.identity is None or not self.identity.is_service or self.identity.may_act_as:
            return
        named = list(assignees)
        if not named or any(name.lower().startswith(f"user:{SERVICE}") for name in named):
            raise AccessDenied(
                what, "this key does not act for people (act_as), so it cannot choose who answers"
            )

    # Visibility

    def inbox(self, assignees: frozenset[str] | None, run_id: str | None) -> frozenset[str] | None:
        """Return the assignees whose questions to list: the actor's own names, unless the actor sees all.

        Args:
            assignees: The assignees in the request.
            run_id: The run in the request, if any; ``sees_question`` filters its questions.

        Raises:
            AccessDenied: The request asks for other users' questions.
        """
        if self.person is None or self.reach is Reach.ALL:
            return assignees
        if assignees is not None:
            _check_own("assignee", assignees, self.person.names)
        return self.person.names if assignees is None and run_id is None else assignees

    async def question(self, store: Store, question_id: str) -> Promise:
        """Return a question, open or closed. Raises NotFound, or NotAllowed if the actor may not see it."""
        question = await get_question(store, question_id)
        self._check_sees(question)
        return question

    async def only_seen_events(
        self, store: Store, question_id: str | None, page: Page[AuditEvent]
    ) -> Page[AuditEvent]:
        """Return a page of a question's history, without the events of an earlier question with the same id.

        Raises:
            AccessDenied: The actor sees only the history of single questions, and the request names none.
            NotFound, NotAllowed: The question does not exist, or the actor may not see it.
        """
        if self.reach is Reach.ALL:
            return page
        if question_id is None:
            raise AccessDenied("the history of more than a question", "give a question_id")
        return events_of(await self.question(store, question_id), page)

    def maker(self, said: str | None) -> str | None:
        """Return the user whose rules to list: the actor, unless the actor sees all.

        Raises:
            AccessDenied: The request asks for another user's rules.
        """
        if self.person is None or self.reach is Reach.ALL:
            return said
        own = self.user_id("by", said)
        assert own is not None
        return own

    def check_maker(self, rule: Rule) -> None:
        """Raise AccessDenied if the actor may not revoke a rule."""
        if self.person is not None and self.reach is not Reach.ALL and self.person.user_id != rule.by:
            raise AccessDenied(f"rule {rule.id!r}", "another user created it")

    def only_seen_workers(self, namespace: str, workers: Sequence[WorkerInfo]) -> Sequence[WorkerInfo]:
        """Return the workers of a namespace; all workers if the request is not authenticated."""
        if self.person is None:
            return workers
        return [worker for worker in workers if worker.namespace == namespace]

    def sees(self, state: QuestionState) -> bool:
        """Whether the actor may see a question, open or closed."""
        if self.person is None or self.reach is Reach.ALL:
            return True
        try:
            state.check_asked(self.person)
        except NotAllowed:
            return False
        return True

    def sees_question(self, question: Promise) -> bool:
        """Whether the actor may see a question. An unreadable one is visible only to actors that see everything."""
        if self.reach is Reach.ALL:
            return True
        state = QuestionState.readable(question, 0.0)
        return state is not None and self.sees(state)

    def _check_sees(self, question: Promise) -> None:
        if self.person is not None and self.reach is not Reach.ALL:
            QuestionState.of(question, 0.0).check_asked(self.person)


def events_of(question: Promise, page: Page[AuditEvent]) -> Page[AuditEvent]:
    """Return a page of a question's events, without those of an earlier question with the same id."""
    return replace(page, items=tuple(event for event in page.items if event.at >= question.created_at))


def _check_own(field: str, said: frozenset[str], own: frozenset[str]) -> None:
    others = ", ".join(sorted(said - own))
    if others:
        raise AccessDenied(f"{field} {others}", "your sign-in does not include it")


UNAUTHENTICATED = Actor()
"""The actor of an unauthenticated request."""


def actor_of(request: Request) -> Actor:
    """Return the actor of a request."""
    return request.scope.get("signoff.actor", UNAUTHENTICATED)


async def _actor(request: Request) -> Actor:
    return actor_of(request)


ActorOf = Annotated[Actor, Depends(_actor)]
"""Route parameter: the actor."""
