"""``pause``: a plain tool stops for a question. The answer then runs it again, or becomes its result."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NoReturn, TypeVar, cast, get_args

from pydantic import TypeAdapter

from signoff import codec
from signoff.agents.approvals.approval_policy import check_prompt, check_timeout
from signoff.agents.pausing.unwinding import Leaving, carries
from signoff.codec.annotations import readable
from signoff.engine.run.unawaited_context_calls import Awaited
from signoff.engine.run.user_code_lines import calling_line
from signoff.errors import NotAwaited, OutsideWorkflow, RegistrationError
from signoff.people.questions.actions import Action
from signoff.people.questions.answers import Answer
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.policies import UNSET, Escalation, Quorum
from signoff.people.questions.policy_options import check_policy_options, plain_options, read_options
from signoff.people.questions.proposals import full_json
from signoff.people.questions.question import Question
from signoff.records.responders import check_names
from signoff.runtime.private_names import agent_run_here
from signoff.workflow.context import Context
from signoff.workflow.current_context import refuse_here

Reason = Literal["approval_required", "await_input", "external_event", "constraints_conflict"]
Then = Literal["tool", "model"]

E = TypeVar("E", bound=BaseException)

REASONS: Final[tuple[str, ...]] = get_args(Reason)

SAID: Final = "pause(...)"

PLACE: Final = "it is for tools that run as steps of a durable agent"

INSTEAD: Final = (
    "Have the agent run in workflow code, such as a tool made with @in_workflow, with Durable() of its own"
)

MARK: Final = "signoff_paused"
"""Marks the recorded outcome of a tool that has paused, and the metadata of a pause's question."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The question of a paused tool.

    Attributes:
        reason: Why the tool paused.
        payload: The data shown to the people who answer.
        then: Who gets the answer.
        prompt: The question's text; None: a default.
        schema: The JSON Schema of a form's answer; None: the reason determines the form of the answer.
        policy: The question's policy options, as plain data.
    """

    reason: Reason
    payload: dict[str, Any]
    then: Then
    prompt: str | None
    schema: dict[str, Any] | None
    policy: dict[str, Any]

    def question(self) -> dict[str, Any]:
        """Return the arguments of ``Context.wait_for_user`` for the form of the answer."""
        options = self.payload.get("options")
        if self.schema is not None:
            is_object = self.schema.get("type") == "object"
            return {"input_type": "form", "answer_type": self.schema if is_object else _field(self.schema)}
        if self.reason == "approval_required":
            return {"input_type": "approval"}
        if self.reason == "constraints_conflict" and isinstance(options, list) and options:
            offered = [str(each) for each in cast("list[object]", options)]
            return {"input_type": "select", "options": offered}
        # for an external event, "it has happened" is a full answer: there may be nothing else to report
        return {"input_type": "text", "skippable": self.reason == "external_event"}


class ToolPaused(BaseException):
    """Raised in workflow code: a tool has paused."""

    def __init__(self, pause: Pause) -> None:
        super().__init__(pause.reason)
        self.pause = pause


Answered = tuple[Pause, Answer]


@dataclass(slots=True)
class _Given:
    """An answer that a pause returned: the line of the pause, and whether the code has read the answer."""

    line: str
    is_taken: bool = False


class _Call:
    """One call of a tool, in its step.

    Attributes:
        leaving: Unwinds the tool at a pause.
        run: The id of the agent's run.
    """

    def __init__(self, tool: str, answers: Sequence[Answered]) -> None:
        self.leaving = Leaving[Pause](tool)
        self.run = agent_run_here()
        self._resumed: list[tuple[weakref.ref[Resumed], _Given]] = []
        self._missed: _Given | None = None
        self._answers = list(answers)  # answers that no pause has returned yet

    def give(self, answer: Answer, line: str) -> Resumed:
        """Return the value of a pause that has an answer."""
        given = _Given(line)
        resumed = Resumed(answer, given)
        self._resumed.append((weakref.ref(resumed), given))
        return resumed

    def note_missed(self) -> None:
        """Remember an answer that the code can no longer read, when it reaches another pause."""
        lost = (given for resumed, given in self._resumed if not given.is_taken and resumed() is None)
        self._missed = self._missed or next(lost, None)

    def missed(self, *, has_left: bool) -> _Given | None:
        """Return an answer that its code has not read.

        Args:
            has_left: Whether the tool has paused again: when it runs again, it may still read the answer.
        """
        if has_left:
            return self._missed
        return self._missed or next((given for _, given in self._resumed if not given.is_taken), None)

    def answer_of(self, reason: Reason, prompt: str | None) -> Answer | None:
        """Return the answer to a pause; None: its question was not asked yet."""
        for index, (asked, answer) in enumerate(self._answers):
            if (asked.reason, asked.prompt) == (reason, prompt):
                del self._answers[index]
                return answer
        return None


class Round:
    """One run of a tool, in workflow code: until it returns or pauses.

    Args:
        answers: The answers to its earlier pauses.

    Attributes:
        answers: The same.
        left: The pause or stop that ended it, if one did.
    """

    def __init__(self, answers: Sequence[Answered]) -> None:
        self.answers = tuple(answers)
        self.left: BaseException | None = None


_call: contextvars.ContextVar[_Call | str] = contextvars.ContextVar("signoff_tool_call")
_round: contextvars.ContextVar[Round | None] = contextvars.ContextVar("signoff_tool_round", default=None)


class Resumed(Awaited, Coroutine[Any, Any, Answer]):
    """An answered pause: ``await`` it, or read ``value`` in a plain function.

    A tool that does neither has ignored the answer, and fails. Like the result of ``wait_for_user`` in a workflow, it
    is a coroutine: ``asyncio.create_task`` accepts it.

    Args:
        value: The answer.
        given: Records that the answer was read.
    """

    def __init__(self, value: Answer, given: _Given) -> None:
        self._value = value
        self._given = given

    @property
    def label(self) -> str:
        return SAID

    @property
    def value(self) -> Answer:
        """The answer."""
        self._given.is_taken = True
        return self._value

    def __await__(self) -> Generator[Any, None, Answer]:
        yield from ()
        return self.value

    def send(self, value: Any) -> Any:
        raise StopIteration(self.value)

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        """Do nothing: no work is in progress."""


def pause(
    reason: Reason,
    payload: Mapping[str, Any] | None = None,
    *,
    then: Then = "tool",
    prompt: str | None = None,
    assignees: Sequence[str] = (),
    timeout: float | None = None,
    answer_type: Any = None,
    quorum: Quorum | int = 1,
    exclude_requester: bool = False,
    requester: str | None = None,
    remind_every: float | None = None,
    escalations: Sequence[Escalation] = (),
    hours: BusinessHours | None = None,
    timeout_answer: Any = UNSET,
) -> Resumed:
    """Stop the tool until a person has answered.

    With ``then="tool"`` the tool runs again from its beginning, and this ``pause``, identified by its reason and
    prompt, returns the answer. Code before it runs twice. With ``then="model"`` the answer is the tool's result.

    The tool is stopped with an exception that ``except Exception`` does not catch. ``finally`` blocks and the exits of
    ``with`` blocks run, for cleanup. A tool that catches the exception and continues (with ``except BaseException``, or
    ``gather(return_exceptions=True)``) fails: its run stops with ``PauseSwallowed``, and no question is asked.

    Args:
        reason: ``approval_required`` asks for approval and ``await_input`` for a text. ``external_event`` waits for
            something that happens elsewhere. ``constraints_conflict`` asks for one of ``payload["options"]``, or for a
            text.
        payload: Data to show.
        then: Who gets the answer: the ``tool`` or the ``model``.
        prompt: The question's text; by default the tool's name and the reason.
        assignees: The people who may answer; by default any user.
        timeout: Seconds until a missing answer counts as a refusal, which the model reads.
        answer_type: A pydantic model (or another type) that the answer must fit. It is asked for with a form.
        quorum: For ``approval_required``: how many different people must approve, as in ``Context.wait_for_user``.
        exclude_requester: Whether the requester must not answer (four eyes).
        requester: The requester, such as ``user:ana``; by default the user who started the run.
        remind_every: Seconds between reminders.
        escalations: The people who may also answer if the question stays open.
        hours: The working time in which all these seconds count.
        timeout_answer: The answer that counts if there is none in time, instead of a refusal.

    Returns:
        The answer, to be awaited: an ``Answer``, whose ``value`` has the ``answer_type`` if one is given. In a plain
        function, use ``pause(...).value``.

    Raises:
        OutsideWorkflow: The caller is not a tool of a durable run.
        RegistrationError: The reason is unknown, the options do not fit together, or too few people could answer.
        InvalidValue: An assignee, a time or a number is invalid.

    Example::

        @agent.tool_plain
        async def transfer(cents: int) -> str:
            if cents > 10_000 and not (await pause("approval_required", {"limit": 10_000})).approved:
                return "not transferred"
            return await bank.transfer(cents)
    """
    call = _call.get(None)
    if not isinstance(call, _Call):
        raise refuse_here(OutsideWorkflow("pause(...)", why=call or _place_here()))
    if agent_run_here() != call.run:
        why = f"{PLACE}, and this is an agent that runs inside such a tool. {INSTEAD}"
        raise refuse_here(OutsideWorkflow("pause(...)", why=why))
    if reason not in REASONS:
        raise RegistrationError(f"pause: there is no reason {reason!r}: {', '.join(REASONS)}")
    if then not in get_args(Then):
        raise RegistrationError(f"pause: then is 'tool' or 'model', not {then!r}")
    check_prompt("pause", prompt)
    # once one part of the tool has paused, its other parts do not continue
    answer = None if call.leaving.has_begun else call.answer_of(reason, prompt)
    if answer is not None:
        here = inspect.currentframe()
        given = answer if answer_type is None else _typed(answer, answer_type)
        return call.give(given, calling_line(here and here.f_back))
    schema = None if answer_type is None else TypeAdapter(readable(answer_type)).json_schema()
    data = full_json(dict(payload or {}), "payload")  # refused at the line that passes it
    rules: dict[str, Any] = {
        "assignees": check_names("assignees", assignees),
        "timeout_seconds": check_timeout(timeout),
        "quorum": quorum,
        "exclude_requester": exclude_requester,
        "requester": requester,
        "remind_every": remind_every,
        "escalations": escalations,
        "hours": hours,
    }
    wanted = Pause(reason, data, then, prompt, schema, {})
    if timeout_answer is not UNSET:
        is_wrapped = schema is not None and schema.get("type") != "object"
        rules["timeout_answer"] = {"value": timeout_answer} if is_wrapped else timeout_answer
    question = Question.make(prompt or f"pause({reason!r})", **wanted.question())
    check_policy_options(question.text, question.input_type, rules, question=question)
    call.note_missed()
    left = call.leaving.leave(replace(wanted, policy=plain_options(rules)))
    return cast("Resumed", left)


def _place_here() -> str:
    """Describe where a pause is allowed, also for a thread that lacks its tool's context."""
    if threading.current_thread() is threading.main_thread():
        return PLACE
    return (
        f"{PLACE}. A thread that a tool begins knows its tool only if it gets the tool's context: use "
        "asyncio.to_thread(...), or contextvars.copy_context().run"
    )


