"""What workflow code may ask for. Everything here is numbered, journaled and replayed."""

from __future__ import annotations

import asyncio
import contextvars
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Never, NoReturn, Protocol, TypeVar, cast

from signoff import codec
from signoff.engine.run.branches import Branch
from signoff.engine.run.calls import (
    ChildCall,
    DetachedCall,
    OwnSignalCall,
    OwnStepCall,
    ProgressCall,
    PromiseCall,
    SignalCall,
    StepCall,
)
from signoff.engine.run.execution import Execution
from signoff.engine.steps.arity import check_step
from signoff.engine.steps.captured_values import note_variables
from signoff.engine.steps.options import UNSAID, Effect, StepOptions, unknown_option
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.steps.step_function import callee_of
from signoff.errors import CannotRunHere, ContinueAsNew, OutsideWorkflow, RegistrationError
from signoff.observability.current_run import current_attempt
from signoff.observability.logs import RunLogger
from signoff.people.questions.actions import Action
from signoff.people.questions.answer_checks import checked_default
from signoff.people.questions.attachments import Attachment
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.callback_terms import Callback, Terms
from signoff.people.questions.policies import UNSET, Escalation, Policy, Quorum
from signoff.people.questions.question import InputType, Question
from signoff.people.questions.question_state import excluded_users
from signoff.people.schemas.promise_returns import data_of
from signoff.records.names import check_user
from signoff.records.start_options import check_flag, seconds_of
from signoff.workflow.callbacks import CallbackCall, CallbackOpening
from signoff.workflow.concurrency import slot_of
from signoff.workflow.functions import LocalCall, function_name, is_workflow_code
from signoff.workflow.handles import Detached, Invocation, Note, Opening, Sleep
from signoff.workflow.questions import QuestionCall

TChild = TypeVar("TChild", bound=ChildCall)
Function = Callable[..., Any]


_running: contextvars.ContextVar[Context] = contextvars.ContextVar("signoff_context")


class Names(Protocol):
    """What a context needs of the registry."""

    group: str
    public_url: str | None

    def function(self, workflow: Function | str) -> Function | None:
        """Return the newest function of a workflow's name; None if it is not registered."""
        ...

    def workflow_name(self, workflow: Function | str) -> str:
        """Return the registered name of a workflow. Raises RegistrationError."""
        ...


