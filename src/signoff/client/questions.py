"""Questions that a program asks under an id of its choice, in a workflow or not, and decisions on tool calls."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, cast

from typing_extensions import Unpack

from signoff import codec
from signoff.errors import (
    InvalidValue,
    NotFound,
    PromiseRejected,
    QuestionCancelled,
    RegistrationError,
    SignalTimeout,
)
from signoff.people.questions.actions import Action
from signoff.people.questions.answers import Answer, answer_of
from signoff.people.questions.attachments import Attachment
from signoff.people.questions.edits import applied
from signoff.people.questions.policy_options import PolicyOptions
from signoff.people.questions.proposals import full_json
from signoff.people.questions.question import Question
from signoff.people.questions.standalone_questions import QuestionTerms, StandaloneQuestion
from signoff.records import Promise, PromiseState
from signoff.records.start_options import check_id
from signoff.redaction.hidden_values import PLACEHOLDER
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.people")

Verdict = Literal["approve", "deny", "ask"]
Decide = Callable[[Action], Verdict | Awaitable[Verdict]]


class CallTerms(PolicyOptions, total=False):
    """The arguments of ``Context.wait_for_user`` that a question about a tool call may have.

    It has no ``timeout_answer``: a deadline never approves a call.
    """

    metadata: dict[str, Any] | None
    skippable: bool
    help: str | None
    attachments: Sequence[Attachment]


_OF_CALLS: Final = CallTerms.__annotations__.keys() - {"timeout_answer"}


class QuestionBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def ask(self, id: str, asked: StandaloneQuestion) -> tuple[Promise, bool]: ...
    async def get_promise(self, promise_id: str) -> Promise: ...
    async def wait_for_answer(self, question_id: str) -> Promise: ...
    async def cancel_question(
        self, question_id: str, *, by: str | None, reason: str | None, request_id: str | None
    ) -> Promise: ...


class AsyncQuestionHandle:
    """A question of no run, seen by the program that asked it.

    Attributes:
        id: Its id.

    Example::

        question = await client.ask("refund-o-1", "Refund 70 EUR?", assignees=["group:finance"])
        if (await question.answer()).approved:
            await refund("o-1", 7000)
    """

    def __init__(
        self, backend: QuestionBackend, id: str, *, asked: Question | None = None, declared: Any = None
    ) -> None:
        self.id = check_id(id)
        self._backend = backend
        self._asked = asked
        self._declared = declared

    async def read(self) -> Promise:
        """Return the question as it is: its state, form, assignees and votes. Raises NotFound."""
        return await self._backend.get_promise(self.id)

    async def answer(self, timeout: float | None = None) -> Answer:
        """Wait for the answer. It is the same for everybody who asks for it, and stays readable.

        Args:
            timeout: The most seconds to wait here. The question stays open.

        Raises:
            TimeoutError: There was no answer within ``timeout``.
            SignalTimeout: The question's own deadline has passed.
            QuestionCancelled: It was withdrawn.
            PromiseRejected: A program rejected it through the durable promise protocol.
            NotFound: There is no such question.
            InvalidValue: The answer fits the JSON Schema of the declared type, but not the type itself.
        """
        async with asyncio.timeout(timeout):
            settled = await self._backend.wait_for_answer(self.id)
        return answer_to(settled, self._asked, self._declared)

    async def cancel(
        self, *, by: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> None:
        """Withdraw the question.

        Args:
            by: The user who withdraws it.
            reason: The reason.
            request_id: Makes a repeated call succeed without effect.

        Raises:
            NotFound, AlreadySettled, RequestConflict
        """
        await self._backend.cancel_question(self.id, by=by, reason=reason, request_id=request_id)


@dataclass(frozen=True, slots=True)
class CallDecision:
    """The decision on a tool call.

    Attributes:
        approved: Whether exactly ``action`` may run.
        action: The call that was decided on; with edits, the call as edited.
        is_edited: Whether a person changed its arguments.
        reason: ``person``, ``rule`` (a standing approval), ``policy``, ``timed out``, ``cancelled`` or ``skipped``.
        by: The user who decided, if known.
        note: The user's note, such as the reason of a denial.
        question_id: The question, if one was asked.
    """

    approved: bool
    action: Action
    is_edited: bool
    reason: str
    by: str | None = None
    note: str | None = None
    question_id: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments to run the tool with, as JSON data."""
        return cast("dict[str, Any]", self.action.arguments)

    @property
    def digest(self) -> str:
        """SHA-256 of the tool and its arguments as canonical JSON."""
        return _digest(self.action)

    def covers(self, action: Action) -> bool:
        """Return whether the call is approved: with this tool, and these arguments, as JSON.

        Example::

            if not decision.covers(Action("refund", arguments)):
                raise PermissionError(decision.note or "not approved")
        """
        return self.approved and _digest(action) == self.digest


async def ask(backend: QuestionBackend, id: str, text: str, terms: QuestionTerms) -> AsyncQuestionHandle:
    """Ask a question. See ``AsyncClient.ask``."""
    asked = StandaloneQuestion.make(text, terms)
    await backend.ask(check_id(id), asked)
    return AsyncQuestionHandle(backend, id, asked=asked.question, declared=asked.declared)


