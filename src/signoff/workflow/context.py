"""The context: the calls that workflow code can make. Each is numbered, journaled and replayed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Never, NoReturn, Protocol, TypeVar, cast

from signoff import codec
from signoff.engine.run.calls import OwnSignalCall, ProgressCall, PromiseCall, SignalCall
from signoff.engine.run.child_calls import ChildCall, DetachedCall
from signoff.engine.run.execution import Execution
from signoff.engine.run.step_call import OwnStepCall, StepCall
from signoff.engine.steps.captured_values import note_variables
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.steps.step_function import step_function_of
from signoff.engine.steps.step_options import UNSAID, Effect, StepOptions, unknown_option
from signoff.engine.steps.wrong_arguments import check_step
from signoff.errors import CannotRunHere, ContinueAsNew, RegistrationError
from signoff.observability.logs import RunLogger
from signoff.people.questions.actions import Action
from signoff.people.questions.answer_checks import checked_default
from signoff.people.questions.attachments import Attachment
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.callback_terms import Callback, Terms
from signoff.people.questions.policies import UNSET, Escalation, Policy, Quorum
from signoff.people.questions.proposals import full_json
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

_NO_OPTIONS: Final = (None, None, True, (), "repeatable", None, None, (), None, None)
"""The options of most steps. One comparison is quicker than ten."""


class Names(Protocol):
    """The part of the registry that a context uses."""

    group: str
    public_url: str | None

    def function(self, workflow: Function | str) -> Function | None:
        """Return the latest version of a workflow's function, or None if the name is not registered."""
        ...

    def workflow_name(self, workflow: Function | str) -> str:
        """Return the registered name of a workflow.

        Raises:
            RegistrationError: The function is not a workflow.
        """
        ...