def _typed(answer: Answer, declared: Any) -> Answer:
    schema = TypeAdapter(readable(declared)).json_schema()
    plain = codec.encode(answered(answer, schema))
    return replace(answer, value=codec.decode(plain, declared, path="answer"))


def answered(answer: Answer, schema: Mapping[str, Any] | None) -> Any:
    """Return the answer's value, without the form that wraps a value other than an object."""
    if schema is None or schema.get("type") == "object":
        return answer.value
    return cast("dict[str, Any]", answer.value)["value"]


async def run_tool(tool: str, body: Callable[[], Awaitable[object]]) -> object:
    """Run a tool in its step.

    Returns:
        The outcome that the step records: the tool's result, or its pause.

    Raises:
        PauseSwallowed: The tool caught its pause and continued.
        NotAwaited: The tool continued without reading an answer.
    """
    here = _round.get()
    call = _Call(tool, () if here is None else here.answers)
    token = _call.set(call)
    try:
        result, pause = await call.leaving.run(body)
    except (AttributeError, TypeError) as error:  # such as pause(...).approved
        if (missed := call.missed(has_left=False)) is not None:
            raise NotAwaited(f"tool {tool!r}", SAID, missed.line, f"was not awaited ({error})") from error
        raise
    finally:
        _call.reset(token)
    if (missed := call.missed(has_left=pause is not None)) is not None:
        how = "was never awaited, so the tool continued without reading the answer"
        raise NotAwaited(f"tool {tool!r}", SAID, missed.line, how)
    if pause is None:
        return result
    return {"kind": MARK, **{name: getattr(pause, name) for name in Pause.__slots__}}


