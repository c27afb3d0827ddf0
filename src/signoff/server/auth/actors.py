"""Who acts in a request: whom the server knows it to be, or else whoever the request itself says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request

from signoff.errors import AccessDenied, NotAllowed
from signoff.people.audit.trail import record_refusal, recording
from signoff.people.questions.answers import get_question
from signoff.people.questions.question_state import Case
from signoff.records import AuditEvent, Origin, OriginWay, Promise, Rule, Schedule, WorkerInfo
from signoff.records.names import user_name
from signoff.records.paging import Page
from signoff.records.responders import SERVICE, Responder
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.roles import Reach
from signoff.stores.contract.store import Store


@dataclass(frozen=True)
class Actor:
    """Who acts, and how much of what the server has is theirs to see.

    Attributes:
        identity: Who it is; None if the server asks nobody, so that anybody may say who they are.
        reach: How much they see.
    """

    identity: Identity | None = None
    reach: Reach = Reach.ALL

    @property
    def person(self) -> Responder | None:
        """The person or service; None if anybody may say who they are."""
        return None if self.identity is None else self.identity.person

    @property
    def namespace(self) -> str | None:
        """What they work on; None: what the server serves."""
        return None if self.identity is None else self.identity.namespace

    def origin(self, address: str | None) -> Origin:
        """Return from where comes what they do at an address."""
        if self.identity is None:
            return Origin(OriginWay.OPEN, address=address)
        service = self.identity.person.user_id if self.identity.is_service else None
        return Origin(OriginWay(self.identity.way), self.identity.credential, service, address)

    def caller(self, address: str | None) -> str:
        """Return the caller to count streams for: the key, the user, or the address if unauthenticated."""
        if self.identity is None:
            return f"address {address}"
        return f"{self.identity.way} {self.identity.credential or self.identity.person.user_id}"

    def check_start(self, group: str) -> None:
        """Raise AccessDenied if they may start no runs in a group."""
        groups = None if self.identity is None else self.identity.start_groups
        if groups is not None and group not in groups:
            raise AccessDenied(
                f"a run in group {group!r}", f"this key starts runs in {', '.join(sorted(groups))}"
            )

    @property
    def is_for_groups(self) -> bool:
        """Whether they start runs in some groups only."""
        return self.identity is not None and self.identity.start_groups is not None

    def check_schedule(self, schedule: Schedule) -> None:
        """Raise AccessDenied if they may start no runs in a schedule's group, and so not change when these start."""
        groups = None if self.identity is None else self.identity.start_groups
        if groups is not None and schedule.group not in groups:
            raise AccessDenied(
                f"schedule {schedule.id!r} of group {schedule.group!r}",
                f"this key has schedules of {', '.join(sorted(groups))}",
            )

    def user_id(self, field: str, said: str | None) -> str | None:
        """Return who acts, as it is recorded.

        Args:
            field: Where the request says who it is.
            said: What it says there.

        Raises:
            AccessDenied: It says somebody else.
        """
        if self.identity is None:
            return said
        own = self.identity.person
        if said is None or user_name(said) == own.user:
            return own.user_id
        if not self.identity.may_act_as:
            raise AccessDenied(f"{field} {said!r}", f"you are {own.user_id!r}")
        if user_name(said).lower().startswith(f"user:{SERVICE}"):
            raise AccessDenied(f"{field} {said!r}", "a service acts for people, not for another one")
        return said

    async def responder(
        self, store: Store, question_id: str, said: Responder, attempt: str | None = None
    ) -> Responder:
        """Return who answers a question, or does something else with it, with their groups and roles.

        Args:
            store: Where the question is; a refusal is recorded there.
            question_id: The question.
            said: Who the request says that it is.
            attempt: What they want of it; None: to answer it.

        Raises:
            NotFound: There is no such question.
            AccessDenied: The request says somebody else, or groups and roles that they do not have.
            NotAllowed: The question, open or closed, is not for them to see, or for no service to answer.
        """
        if self.identity is None:
            return said
        own = self.identity.person
        question = await get_question(store, question_id)
        try:
            if self.user_id("user_id", said.user_id) != own.user_id:
                return said  # a service that vouches for a person vouches for what they are
            _check_own("groups", said.groups, own.groups)
            _check_own("roles", said.roles, own.roles)
            self._check_sees(question)
            if self.identity.is_service and own.user not in question.assignees:
                raise NotAllowed(
                    question_id, own.user, "a service answers only what is assigned to it by name"
                )
        except (AccessDenied, NotAllowed) as refusal:
            await record_refusal(store, question, own.user_id, refusal, attempt=attempt)
            raise
        return own

    async def operator(self, store: Store, question_id: str, said: str | None, attempt: str) -> str | None:
        """Return who does something with a question that they need not be asked, as it is recorded.

        Args:
            store: Where the question is; a refusal is recorded there.
            question_id: The question.
            said: Who the request says that it is.
            attempt: What they want of it.

        Raises:
            NotFound: There is no such question.
            AccessDenied: The request says somebody else.
        """
        try:
            return self.user_id("by", said)
        except AccessDenied as refusal:
            own = None if self.person is None else self.person.user_id
            question = await get_question(store, question_id)
            await record_refusal(store, question, own, refusal, attempt=attempt)
            raise

    async def commenter(self, store: Store, question_id: str, said: Responder) -> Responder:
        """Return who comments on a question: whoever sees it may, whether or not they may answer.

        Raises:
            NotFound, AccessDenied, NotAllowed: As ``responder`` does.
        """
        responder = await self.responder(store, question_id, said, "comment")
        if self.reach is not Reach.ALL:
            question = await get_question(store, question_id)
            async with recording(store, question, responder.user_id, "comment"):
                Case.of(question, 0.0).check_asked(responder)
        return responder

    def check_names_people(self, what: str, assignees: Iterable[str] = ()) -> None:
        """Have no service that does not vouch for people say who answers: not a person, nor a service.

        Args:
            what: What it asks for.
            assignees: Those whom it names; none: whoever that is, it would answer in their name.

        Raises:
            AccessDenied: It is such a service.
        """
        if self.identity is None or not self.identity.is_service or self.identity.may_act_as:
            return
        named = list(assignees)
        if not named or any(name.lower().startswith(f"user:{SERVICE}") for name in named):
            raise AccessDenied(
                what, "this key does not act for people (act_as), and names nobody who answers so"
            )

    # What they see

    def inbox(self, assignees: frozenset[str] | None, run_id: str | None) -> frozenset[str] | None:
        """Return whose questions to list: their own, unless they see all.

        Args:
            assignees: Whom the request asks for.
            run_id: The run whose questions it asks for; ``sees_question`` sees to these.

        Raises:
            AccessDenied: It asks for others.
        """
        if self.person is None or self.reach is Reach.ALL:
            return assignees
        if assignees is not None:
            _check_own("assignee", assignees, self.person.names)
        return self.person.names if assignees is None and run_id is None else assignees

    async def question(self, store: Store, question_id: str) -> Promise:
        """Return a question, open or closed. Raises NotFound, or NotAllowed if it is not for them to see."""
        question = await get_question(store, question_id)
        self._check_sees(question)
        return question

    async def only_seen_events(
        self, store: Store, question_id: str | None, page: Page[AuditEvent]
    ) -> Page[AuditEvent]:
        """Return a page of a question's history, without what an earlier question of that id has left.

        Raises:
            AccessDenied: They see no history but a question's.
            NotFound, NotAllowed: The question is not there, or not for them.
        """
        if self.reach is Reach.ALL:
            return page
        if question_id is None:
            raise AccessDenied("the history of more than a question", "give a question_id")
        return events_of(await self.question(store, question_id), page)

    def maker(self, said: str | None) -> str | None:
        """Return whose rules to list: their own, unless they see all. Raises AccessDenied if others' are asked for."""
        if self.person is None or self.reach is Reach.ALL:
            return said
        own = self.user_id("by", said)
        assert own is not None
        return own

    def check_maker(self, rule: Rule) -> None:
        """Raise AccessDenied if a rule is not theirs to revoke."""
        if self.person is not None and self.reach is not Reach.ALL and self.person.user_id != rule.by:
            raise AccessDenied(f"rule {rule.id!r}", "somebody else has made it")

    def only_seen_workers(self, namespace: str, workers: Sequence[WorkerInfo]) -> Sequence[WorkerInfo]:
        """Return the workers of a namespace; all, if anybody may say who they are."""
        if self.person is None:
            return workers
        return [worker for worker in workers if worker.namespace == namespace]

    def sees(self, case: Case) -> bool:
        """Whether a question, open or closed, is for them to see."""
        if self.person is None or self.reach is Reach.ALL:
            return True
        try:
            case.check_asked(self.person)
        except NotAllowed:
            return False
        return True

    def sees_question(self, question: Promise) -> bool:
        """Whether a question is for them to see, and one that this Signoff knows how to read."""
        if self.reach is Reach.ALL:
            return True
        case = Case.readable(question, 0.0)
        return case is not None and self.sees(case)

    def _check_sees(self, question: Promise) -> None:
        if self.person is not None and self.reach is not Reach.ALL:
            Case.of(question, 0.0).check_asked(self.person)


def events_of(question: Promise, page: Page[AuditEvent]) -> Page[AuditEvent]:
    """Return a page of a question's events, without those of an earlier question with the same id."""
    return replace(page, items=tuple(event for event in page.items if event.at >= question.created_at))


def _check_own(field: str, said: frozenset[str], own: frozenset[str]) -> None:
    others = ", ".join(sorted(said - own))
    if others:
        raise AccessDenied(f"{field} {others}", "nobody vouches for that of you")


ANYBODY = Actor()
"""Whoever the request says."""


def actor_of(request: Request) -> Actor:
    """Return who sends a request."""
    return request.scope.get("signoff.actor", ANYBODY)


async def _actor(request: Request) -> Actor:
    return actor_of(request)


ActorOf = Annotated[Actor, Depends(_actor)]
"""A route's parameter that gets who acts."""