class Context:
    """One run, as its code sees it. A function called with ``lfc`` or ``lfi`` gets one of its own.

    Attributes:
        run_id: The run's id.
        session_id: The session that the run belongs to, if any.
        started_by: The user who started the run, if known.
        version: The workflow's version when this run began.
    """

    def __init__(self, execution: Execution, names: Names) -> None:
        self._execution = execution
        self._names = names
        self.run_id = execution.run.id
        self.session_id = execution.run.session_id
        self.started_by = execution.run.started_by
        self.version = execution.version

    @cached_property
    def logger(self) -> RunLogger:
        """A logger that is silent while the run is replayed, so that each line is written once.

        Example::

            ctx.logger.info("refund of %d cents", cents)
        """
        return RunLogger(self._execution)

    @property
    def is_replaying(self) -> bool:
        """Whether the code did before what it does now: for metrics and spans of its own, which are to be made once.

        What the code does for the run must not depend on it.
        """
        return self._execution.is_replaying

    @property
    def stop_reason(self) -> str | None:
        """Why somebody has cancelled the run, for code that cleans up; None if they have not said, or nobody has."""
        return self._execution.stop_reason

    # Steps and functions

    def step(
        self,
        name: str | Function,
        function: Function | None = None,
        /,
        *args: Any,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        durable: bool = True,
        non_retryable: tuple[type[BaseException], ...] = (),
        effect: Effect = "repeatable",
        key: str | None = None,
        returns: Any = None,
        operators: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        compare: Any = UNSAID,
        on_failure: Callable[[Exception], CannotRunHere] | None = None,
        **unknown: Never,
    ) -> StepCall:
        """Run ordinary code once and keep what it returns.

        The function is called with ``args`` only. An async function runs on the worker's loop, a plain one in a
        thread. It may run more than once (after a failure or a crash), its outcome is journaled once.

        Args:
            name: The step's name in the journal; may be left out for a named function.
            function: What to run.
            args: Its arguments. The function gets copies of those that are data. Short ones are journaled, of long ones
                a digest: a replay compares them, with the variables of the workflow that the function closes over.
            retry: When to try again; by default 8 attempts with exponential back-off.
            timeout: Seconds one attempt may take. A plain function cannot be stopped and goes on in its thread.
            durable: False keeps the value out of the journal; the function runs again at every replay.
            non_retryable: Exception classes (and their subclasses) after which there is no further attempt.
            effect: ``"once"`` journals the start as well. If the worker dies inside, a person is asked.
            key: The idempotency key the step sees, instead of ``{run_id}.{n}``.
            returns: The type its value is brought back as; by default the function's return annotation.
            operators: Who is asked about a step of ``effect="once"`` that was interrupted, such as ``["group:ops"]``;
                by default the app's ``operators``, and anybody if there are none.
            metadata: What they are shown of it, such as its arguments; JSON.
            compare: What a replay compares instead of the arguments: data. None compares nothing but the name.
            on_failure: Given the error of the last attempt, returns what the run fails with. The run is kept then, the
                step has no outcome, and runs again when the run is retried; the code does not see the error.

        Returns:
            An awaitable for the value, as the journal gives it back at any replay.

        Raises:
            RegistrationError: The options contradict each other, or a keyword is not an option.
            InvalidValue: ``returns`` is not a type.

        Example::

            order = await ctx.step("fetch_order", fetch_order, order_id, timeout=10)
        """
        if unknown:
            raise unknown_option(name, function, [*unknown])
        if function is None or not isinstance(name, str):
            if callable(name):
                args = args if function is None else (function, *args)
                name, function = function_name(name), name
            if function is None and not isinstance(cast("object", name), str):
                check_step("", name, ())
            if function is None:
                raise RegistrationError(f"step {name!r} has no function: ctx.step(name, function, *args)")
        callee = callee_of(function)
        if callee is None or not callee.least <= len(args) <= callee.most:
            check_step(name, function, args)
        if (
            retry is None
            and timeout is None
            and durable is True
            and effect == "repeatable"
            and key is None
            and returns is None
            and metadata is None
            and compare is UNSAID
            and on_failure is None
            and non_retryable == ()
            and operators == ()
        ):
            if callee is not None:
                return StepCall(self._execution, name, function, args, {}, callee.options, callee=callee)
            options = StepOptions(returns=codec.return_annotation(function))
            note_variables(function, self._execution.codes)
            return StepCall(self._execution, name, function, args, {}, options)
        options = StepOptions(
            retry=retry,
            timeout=timeout,
            durable=durable,
            non_retryable=non_retryable,
            effect=effect,
            key=key,
            returns=codec.return_annotation(function) if returns is None else returns,
            operators=operators,
            metadata=metadata,
            compare=compare,
            on_failure=on_failure,
        )
        options.check(f"step {name!r}")
        if returns is not None:
            codec.check_type(f"step {name!r}: returns", returns)
        if callee is None:
            note_variables(function, self._execution.codes)
        return StepCall(self._execution, name, function, args, {}, options, callee=callee)

    def lfc(self, function: Function, *args: Any, **kwargs: Any) -> StepCall | LocalCall:
        """Call a function with a context of its own and wait for it.

        A generator or async function is workflow code and part of this run. A plain function is run as a step, in
        a thread; of its context it may use what only informs, such as ``run_id``.
        """
        child = Context(self._execution, self._names)
        if is_workflow_code(function):
            return LocalCall(self._execution, child, function, args, kwargs)
        name = function_name(function)
        check_step(name, function, (child, *args), kwargs)
        options = StepOptions(returns=codec.return_annotation(function))
        note_variables(function, self._execution.codes)
        return StepCall(self._execution, name, function, (child, *args), kwargs, options, child)

    def lfi(self, function: Function, *args: Any, **kwargs: Any) -> Invocation[Any]:
        """Like ``lfc``, but awaiting it gives a handle at once; awaiting the handle waits for the value."""
        return Invocation(self._execution, self.lfc(function, *args, **kwargs))

    # Other runs

    def rfc(self, workflow: Function | str, *args: Any, **kwargs: Any) -> ChildCall:
        """Run a workflow as a run of its own, on any worker of its group, and wait for its result.

        Args:
            workflow: A registered function, or the name of one that another process has.
        """
        return self._child(ChildCall, workflow, args, kwargs)

    def rfi(self, workflow: Function | str, *args: Any, **kwargs: Any) -> Invocation[Any]:
        """Like ``rfc``, but awaiting it gives a handle at once; awaiting the handle waits for the result."""
        return Invocation(self._execution, self.rfc(workflow, *args, **kwargs))

    def detached(self, workflow: Function | str, *args: Any, **kwargs: Any) -> Detached:
        """Start a run that goes on by itself. Awaiting this gives its id.

        With a chosen id (``.options(id=...)``) that some run has already, that run is left as it is.
        """
        return Detached(self._execution, self._child(DetachedCall, workflow, args, kwargs))

    def _child(
        self, kind: type[TChild], workflow: Function | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TChild:
        name = self._names.workflow_name(workflow)
        function = None if isinstance(workflow, str) else workflow
        known = self._names.function(workflow)
        arguments = codec.encode_arguments(function, args, kwargs, name=name, known=known)
        returns = Any if function is None else codec.return_annotation(function)
        slot = slot_of(known, arguments)
        return kind(self._execution, name, self._names.group, arguments, returns, slot)

    # Promises, people, signals, time

    def promise(
        self,
        *,
        id: str | None = None,
        timeout_seconds: float | None = None,
        data: Any = None,
        returns: Any = Any,
    ) -> Opening:
        """Create a promise that something outside settles. Awaiting this gives it; awaiting it gives its value.

        Args:
            id: A chosen id, by default ``{run_id}.{n}``. A promise that has it already is joined, but not one whose
                outcome this run has had: in a loop, give each its own id.
            timeout_seconds: After how long it times out.
            data: What to show to those who look at it.
            returns: The type its value comes back as, or a JSON Schema, which gives plain data. A resolution that does
                not fit it is refused, and the promise stays open. The schema is shown in the promise's data, as
                ``$returns``.

        Raises (when the promise is awaited):
            PromiseRejected, PromiseCancelled, PromiseTimeout

        Example::

            promise = await ctx.promise()
            await ctx.step("ask", send_email, promise.id)
            answer = await promise
        """
        text = data_of(data, returns, has_data=data is not None)
        # without the schema of what it returns: each version of pydantic writes that in its own way
        shown = None if data is None else text if returns is Any else codec.encode(data, path="data")
        call = PromiseCall(
            self._execution,
            id or "",
            chosen_id=id,
            timeout=timeout_seconds,
            data=text,
            returns=Any if isinstance(returns, dict) else returns,
            shown=shown,
        )
        return Opening(self._execution, call)

    def wait_for_user(
        self,
        question: str,
        *,
        input_type: InputType = "approval",
        options: Sequence[str | dict[str, Any]] = (),
        answer_type: Any = None,
        metadata: dict[str, Any] | None = None,
        assignees: Sequence[str] = (),
        quorum: Quorum | int = 1,
        exclude_requester: bool = False,
        requester: str | None = None,
        timeout_seconds: float | None = None,
        timeout_answer: Any = UNSET,
        remind_every: float | None = None,
        escalations: Sequence[Escalation] = (),
        hours: BusinessHours | None = None,
        skippable: bool = False,
        help: str | None = None,
        default: Any = None,
        attachments: Sequence[Attachment] = (),
        other: str | None = None,
        min_choices: int | None = None,
        max_choices: int | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        proposal: Any = None,
        proposal_type: Any = None,
        action: Action | None = None,
    ) -> QuestionCall:
        """Ask a person, and wait without using anything until one has answered.

        Args:
            question: The text they read.
            input_type: ``approval`` (yes or no), ``text``, ``select`` and ``multiselect`` (of ``options``), or
                ``form`` (of the fields of ``answer_type``).
            options: What can be selected: texts, or ``{"value": ..., "label": ..., "help": ...}``.
            answer_type: A pydantic model or dataclass (or a JSON Schema) that a form's answer must fit;
                ``answer.value`` is then an instance.
            metadata: What else to show to them.
            assignees: Who may answer: ``user:ana``, ``group:finance``, ``role:approver``; by default anybody.
            quorum: How many different people must approve; ``Quorum(2, of=3)`` says how many may vote, else it takes
                one no. The answer is rejected as soon as too many have said no; ``answer.votes`` has who said what.
            exclude_requester: Whether the requester must not answer it (four eyes).
            requester: Whom it is asked for; by default who started the run.
            timeout_seconds: After how long to give up.
            timeout_answer: The answer that stands if nobody has given one by then, instead of ``SignalTimeout``;
                ``answer.timed_out`` is then true.
            remind_every: After how many seconds to remind people, again and again.
            escalations: Who may answer, too, when nobody has for some time.
            hours: Has all these seconds be working time: what does not count passes as if it were not. With them
                there are at most 100 reminders.
            skippable: Whether a person may skip it; ``answer.skipped`` is then true and ``answer.value`` None.
            help: A longer text beside the question.
            default: What the form begins with. It is no answer by itself, and an approval has none.
            attachments: What they may look at: ``{"name": ..., "url": ..., "media_type": ...}``, by ``http`` or
                ``https``; the last may be missing.
            other: For ``select`` and ``multiselect``: has them write a text of their own if nothing fits, under this
                label; ``answer.is_other`` is then true.
            min_choices: For ``multiselect``: how many they choose at least.
            max_choices: And at most.
            min_length: For ``text``: how many characters it has at least; an empty text is never an answer.
            max_length: And at most.
            proposal: For ``approval``: a value that they approve as it is, or edit and approve, or reject.
                ``answer.proposal`` is what was approved, ``answer.edits`` how that differs. None proposes nothing.
                It is shown as its schema describes it: by alias, with excluded fields and secrets, without computed
                ones.
            proposal_type: A type (or a JSON Schema) that the proposal and its edits must fit; ``answer.proposal`` is
                then an instance. A value of the type is not validated again; an edit is, once, and what it leaves as
                it was stays the value that was proposed. By default any JSON does.
            action: For ``approval``: what is done if it is approved: a tool, and its very arguments. Somebody who
                approves it may have others like it approved, too, for some time; ``answer.rule`` is then the rule's id.
                A proposal beside it must be its arguments.

        Returns:
            An awaitable for an ``Answer``.

        Raises:
            RegistrationError: The question makes no sense, such as a select without options, a default that would be
                no answer, or four eyes where nobody knows who the requester is.
            InvalidValue: An assignee, a number or a time is none.
            NotSerializable: A part of it is not JSON, or JSON cannot say all of the proposal.
            SignalTimeout: (when awaited) Nobody answered in time.
            QuestionCancelled: (when awaited) Somebody has withdrawn it from outside.
            InvalidValue: (when awaited) The answer fits the JSON Schema of ``answer_type`` or ``proposal_type``, but
                not the type itself, or the type makes something else of what was approved.

        Example::

            answer = await ctx.wait_for_user(
                f"Refund {amount}?", assignees=["group:finance"], exclude_requester=True, timeout_seconds=3600
            )
            if answer.approved: ...

            answer = await ctx.wait_for_user("Send this mail?", proposal=draft, proposal_type=Mail)
            if answer.approved:
                await ctx.step("send", send, answer.proposal)
        """
        asked = Question.make(
            question,
            input_type=input_type,
            options=options,
            answer_type=answer_type,
            metadata=metadata,
            skippable=skippable,
            help=help,
            default=default,
            attachments=attachments,
            other=other,
            min_choices=min_choices,
            max_choices=max_choices,
            min_length=min_length,
            max_length=max_length,
            proposal=proposal,
            proposal_type=proposal_type,
            action=action,
        )
        if requester is not None:
            check_user("requester", requester)
        requester = requester or self._execution.run.started_by
        if check_flag("exclude_requester", exclude_requester) and not requester:
            raise RegistrationError(
                f"question {question!r}: exclude_requester needs to know the requester: start the run with "
                "started_by=..., or pass requester="
            )
        policy = Policy.make(
            question,
            input_type=input_type,
            skippable=skippable,
            assignees=assignees,
            quorum=quorum,
            excluded=excluded_users(requester) if exclude_requester else (),
            remind_every=remind_every,
            escalations=escalations,
            timeout_seconds=timeout_seconds,
            timeout_answer=None if timeout_answer is UNSET else checked_default(asked, timeout_answer),
        )
        declared = answer_type if proposal_type is None else proposal_type
        if hours is not None:
            policy.in_hours(
                hours, self._execution.loop.time(), timeout_seconds
            )  # refused here, not when awaited
        return QuestionCall(self._execution, asked, policy, timeout_seconds, declared, hours)

    def callback(
        self,
        question: str,
        *,
        answer_type: Any = None,
        timeout_seconds: float | None = None,
        methods: Sequence[str] = ("POST",),
        headers: Sequence[str] = (),
        then: str | None = None,
        metadata: dict[str, Any] | None = None,
        help: str | None = None,
    ) -> CallbackOpening:
        """Open a question that something elsewhere answers: a payment, a webhook, an OAuth server.

        Awaiting this gives the callback with its ``url``, open from then on; awaiting that waits for its answer.

        Args:
            question: What is waited for, as people read it in the inbox.
            answer_type: A pydantic model or dataclass (or a JSON Schema) that the body must fit, as JSON or as a form,
                or for GET the query; ``answer.value`` is then an instance. By default it is a ``Callback``: all that
                came.
            timeout_seconds: After how long to give up.
            methods: By which it is made. ``GET`` is for browsers that are sent back: whatever fetches the address
                answers.
            headers: Names of headers to keep, without an ``answer_type``.
            then: Where to send a browser that has called back.
            metadata: What else to show to people.
            help: A longer text beside the question.

        Raises:
            RegistrationError: The parts do not fit together. Where nobody has said where others reach the server, the
                run itself fails with it, and can be retried when somebody has.
            SignalTimeout: (when the callback is awaited) Nothing came in time.
            QuestionCancelled: (when the callback is awaited) Somebody has withdrawn it.
            InvalidValue: (when the callback is awaited) What came fits the JSON Schema of ``answer_type``, but not the
                type itself.

        Example::

            paid = await ctx.callback("Payment of order o-1", answer_type=Payment, timeout_seconds=86_400)
            await ctx.step(create_checkout, order, paid.url)
            payment = (await paid).value
        """
        terms = Terms(methods, headers, then, is_whole=answer_type is None)
        asked = Question.make(
            question,
            input_type="external",
            answer_type=answer_type,
            metadata=metadata,
            help=help,
            callback=terms,
        )
        declared = Callback if answer_type is None else answer_type
        return CallbackOpening(
            CallbackCall(self._execution, asked, declared, timeout_seconds, self._names.public_url)
        )

    def wait_for_signal(
        self, name: str, *, timeout_seconds: float | None = None, returns: Any = Any
    ) -> SignalCall:
        """Wait for the next signal of this name; one that was sent before is taken first.

        Raises:
            SignalTimeout: (when awaited) None came in time.
        """
        return SignalCall(self._execution, name, timeout_seconds, returns)

    def sleep(self, seconds: float) -> Sleep:
        """Wait durably. ``asyncio.sleep`` does the same in a workflow.

        Raises:
            InvalidValue: ``seconds`` is not a finite number.
        """
        return Sleep(self._execution, seconds_of("seconds", seconds))

    def now(self) -> datetime:
        """The time (UTC) at which the run's latest event happened. The same at every replay."""
        return datetime.fromtimestamp(self._execution.loop.time(), UTC)

    def uuid4(self) -> uuid.UUID:
        """A random UUID that is the same at every replay."""
        return uuid.UUID(int=self._execution.random.getrandbits(128), version=4)

    def random(self) -> random.Random:
        """The run's source of random numbers; the same numbers at every replay. Not for secrets."""
        return self._execution.random

    # The run itself

    def progress(self, message: str, **details: Any) -> Note:
        """Note for people how far the run is. Awaiting it does not wait.

        Example::

            await ctx.progress("invoices read", done=20, total=50)
        """
        return Note(self._execution, ProgressCall(self._execution, message, codec.encode(details)))

    def patched(self, id: str) -> bool:
        """Whether this run takes the changed way: true for runs that come here for the first time.

        A run that had passed this place before the change stays on the old way for ever.

        Example::

            if ctx.patched("check-fraud"):
                await ctx.step("check_fraud", check_fraud, order)
        """
        return self._execution.is_patched(id)

    def cannot_run_here(self, reason: str) -> NoReturn:
        """Stop on this worker: the run has failed, is kept whole and can be retried, whatever the code catches.

        Args:
            reason: What is missing here, and what to do.

        Raises:
            CannotRunHere: Always. What the code does after it counts no more.
        """
        error = CannotRunHere(reason)
        self._execution.refuse(error)
        raise error

    def branch(self) -> Branch:
        """Begin a branch, whose calls are numbered among themselves: a replay can do without them.

        In a branch, it begins one within that.

        Raises:
            RegistrationError: The run has begun a million of them.
        """
        return self._execution.branch()

    @property
    def is_in_branch(self) -> bool:
        """Whether this code runs in a branch."""
        return self._execution.numbers.branch_here is not None

    async def rebuild(self) -> NoReturn:
        """Have the run rebuilt from its journal, when its steps that run have ended. The code goes no further here.

        It is for code that goes another way by what the journal says now: a branch that it has skipped, it skips no
        longer.
        """
        self._execution.is_outdated = True
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing completes it")

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this generation of the run and begin the next, with these arguments and an empty journal.

        The run keeps its id, its handles, its parent and the signals that it has not waited for yet.

        Raises:
            PayloadTooLarge: The arguments are over 16 MiB.
        """
        function = self._execution.program.function
        raise ContinueAsNew(codec.encode_arguments(function, args, kwargs, limit=codec.MAX_CARRIED))


def current_context() -> Context:
    """Return the context of the workflow whose code runs here, for code that it was not handed to.

    Raises:
        OutsideWorkflow: This is not workflow code, but a step or something outside.

    Example::

        async def audited(name: str) -> None:
            await signoff.current_context().step("audit", write_audit_line, name)
    """
    context = _running.get(None)
    if context is None or current_attempt.get(None) is not None:
        raise OutsideWorkflow("current_context()", why="no workflow code is running here")
    return context


def run_as(context: Context) -> None:
    """Make ``context`` the current one of the code that runs from here on."""
    _running.set(context)


def own_step(context: Context, name: str, function: Callable[[], Any], options: StepOptions) -> OwnStepCall:
    """Make a step for code of Signoff: see ``OwnStepCall``."""
    return OwnStepCall(context._execution, name, function, (), {}, options)  # pyright: ignore[reportPrivateUsage]


def own_signal(context: Context, name: str) -> OwnSignalCall:
    """Wait for a signal in code of Signoff: see ``OwnSignalCall``."""
    return OwnSignalCall(context._execution, name, None, Any)  # pyright: ignore[reportPrivateUsage]