@contextmanager
def without_pauses(what: str) -> Generator[None]:
    """Refuse to pause here.

    Args:
        what: Names the code that runs here, for the error.
    """
    token = _call.set(f"{PLACE}, and this is {what}")
    try:
        yield
    finally:
        _call.reset(token)


def check_left(payload: object) -> None:
    """Raise ToolPaused if a step has recorded that its tool paused."""
    recorded = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if recorded.get("kind") == MARK:
        raise noted(ToolPaused(Pause(**{name: recorded[name] for name in Pause.__slots__})))


def noted(left: E) -> E:
    """Record an exception that must reach the tool's gate, and return it."""
    here = _round.get()
    if here is not None:
        here.left = left
    return left


def is_answered() -> bool:
    """Whether the tool that runs here has paused before, and was answered."""
    here = _round.get()
    return here is not None and bool(here.answers)


def check_not_left(context: Context, tool: str) -> None:
    """Stop the run if code around a paused tool runs it again."""
    here = _round.get()
    if here is not None and here.left is not None:
        _stop(context, tool, "it was run again")


async def in_round(
    context: Context, tool: str, answers: Sequence[Answered], run: Callable[[], Awaitable[Any]]
) -> Any:
    """Run a tool once, through the hooks and toolsets around it.

    Args:
        context: The run's.
        tool: The tool.
        answers: The answers to its pauses.
        run: Runs it.

    Raises:
        ToolPaused: The tool has paused.
        ToolChanged: The tool has changed, and was not run.
        CannotRunHere: The tool has paused, and code around it caught the exception.
    """
    here = Round(answers)
    token = _round.set(here)
    try:
        result = await run()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if here.left is None or error is here.left:
            raise
        if not carries(error, here.left):
            _stop(context, tool, f"it raised {error!r}")
        raise here.left from None  # a task group has wrapped it
    finally:
        _round.reset(token)
    if here.left is not None:
        _stop(context, tool, "it returned a result")
    return result