class Context:
    """A run's API for its own code. A function called with ``lfc`` or ``lfi`` gets a context of its own.

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
        """A logger that is silent during replay, so that each line is logged once.

        Example::

            ctx.logger.info("refund of %d cents", cents)
        """
        return RunLogger(self._execution)

    @property
    def is_replaying(self) -> bool:
        """Whether the code is repeating work that is already journaled.

        Use it to emit your own metrics and spans once. The workflow's decisions must not depend on it.
        """
        return self._execution.is_replaying

    @property
    def stop_reason(self) -> str | None:
        """The reason given for the run's cancellation, for cleanup code; None without a reason."""
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
        """Run ordinary code once and journal its result.

        The function receives ``args`` only. An async function runs on the worker's event loop, a plain function in a
        thread. It may run more than once, after a failure or a crash; its outcome is journaled once.

        Args:
            name: The step's name in the journal. May be omitted for a named function.
            function: The function to run.
            args: Its arguments. The function gets copies of mutable data. Short arguments are journaled in full, long
                ones as a digest. Replay compares them, and the workflow variables that the function closes over, with
                the journal.
            retry: The retry policy; by default 8 attempts with exponential back-off.
            timeout: Seconds that one attempt may take. A plain function cannot be stopped: it continues in its thread.
            durable: False keeps the value out of the journal; the function runs again at every replay.
            non_retryable: Exception classes (and their subclasses) that end the retries.
            effect: ``"once"`` also journals the start. If the worker dies during the step, an operator decides whether
                it runs again.
            key: The idempotency key that the step sees, instead of ``{run_id}.{n}``.
            returns: The type that the value is decoded as; by default the function's return annotation.
            operators: Who decides about an interrupted step with ``effect="once"``, such as ``["group:ops"]``; by
                default the app's ``operators``, or any user if the app has none.
            metadata: JSON shown to the operator, such as the step's arguments.
            compare: Data that replay compares instead of the arguments. With None, replay compares only the name.
            on_failure: Receives the error of the last attempt and returns the error that the run fails with. The run
                stays retryable: the step has no outcome, the workflow code does not see the error, and a retry of the
                run runs the step again.

        Returns:
            An awaitable for the value, identical at every replay.

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
        callee = step_function_of(function)
        if callee is None or not callee.least <= len(args) <= callee.most:
            check_step(name, function, args)
        given = (
            retry,
            timeout,
            durable,
            non_retryable,
            effect,
            key,
            returns,
            operators,
            metadata,
            on_failure,
        )
        if compare is UNSAID and given == _NO_OPTIONS:
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
        if returns is not None and returns is not Any:
            codec.check_type(f"step {name!r}: returns", returns)
        if callee is None:
            note_variables(function, self._execution.codes)
        return StepCall(self._execution, name, function, args, {}, options, callee=callee)

    def lfc(self, function: Function, *args: Any, **kwargs: Any) -> StepCall | LocalCall:
        """Call a function with its own context and wait for the result.

        An async function or a generator function runs as workflow code in this run. A plain function runs as a step in
        a thread: it may read attributes of its context, such as ``run_id``, but make no calls.

        Args:
            function: The function; its first parameter is the context.
            args: Its other positional arguments.
            kwargs: Its keyword arguments.

        Example::

            total = await ctx.lfc(add_up, order)
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
        """Like ``lfc``, but concurrent: awaiting it returns a handle at once; awaiting that waits for the result.

        Example::

            first, second = await ctx.lfi(check, a), await ctx.lfi(check, b)
            results = await first, await second
        """
        return Invocation(self._execution, self.lfc(function, *args, **kwargs))

    # Other runs

    def rfc(self, workflow: Function | str, *args: Any, **kwargs: Any) -> ChildCall:
        """Start a workflow as a child run, on any worker of its group, and wait for its result.

        Args:
            workflow: A registered function, or the name of a workflow that another process has registered.
            args: The workflow's positional arguments, without the context.
            kwargs: Its keyword arguments.

        Raises:
            RegistrationError: The function is not a workflow.
            RunCancelled: (when awaited) The child run was cancelled.

        Example::

            invoice = await ctx.rfc(make_invoice, order.id)
        """
        return self._child(ChildCall, workflow, args, kwargs)

    def rfi(self, workflow: Function | str, *args: Any, **kwargs: Any) -> Invocation[Any]:
        """Like ``rfc``, but concurrent: awaiting it returns a handle at once; awaiting that waits for the result."""
        return Invocation(self._execution, self.rfc(workflow, *args, **kwargs))

    def detached(self, workflow: Function | str, *args: Any, **kwargs: Any) -> Detached:
        """Start an independent run. Awaiting this returns its id.

        If a run with a chosen id (``.options(id=...)``) already exists, it is left as it is.
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
        """Create a promise that is settled from outside.

        Awaiting this returns the promise. Awaiting the promise returns its value.

        Args:
            id: A chosen id; by default ``{run_id}.{n}``. An existing pending promise with this id is joined. A run
                cannot reuse the id of a promise whose outcome it has received: in a loop, give each promise its own id.
            timeout_seconds: Seconds until the promise times out.
            data: Data shown to readers of the promise.
            returns: The type that the value is decoded as, or a JSON Schema for plain data. A resolution that does not
                match is rejected, and the promise stays pending. The schema is part of the promise's data, as
                ``$returns``.

        Raises:
            PromiseRejected: (when the promise is awaited) It was rejected.
            PromiseCancelled: (when the promise is awaited) It was cancelled.
            PromiseTimeout: (when the promise is awaited) It timed out.

        Example::

            promise = await ctx.promise()
            await ctx.step("ask", send_email, promise.id)
            answer = await promise
        """
        text = data_of(data, returns, has_data=data is not None)
        # Replay compares the data without the schema of `returns`, which differs between versions of pydantic.
        shown = None if data is None else text if returns is Any else codec.encode(full_json(data, "data"))
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
        """Ask a person a question and wait for the answer. A waiting run uses no worker resources.

        Args:
            question: The question's text.
            input_type: ``approval`` (yes or no), ``text``, ``select`` and ``multiselect`` (from ``options``), or
                ``form`` (the fields of ``answer_type``).
            options: The choices: texts, or ``{"value": ..., "label": ..., "help": ...}``.
            answer_type: A pydantic model, a dataclass or a JSON Schema that a form's answer must match. With a model or
                dataclass, ``answer.value`` is an instance of it.
            metadata: Additional data shown with the question.
            assignees: Who may answer: ``user:ana``, ``group:finance``, ``role:approver``; by default any user.
            quorum: How many different people must approve. ``Quorum(2, of=3)`` also limits the number of voters;
                otherwise a single no rejects. The question is rejected as soon as the quorum can no longer be reached.
                ``answer.votes`` lists the votes.
            exclude_requester: Whether the requester is barred from answering (four-eyes principle).
            requester: The user on whose behalf the question is asked; by default the user who started the run.
            timeout_seconds: Seconds until the question times out.
            timeout_answer: The answer used at the timeout instead of raising ``SignalTimeout``; ``answer.timed_out`` is
                then true.
            remind_every: Seconds between reminders.
            escalations: Further people who may answer after a delay.
            hours: Business hours: all of these seconds then count working time only. At most 100 reminders are sent.
            skippable: Whether the question may be skipped; ``answer.skipped`` is then true and ``answer.value`` None.
            help: A longer text shown beside the question.
            default: The form's initial value. It is never submitted on its own; an approval has no default.
            attachments: Files to show: ``{"name": ..., "url": ..., "media_type": ...}``. URLs use ``http`` or
                ``https``; ``media_type`` is optional.
            other: For ``select`` and ``multiselect``: the label of a free-text choice; ``answer.is_other`` is true if
                it was used.
            min_choices: For ``multiselect``: the minimum number of choices.
            max_choices: For ``multiselect``: the maximum number of choices.
            min_length: For ``text``: the minimum number of characters. An empty text is never accepted.
            max_length: For ``text``: the maximum number of characters.
            proposal: For ``approval``: a value to approve as it is, edit and approve, or reject. ``answer.proposal`` is
                the approved value, ``answer.edits`` the difference. None means no proposal. It is shown as its schema
                describes it: by alias, with excluded and secret fields, without computed fields.
            proposal_type: A type or JSON Schema that the proposal and its edits must match; by default any JSON. With a
                type, ``answer.proposal`` is an instance of it. A proposal that already is an instance is not validated
                again. An edit is validated once; the parts that it does not change keep the proposed values.
            action: For ``approval``: the tool that runs if this is approved, with its exact arguments. The approver may
                also create a standing approval for similar actions; ``answer.rule`` is then the rule's id. A proposal
                beside it must equal the action's arguments.

        Returns:
            An awaitable for an ``Answer``.

        Raises:
            RegistrationError: The parameters contradict each other, such as a select without options, an invalid
                default, or ``exclude_requester`` without a known requester.
            InvalidValue: An assignee, a number or a time is not valid.
            NotSerializable: A part is not JSON, or the proposal cannot be represented in JSON without loss.
            SignalTimeout: (when awaited) The question timed out.
            QuestionCancelled: (when awaited) The question was withdrawn.
            InvalidValue: (when awaited) The answer matches the JSON Schema of ``answer_type`` or ``proposal_type`` but
                not the type itself, or the type changes the approved value.

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
            # Raises here instead of at the await.
            policy.in_hours(hours, self._execution.loop.time(), timeout_seconds)
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
        """Open a question that another system answers by HTTP: a payment provider, a webhook, an OAuth server.

        Awaiting this opens the callback and returns it with its ``url``. Awaiting the callback waits for its answer.

        Args:
            question: The question's text in the inbox.
            answer_type: A pydantic model, a dataclass or a JSON Schema that the request's body (JSON or form) must
                match, or for GET its query. With a model or dataclass, ``answer.value`` is an instance of it. By
                default it is a ``Callback``, which has the whole request.
            timeout_seconds: Seconds until the callback times out.
            methods: The HTTP methods accepted. Use ``GET`` only for browser redirects: any fetch of the address
                answers.
            headers: Names of request headers to keep. Only without an ``answer_type``.
            then: The URL to which a browser is redirected after its call.
            metadata: Additional data shown with the question.
            help: A longer text shown beside the question.

        Raises:
            RegistrationError: The parameters contradict each other. If the server's public URL is not configured, the
                run fails with this error, and can be retried once it is.
            SignalTimeout: (when the callback is awaited) It timed out.
            QuestionCancelled: (when the callback is awaited) It was withdrawn.
            InvalidValue: (when the callback is awaited) The request matches the JSON Schema of ``answer_type`` but not
                the type itself.

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
        """Wait for the next signal with this name. Signals sent before the call are received first, in order.

        Args:
            name: The signal's name.
            timeout_seconds: Seconds until ``SignalTimeout``; by default it waits without limit.
            returns: The type that the value is decoded as.

        Raises:
            SignalTimeout: (when awaited) No signal arrived in time.

        Example::

            address = await ctx.wait_for_signal("address_changed", returns=Address)
        """
        return SignalCall(self._execution, name, timeout_seconds, returns)

    def sleep(self, seconds: float) -> Sleep:
        """Sleep durably, across restarts. ``asyncio.sleep`` does the same in a workflow.

        Args:
            seconds: How long to sleep.

        Raises:
            InvalidValue: ``seconds`` is not a finite number.
        """
        return Sleep(self._execution, seconds_of("seconds", seconds))

    def now(self) -> datetime:
        """The time (UTC) of the run's latest event, identical at every replay."""
        return datetime.fromtimestamp(self._execution.loop.time(), UTC)

    def uuid4(self) -> uuid.UUID:
        """A random UUID, identical at every replay."""
        return uuid.UUID(int=self._execution.random.getrandbits(128), version=4)

    def random(self) -> random.Random:
        """The run's random number generator, with the same numbers at every replay. Not for secrets."""
        return self._execution.random

    # The run itself

    def progress(self, message: str, **details: Any) -> Note:
        """Report the run's progress to its observers. Awaiting it returns immediately.

        Args:
            message: The text shown.
            details: Values shown beside it.

        Example::

            await ctx.progress("invoices read", done=20, total=50)
        """
        return Note(self._execution, ProgressCall(self._execution, message, codec.encode(details)))

    def patched(self, id: str) -> bool:
        """Return whether this run takes the changed code path: true for runs that reach this call for the first time.

        A run that passed this place before the change keeps the old path permanently.

        Args:
            id: A name for the change, unique in the workflow.

        Example::

            if ctx.patched("check-fraud"):
                await ctx.step("check_fraud", check_fraud, order)
        """
        return self._execution.is_patched(id)

    def cannot_run_here(self, reason: str | CannotRunHere) -> NoReturn:
        """Stop the run on this worker: it fails and can be retried, even if the code catches the error.

        Args:
            reason: What is missing here, and how to provide it; or an error of a subclass that says so.

        Raises:
            CannotRunHere: Always. Calls made after it are ignored.
        """
        error = CannotRunHere(reason) if isinstance(reason, str) else reason
        self._execution.refuse(error)
        raise error

    def continue_as_new(self, *args: Any, **kwargs: Any) -> NoReturn:
        """End this generation of the run and begin the next one with these arguments and an empty journal.

        The run keeps its id, its handles, its parent and the signals that it has not received yet.

        Args:
            args: The next generation's positional arguments, without the context.
            kwargs: Its keyword arguments.

        Raises:
            PayloadTooLarge: The arguments are over 16 MiB.

        Example::

            if processed >= 10_000:
                ctx.continue_as_new(cursor)
        """
        function = self._execution.program.function
        raise ContinueAsNew(codec.encode_arguments(function, args, kwargs, limit=codec.MAX_CARRIED))


def own_step(context: Context, name: str, function: Callable[[], Any], options: StepOptions) -> OwnStepCall:
    """Make a step for Signoff's own code. See ``OwnStepCall``."""
    return OwnStepCall(context._execution, name, function, (), {}, options)  # pyright: ignore[reportPrivateUsage]


def own_signal(context: Context, name: str) -> OwnSignalCall:
    """Wait for a signal in Signoff's own code. See ``OwnSignalCall``."""
    return OwnSignalCall(context._execution, name, None, Any)  # pyright: ignore[reportPrivateUsage]