async def approve_call(
    backend: QuestionBackend,
    id: str,
    action: Action,
    *,
    decide: Decide | None,
    text: str | None,
    arguments_schema: dict[str, Any] | None,
    timeout: float | None,
    **terms: Unpack[CallTerms],
) -> CallDecision:
    """Decide on a tool call. See ``AsyncClient.approve_call``."""
    shown = _as_shown(action)
    unknown = terms.keys() - _OF_CALLS
    if unknown:
        raise RegistrationError(f"{min(unknown)!r} is not an argument of approve_call")
    verdict = "ask" if decide is None or await _is_asked(backend, id) else await _verdict(decide, shown)
    if verdict != "ask":
        return CallDecision(verdict == "approve", shown, False, "policy")
    own: dict[str, Any] = {**terms, "action": shown}
    if arguments_schema is not None:
        own |= {"proposal": shown.arguments, "proposal_type": arguments_schema}
    question = await ask(backend, id, text or f"Run {shown.tool}?", cast("QuestionTerms", own))
    try:
        answer = await question.answer(timeout)
    except SignalTimeout:
        return CallDecision(False, shown, False, "timed out", question_id=id)
    except QuestionCancelled as cancelled:
        return CallDecision(False, shown, False, "cancelled", cancelled.by, cancelled.reason, id)
    if answer.approved is not True:
        reason = "skipped" if answer.skipped else "person"
        return CallDecision(False, shown, False, reason, answer.user_id, answer.note, id)
    edited = bool(answer.edits)
    run = _as_edited(shown, answer) if edited else shown
    return CallDecision(
        True, run, edited, "rule" if answer.rule else "person", answer.user_id, answer.note, id
    )


def answer_to(settled: Promise, asked: Question | None = None, declared: Any = None) -> Answer:
    """Return the answer of a closed question, or raise how it ended otherwise.

    Args:
        settled: The question.
        asked: The question as asked in this process, whose proposal is an instance of its type.
        declared: The type of the form or of the proposal.

    Raises:
        SignalTimeout, QuestionCancelled, PromiseRejected, InvalidValue
    """
    question = Question.of(settled)
    at = settled.settled_at or settled.created_at
    match settled.state:
        case PromiseState.RESOLVED:
            same = asked is not None and asked.digest == question.digest
            return answer_of(
                asked if same and asked is not None else question,
                declared,
                value=settled.value,
                by=settled.settled_by,
                note=settled.note,
                at=at,
            )
        case PromiseState.TIMED_OUT:
            raise SignalTimeout(f"an answer to {question.text!r}", at - settled.created_at)
        case PromiseState.CANCELLED:
            raise QuestionCancelled(settled.id, settled.settled_by, settled.note)
        case _:
            raise PromiseRejected(settled.id, json.loads(settled.value or "null"))


async def _is_asked(backend: QuestionBackend, id: str) -> bool:
    """Whether people have been asked about the call before: then their answer counts, whatever the policy says now."""
    try:
        await backend.get_promise(check_id(id))
    except NotFound:
        return False
    return True


async def _verdict(decide: Decide, action: Action) -> Verdict:
    """Return a policy's verdict. One that fails, or returns anything else, asks."""
    try:
        said: object = decide(replace(action, arguments=_copied(action)))
        if inspect.isawaitable(said):
            said = await said
    except Exception:
        log.exception("the policy for tool %r failed; a person is asked", action.tool)
        return "ask"
    if said not in ("approve", "deny", "ask"):
        log.warning("the policy for tool %r returned %r; a person is asked", action.tool, said)
        return "ask"
    return said


def _as_shown(action: object) -> Action:
    """Return the call as people see it: the arguments are plain data, which nobody else holds.

    Raises:
        InvalidValue: It is not an Action.
        RegistrationError: The tool name is not valid, or the arguments are not an object.
        NotSerializable: An argument is not JSON.
    """
    if not isinstance(action, Action):
        raise InvalidValue("action", "pass an Action, such as Action('send_mail', {'to': 'bob'})")
    action.to_data(f"Run {action.tool}?")
    return Action(action.tool, full_json(action.arguments, "action.arguments"), action.about)


def _as_edited(shown: Action, answer: Answer) -> Action:
    """Return the call as a person has edited it. Parts that a server hides are the call's own, if they were not edited.

    Raises:
        InvalidValue: The server hides what was edited.
    """
    arguments = answer.proposal
    if _is_hidden(arguments) and not _is_hidden(shown.arguments):
        if any(_is_hidden(each.get("value")) or _is_cut(each) for each in answer.edits):
            raise InvalidValue(
                "action.arguments",
                "the server hides what was edited (--redact): ask through its store instead",
            )
        arguments = applied(shown.arguments, answer.edits)
    return _as_shown(replace(shown, arguments=arguments))


def _is_hidden(value: Any) -> bool:
    return PLACEHOLDER[:-1] in json.dumps(value)


def _is_cut(edit: Mapping[str, Any]) -> bool:
    return edit["op"] != "remove" and "value" not in edit


def _copied(action: Action) -> Any:
    return json.loads(codec.encode(action.arguments))


def _digest(action: Action) -> str:
    arguments = full_json(action.arguments, "action.arguments")
    return codec.digest(json.dumps({"tool": action.tool, "arguments": arguments}))