def _stop(context: Context, tool: str, how: str) -> NoReturn:
    context.cannot_run_here(
        f"tool {tool!r} paused for an answer, but a hook or toolset around it caught the exception that ends the "
        f"tool: {how}. No question was asked, and no answer was used. Catch Exception there instead of "
        "BaseException, then retry the run"
    )


async def ask_for(
    context: Context, pause: Pause, tool: str, arguments: dict[str, Any], about: dict[str, Any]
) -> Answer:
    """Ask the question of a paused tool.

    Args:
        context: The run's.
        pause: The tool's pause.
        tool: The tool.
        arguments: The arguments of the call.
        about: Further metadata of the call; its ``agent`` is named in the question.

    Raises:
        SignalTimeout, QuestionCancelled
    """
    text = pause.prompt or f"{about['agent']}: {tool} waits ({pause.reason.replace('_', ' ')})"
    shown = {
        **about,
        "tool": tool,
        "arguments": arguments,
        "reason": pause.reason,
        "payload": pause.payload,
        MARK: True,
    }
    asked: dict[str, Any] = {**pause.question(), **read_options(pause.policy), "metadata": shown}
    if asked["input_type"] == "approval":
        said = {"reason": pause.reason, "prompt": pause.prompt, "payload": pause.payload}
        asked["action"] = Action(tool, arguments, about=said)
    return await context.wait_for_user(text, **asked)


def _field(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    return {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": schema.get("$defs", {}),
    }
