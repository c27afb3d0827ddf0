"""People who answer questions by a test's script."""

from __future__ import annotations

import asyncio
import fnmatch
import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from signoff import codec
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidValue, SignoffError
from signoff.people.links.callback_intake import Incoming, find_callback, receive
from signoff.people.questions.callback_terms import secret_in
from signoff.people.questions.question import Question
from signoff.records import Promise, PromiseKind, PromiseState
from signoff.records.names import check_user
from signoff.records.start_options import seconds_of
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import CALLBACK

Delay = float | timedelta


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, as people see it.

    Attributes:
        id: Its id.
        run_id: The run that asks.
        text: The question's text.
        metadata: Additional data shown with it.
    """

    id: str
    run_id: str | None
    text: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """A scripted answer, and its result.

    Attributes:
        question: The question's text.
        value: The answer.
        by: The user who answered.
        error: Why it was refused: ``AlreadySettled``, ``WrongAnswer`` ...; None if it was accepted.
    """

    question: str
    value: Any
    by: str
    error: SignoffError | None


Matching = str | Callable[[Asked], bool]


@dataclass(slots=True)
class _Rule:
    matches: Callable[[Asked], bool]
    replies: Sequence[tuple[Any, str]]
    after: float
    note: str | None
    left: int | None
    # The request to the question's callback URL; None for an answer of a person.
    call: Incoming | None = None

    def is_for(self, question: Question, asked: Asked) -> bool:
        """Return whether the instruction applies to a question."""
        is_of_its_kind = (self.call is not None) == (question.input_type == "external") or not self.replies
        return self.left != 0 and is_of_its_kind and self.matches(asked)


class People:
    """The people of a test. The first matching instruction applies. A question without one is not answered.

    Attributes:
        answers: All answers so far, in order, with their results.
    """

    def __init__(self, client: AsyncClient, store: Store) -> None:
        self.answers: list[ScriptedAnswer] = []
        self._client = client
        self._store = store
        self._rules: list[_Rule] = []
        self._seen: set[str] = set()
        self._plans: list[tuple[float, int, Asked, _Rule]] = []
        self._numbers = itertools.count()

    def answer(
        self,
        question: Matching,
        value: Any = None,
        *,
        approved: bool | None = None,
        after: Delay = 0.0,
        by: str = "user:test",
        note: str | None = None,
        times: int | None = None,
    ) -> None:
        """Answer matching questions.

        Args:
            question: The text, in which ``*`` matches anything, or a function of an ``Asked``.
            value: The answer.
            approved: For an approval, instead of ``value``.
            after: The delay, in seconds or as a ``timedelta``; the environment's time skips it.
            by: The user who answers.
            note: A comment.
            times: How many questions to answer; by default all. The next instruction applies to the rest.

        Raises:
            InvalidValue: ``by`` is not a valid user, ``after`` is not a time, or ``times`` is below 1.

        Example::

            env.people.answer("Refund*", approved=True, after=timedelta(days=2), by="user:ana")
            env.people.answer(lambda asked: asked.metadata["amount"] > 1000, approved=False)
        """
        check_user("by", by)
        reply = value if approved is None else approved
        self._rules.append(
            _Rule(_matcher(question), [(reply, by)], seconds_in("after", after), note, _check_times(times))
        )

    def race(self, question: Matching, *replies: tuple[str, Any], after: Delay = 0.0) -> None:
        """Let several people answer at the same moment. One of them wins; ``answers`` has the result of each.

        Args:
            question: As in ``answer``.
            replies: Users and their answers, such as ``("user:ana", True), ("user:ben", False)``.
            after: The delay.
        """
        said = [(value, check_user("by", by)) for by, value in replies]
        self._rules.append(_Rule(_matcher(question), said, seconds_in("after", after), None, None))

    def call_back(
        self,
        question: Matching,
        value: Any = None,
        *,
        method: str = "POST",
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        after: Delay = 0.0,
        times: int | None = None,
    ) -> None:
        """Send a request to the callback URL of a matching question (``ctx.callback``).

        Args:
            question: As in ``answer``.
            value: The body, as JSON.
            method: ``POST`` or ``GET``.
            query: The query string.
            headers: Further headers.
            body: The raw body, instead of ``value``.
            after: The delay.
            times: How many questions to answer; by default all.

        Example::

            env.people.call_back("Payment*", {"amount": 4200}, after=timedelta(hours=1))
        """
        sent = {name.lower(): said for name, said in (headers or {}).items()}
        if body is None and method == "POST":
            sent, body = {"content-type": "application/json", **sent}, codec.encode(value).encode()
        call = Incoming(method, query, sent, body or b"")
        said = [(value, CALLBACK)]
        self._rules.append(
            _Rule(_matcher(question), said, seconds_in("after", after), None, _check_times(times), call)
        )

    def stay_silent(self, question: Matching) -> None:
        """Leave matching questions unanswered, regardless of later instructions."""
        self._rules.append(_Rule(_matcher(question), [], 0.0, None, None))

    # Used by the environment

    def see(self, promises: Sequence[Promise]) -> None:
        """Update the open questions."""
        for promise in promises:
            is_open = promise.kind is PromiseKind.QUESTION and promise.state is PromiseState.PENDING
            if is_open and promise.id not in self._seen:
                self._plan(promise)

    @property
    def next_at(self) -> float | None:
        """When the next answer is due, in Unix seconds."""
        return self._plans[0][0] if self._plans else None

    async def act(self, now: float) -> bool:
        """Give the answers that are due. Returns whether there were any."""
        due: list[tuple[Asked, _Rule]] = []
        while self._plans and self._plans[0][0] <= now:
            due.append(heapq.heappop(self._plans)[2:])
        replies = [(asked, rule, reply) for asked, rule in due for reply in rule.replies]
        await asyncio.gather(*(self._say(asked, rule, *reply) for asked, rule, reply in replies))
        return bool(due)

    def _plan(self, promise: Promise) -> None:
        question = Question.of(promise)
        asked = Asked(promise.id, promise.run_id, question.text, question.metadata or {})
        for rule in self._rules:
            if rule.is_for(question, asked):
                self._seen.add(promise.id)
                if rule.left is not None:
                    rule.left -= 1
                if rule.replies:
                    at = promise.created_at + rule.after
                    heapq.heappush(self._plans, (at, next(self._numbers), asked, rule))
                return

    async def _say(self, asked: Asked, rule: _Rule, value: Any, by: str) -> None:
        error: SignoffError | None = None
        try:
            if rule.call is None:
                await self._client.answer(asked.id, value, user_id=by, note=rule.note)
            else:
                await self._call(asked, rule.call)
        except SignoffError as refusal:
            error = refusal
        self.answers.append(ScriptedAnswer(asked.text, value, by, error))

    async def _call(self, asked: Asked, call: Incoming) -> None:
        journal = await self._store.read_journal(asked.run_id or "")
        [url] = [entry.fact("url") for entry in journal if entry.fact("id") == asked.id]
        await receive(await find_callback(self._store, secret_in(url)), call)


def _matcher(question: Matching) -> Callable[[Asked], bool]:
    if not isinstance(question, str):
        return question
    return lambda asked: fnmatch.fnmatchcase(asked.text, question)


def seconds_in(path: str, delay: Delay) -> float:
    """Return a delay in seconds.

    Raises:
        InvalidValue: It is not a number of seconds or a ``timedelta``.
    """
    return delay.total_seconds() if isinstance(delay, timedelta) else seconds_of(path, delay)


def _check_times(times: int | None) -> int | None:
    if times is not None and times < 1:
        raise InvalidValue("times", f"{times!r} is not a number of questions; None is all")
    return times
