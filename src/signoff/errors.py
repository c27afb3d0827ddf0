"""Exceptions that Signoff raises. ``except SignoffError`` catches every error among them.

Each message names the object, the problem and the remedy. Control-flow exceptions derive from ``BaseException``, so
that a user's ``except Exception`` does not swallow them. They are at the end of the file.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, ClassVar


class SignoffError(Exception):
    """Base of every error that Signoff raises."""


# Values


class NotSerializable(SignoffError, TypeError):
    """A value cannot be stored as JSON and read back unchanged."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class PayloadTooLarge(SignoffError, ValueError):
    """A value's JSON is larger than the limit (1 MiB by default)."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        super().__init__(
            f"{path}: {size:,} bytes as JSON, over the limit of {limit:,}; store it elsewhere and pass a reference"
        )
        self.path = path
        self.size = size
        self.limit = limit


class InvalidValue(SignoffError, ValueError):
    """A value does not match the type or schema declared for it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


# Requests


class NotFound(SignoffError, LookupError):
    """No run, promise, question or workflow has this id in this namespace."""

    def __init__(self, noun: str, id: str) -> None:
        super().__init__(f"no {noun} {id!r} here; check the id, the namespace and the store")
        self.noun = noun
        self.id = id


class IdConflict(SignoffError):
    """The id is already used for another workflow, other arguments or another kind of object."""

    def __init__(self, id: str, differs: str) -> None:
        super().__init__(
            f"id {id!r} is taken: {differs}; choose another id, or repeat the first call exactly"
        )
        self.id = id
        self.differs = differs


class AlreadySettled(SignoffError):
    """The promise was already settled, cancelled or timed out.

    Attributes:
        promise_id: The promise.
        state: Its state: ``resolved``, ``rejected``, ``cancelled`` or ``timed_out``.
        settled_by: The user who settled it, if known.
        settled_at: The time of settlement, in unix seconds.
    """

    def __init__(self, promise_id: str, state: str, settled_by: str | None, settled_at: float | None) -> None:
        by = f" by {settled_by}" if settled_by else ""
        super().__init__(f"promise {promise_id!r} is already {state}{by}; nothing was changed")
        self.promise_id = promise_id
        self.state = state
        self.settled_by = settled_by
        self.settled_at = settled_at


class RequestConflict(SignoffError):
    """A request id was reused with another value or for another target.

    Attributes:
        request_id: The request id.
        target: The promise, question or run named in the call.
        used_for: The promise or signal of the same execution that first used the request id; None if it was
            ``target`` itself, with another value.
    """

    def __init__(self, request_id: str, target: str, used_for: str | None = None) -> None:
        used = (
            f"{target!r} with another value"
            if used_for is None
            else f"{used_for!r}, so it changes nothing at {target!r}"
        )
        super().__init__(f"request id {request_id!r} was already used for {used}; use a new request id")
        self.request_id = request_id
        self.target = target
        self.used_for = used_for


class InvalidState(SignoffError):
    """The operation does not apply to a run in this state."""

    def __init__(self, run_id: str, state: str, operation: str, why: str = "") -> None:
        because = f": {why}" if why else ""
        super().__init__(f"run {run_id!r} is {state}: cannot {operation} it{because}")
        self.run_id = run_id
        self.state = state
        self.operation = operation
        self.why = why


class TaskConflict(SignoffError):
    """Another process holds the task, or it is in another state or version than the operation needs.

    Attributes:
        task_id: The task.
        state: Its state: ``pending``, ``acquired``, ``suspended``, ``halted`` or ``fulfilled``.
        version: Its version, which each acquisition raises.
        operation: The refused operation.
    """

    def __init__(self, task_id: str, state: str, version: int, operation: str) -> None:
        super().__init__(f"task {task_id!r} is {state} in version {version}: cannot {operation} it")
        self.task_id = task_id
        self.state = state
        self.version = version
        self.operation = operation


class SnapshotRefused(SignoffError):
    """A run cannot be saved on its own, or a snapshot cannot be loaded into this store."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"the snapshot of run {run_id!r} is refused: {reason}")
        self.run_id = run_id
        self.reason = reason


class WrongAnswer(SignoffError, ValueError):
    """The question does not accept this answer. It stays open.

    Attributes:
        question_id: The question.
        problems: One ``(field, message)`` per problem; the field is ``""`` for the answer as a whole.
    """

    def __init__(self, question_id: str, problems: list[tuple[str, str]]) -> None:
        listed = "; ".join(f"{field or 'answer'}: {message}" for field, message in problems)
        super().__init__(f"question {question_id!r} does not accept this answer: {listed}")
        self.question_id = question_id
        self.problems = problems


class NotAllowed(SignoffError):
    """This user may not answer the question, or the request names no user."""

    def __init__(self, question_id: str, user: str | None, reason: str) -> None:
        who = "an unnamed user" if user is None else user
        super().__init__(f"question {question_id!r} is not for {who} to answer: {reason}")
        self.question_id = question_id
        self.user = user
        self.reason = reason


class NotAuthenticated(SignoffError):
    """The server cannot authenticate the request: sign in, connect through the trusted proxy, or send an API key."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not authenticated: {reason}")
        self.reason = reason


class LoginFailed(SignoffError):
    """Sign-in failed: start again at ``/login``, or report the reason to the operator of the server."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"sign-in failed: {reason}")
        self.reason = reason


class ProviderUnavailable(SignoffError):
    """The identity provider gives no usable response. Existing sign-ins stay valid; try again."""

    def __init__(self, issuer: str, reason: str) -> None:
        super().__init__(
            f"sign-in is unavailable, {issuer}: {reason}; existing sign-ins stay valid, try again"
        )
        self.issuer = issuer
        self.reason = reason


class QuestionClaimed(SignoffError):
    """Another user has claimed the question in order to answer it."""

    def __init__(self, question_id: str, claimed_by: str) -> None:
        super().__init__(f"question {question_id!r} is claimed by {claimed_by}; ask them to release it")
        self.question_id = question_id
        self.claimed_by = claimed_by


class AlreadyVoted(SignoffError):
    """The same user has already cast a different vote. A vote cannot be changed."""

    def __init__(self, question_id: str, user: str) -> None:
        super().__init__(
            f"{user} has already cast a different vote on question {question_id!r}; a vote cannot be changed"
        )
        self.question_id = question_id
        self.user = user


class QuestionTooNew(SignoffError):
    """The question was asked by a newer version of Signoff, with rules that this version does not know."""

    def __init__(self, question_id: str, unknown: str) -> None:
        super().__init__(
            f"question {question_id!r} has {unknown}, which this version of Signoff does not know; upgrade it"
        )
        self.question_id = question_id
        self.unknown = unknown


class UnreadableRecord(SignoffError):
    """A stored record cannot be read: an earlier version of Signoff or another program wrote it."""

    def __init__(self, noun: str, id: str, reason: str) -> None:
        super().__init__(f"{noun} {id!r} cannot be read: {reason}; an operator can cancel it")
        self.noun = noun
        self.id = id
        self.reason = reason


class UnknownLink(SignoffError):
    """No answer link has this address. The error does not reveal whether one ever existed."""

    def __init__(self) -> None:
        super().__init__(
            "there is no such link; check that the whole address was copied, or ask for another link"
        )


class LinkEnded(SignoffError):
    """The answer link is no longer valid.

    Attributes:
        reason: ``used``, ``expired``, ``revoked``, or ``gone`` if its question was deleted.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this link {_LINK_ENDS.get(reason, f'is {reason}')}; if you still need to answer, ask for another link"
        )
        self.reason = reason


_LINK_ENDS = {
    "used": "was used: the question has its answer",
    "expired": "has expired",
    "revoked": "was revoked",
    "gone": "is for a question that no longer exists",
}


class ResumeRefused(SignoffError):
    """The resume token does not allow these answers. Nothing was changed.

    Attributes:
        reason: ``unknown``, ``used``, ``expired``, ``foreign``, ``several``, ``question`` or ``missing``. A foreign
            token belongs to another session. ``several``: it covers several questions, so each answer needs an id.
            ``question``: it does not cover these questions. ``missing``: some of its open questions have no answer.
        questions: The ids of the questions concerned, if any.
        by: The user who used the token, if known.
    """

    def __init__(self, reason: str, questions: Sequence[str] = (), by: str | None = None) -> None:
        listed = f": {', '.join(questions)}" if questions else ""
        who = f" by {by}" if by else ""
        super().__init__(f"this resume token {_RESUME_REFUSALS.get(reason, reason)}{who}{listed}")
        self.reason = reason
        self.questions = tuple(questions)
        self.by = by


_RESUME_REFUSALS = {
    "unknown": "does not exist in this namespace; check that the whole token was copied",
    "used": "was used: its questions are answered",
    "expired": "has expired; read the conversation again to get another",
    "foreign": "is for another session; resume that one",
    "several": "covers several questions; answer them as {question_id: answer}",
    "question": "covers only the questions that were open when it was created, and not those answered here",
    "missing": "needs answers to all of its open questions at once, and some have none here",
}


class Detached(SignoffError):
    """The conversation was detached while a caller waited for a turn. The turn continues in the background."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"turn {run_id!r} was detached and continues in the background; wait for it with conversation.wait(...)"
        )
        self.run_id = run_id


class TooManyRequests(SignoffError):
    """The caller sends too many requests, or too many wrong keys; wait, and check the key."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__(f"too many requests in a short time; try again in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


class BlockingCall(SignoffError, RuntimeError):
    """A blocking method was called on a thread with a running event loop."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method} blocks, and an event loop runs on this thread; use signoff.AsyncClient")
        self.method = method


class UnsupportedEnvironment(SignoffError, RuntimeError):
    """This process, or the event loop that runs here, cannot run a client or a worker."""


class ClientClosed(SignoffError, RuntimeError):
    """The client is closed, or was closed before the call returned."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method}: the client was closed; create another one for further calls")
        self.method = method


class BegunBeforeFork(SignoffError, RuntimeError):
    """A forked child process continued an iteration that its parent had started."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"{method}: this iteration was started before the process was forked; start another one in the child"
        )
        self.method = method


class OutsideWorkflow(SignoffError, RuntimeError):
    """A context was used outside its run's workflow code, such as inside a step."""

    def __init__(self, what: str, run_id: str | None = None, why: str | None = None) -> None:
        if run_id is None:
            said = f"{what} was called out of place: {why}"
        else:
            said = f"{what} was called on the context of run {run_id!r} from outside its workflow code"
        super().__init__(said)
        self.what = what
        self.run_id = run_id
        self.why = why


class BeyondStep(SignoffError, RuntimeError):
    """The code of a step interfered with its worker: it tried to cancel the worker's tasks or to stop its event loop.

    The step fails with this error even if its code catches it. It is not retried.
    """

    def __init__(self, step: str, what: str) -> None:
        super().__init__(
            f"step {step!r} {what}, which belongs to its worker and serves other runs. Use only tasks that the step "
            "created itself, or a separate event loop: asyncio.run(...) in a step that is a plain function"
        )
        self.step = step
        self.what = what


class RegistrationError(SignoffError, ValueError):
    """A workflow cannot be registered, or the options of a call contradict each other."""


class CircularWait(RegistrationError):
    """The run would wait for a run that waits for it, directly or through other runs: a deadlock.

    Attributes:
        circle: The ids of the runs. Each waits for the next; the last id repeats the first.
        slot: Why a run waits for the slot of the next one, if it does.
    """

    def __init__(self, circle: Sequence[str], slot: str | None = None) -> None:
        first, *others, _ = circle
        waits = ", which waits for ".join(f"run '{id}'" for id in [*others, first])
        what = f"would wait for {waits}: none of them could go on" if others else "would wait for itself"
        advice = "wait for another run, or choose another id for the child run"
        if slot is not None:
            what += f" ({slot})"
            advice = "await a child run in workflow code (ctx.rfc), which holds no slot, or allow more runs at once"
        super().__init__(f"run '{first}' {what}; {advice}")
        self.circle = list(circle)
        self.slot = slot


# Runs, steps and promises


class RunFailed(SignoffError):
    """The run failed with an error whose class is not known in this process."""

    def __init__(self, run_id: str, type_name: str, message: str) -> None:
        super().__init__(f"run {run_id!r} failed with {type_name}: {message}")
        self.run_id = run_id
        self.type_name = type_name
        self.message = message


class RunCancelled(SignoffError):
    """The run was cancelled, so it has no result."""

    def __init__(self, run_id: str, reason: str | None = None) -> None:
        super().__init__(f"run {run_id!r} was cancelled" + (f": {reason}" if reason else ""))
        self.run_id = run_id
        self.reason = reason


class RunTerminated(RunCancelled):
    """An operator terminated the run. Its code, including its cleanup, did not run again."""

    def __init__(self, run_id: str, reason: str | None = None) -> None:
        SignoffError.__init__(self, f"run {run_id!r} was terminated" + (f": {reason}" if reason else ""))
        self.run_id = run_id
        self.reason = reason


class RunTimeout(SignoffError, TimeoutError):
    """The run passed its deadline."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} passed its deadline")
        self.run_id = run_id


class StepFailed(SignoffError):
    """A step failed with an error that cannot be rebuilt here: its class is not imported or not rebuildable."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message


class StepTimeout(SignoffError, TimeoutError):
    """A step took longer than its ``timeout``. Whether it took effect is unknown."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"step {name!r} took longer than {seconds:g} s")
        self.name = name
        self.seconds = seconds


class SignalTimeout(SignoffError, TimeoutError):
    """No answer or signal arrived in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"nothing arrived for {what} within {seconds:g} s")
        self.what = what
        self.seconds = seconds


class PromiseRejected(SignoffError):
    """A promise was rejected from outside the run; ``value`` is the reason given."""

    def __init__(self, promise_id: str, value: object) -> None:
        super().__init__(f"promise {promise_id!r} was rejected: {value!r}")
        self.promise_id = promise_id
        self.value = value


class PromiseCancelled(SignoffError):
    """A promise was cancelled from outside the run, so it will never be settled."""

    def __init__(self, promise_id: str) -> None:
        super().__init__(f"promise {promise_id!r} was cancelled")
        self.promise_id = promise_id


class QuestionCancelled(PromiseCancelled):
    """A question was withdrawn from outside the run, so it will not be answered.

    Attributes:
        promise_id: The question.
        by: The user who withdrew it, if known.
        reason: The reason, if one was given.
    """

    def __init__(self, promise_id: str, by: str | None = None, reason: str | None = None) -> None:
        super().__init__(promise_id)
        who = f" by {by}" if by else ""
        why = f": {reason}" if reason else ""
        self.args = (f"question {promise_id!r} was cancelled{who}{why}",)
        self.by = by
        self.reason = reason


class PromiseTimeout(SignoffError, TimeoutError):
    """A promise was not settled before its deadline."""

    def __init__(self, promise_id: str) -> None:
        super().__init__(f"promise {promise_id!r} timed out")
        self.promise_id = promise_id


# Errors in workflow code that the engine detects. The run fails and can be retried once the code is fixed.


class WorkflowError(SignoffError):
    """Base of the errors that the engine detects in workflow code. The run is kept and can be retried."""


class NotInStep(WorkflowError, RuntimeError):
    """Workflow code performed I/O, or used a thread or a clock, outside a step."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(
            f"{what} in workflow code at {where}: it would run again at every replay; wrap it in ctx.step(...)"
        )
        self.what = what
        self.where = where


_CAUSES_OF_OTHER_INPUTS = (
    "Either the order of the calls changed (it depends on a set, os.listdir or time.time()), or a deploy changed the "
    "arguments of this call. "
)


class NonDeterminism(WorkflowError):
    """The code issued a different call than the journal holds at this position.

    Attributes:
        run_id: The run. It is kept unchanged.
        n: The number of the call.
        recorded: The recorded call, such as ``step 'charge'``.
        issued: The call that the code issued.
        where: ``file:line`` of the code, if it issued a call.
        recorded_inputs: The recorded call's inputs, if the inputs differ.
        issued_inputs: The issued call's inputs, if the inputs differ.
    """

    def __init__(
        self,
        run_id: str,
        n: int,
        recorded: str,
        issued: str,
        where: str | None,
        inputs: tuple[dict[str, Any], dict[str, Any]] | None = None,
    ) -> None:
        at = f" at {where}" if where else ""
        cause = "" if inputs is None else _CAUSES_OF_OTHER_INPUTS
        super().__init__(
            f"run {run_id!r}, call {n}: the journal holds {recorded}, the code{at} has {issued}. "
            f"{cause}Restore the old order, or guard the change with ctx.patched(...), then retry the run"
        )
        self.recorded_inputs, self.issued_inputs = inputs or (None, None)
        self.run_id = run_id
        self.n = n
        self.recorded = recorded
        self.issued = issued
        self.where = where


class BusyLoop(WorkflowError):
    """Workflow code ran too long without waiting for anything."""

    def __init__(self, run_id: str, limit: str, where: str) -> None:
        super().__init__(
            f"run {run_id!r} ran for {limit} without waiting for anything, at {where}; "
            f"move the work into ctx.step(...), or wait for an event instead of looping"
        )
        self.run_id = run_id
        self.limit = limit
        self.where = where


class CallbackFailed(WorkflowError):
    """A callback in workflow code, such as a task's done callback, raised an exception that would end the process."""

    def __init__(self, run_id: str, what: str) -> None:
        super().__init__(f"run {run_id!r} failed in a callback of its code: {what}")
        self.run_id = run_id
        self.what = what


class NotAwaited(WorkflowError):
    """Workflow code created a call and never awaited it, so the call did not run: a question was never asked, say.

    Attributes:
        run_id: The run.
        what: The call, such as ``question 'Refund?'``.
        where: The line that created it, as ``file:line in function``.
        how: What happened to the call.
    """

    def __init__(self, run_id: str, what: str, where: str, how: str = "was never awaited") -> None:
        super().__init__(
            f"{run_id}: {what}, at {where}, {how}. Await it (in a generator function, yield it) or leave it out, "
            "then retry the run"
        )
        self.run_id = run_id
        self.what = what
        self.where = where
        self.how = how


class WaitsForNothing(WorkflowError):
    """Workflow code waits for something that can never happen, such as an Event that no code can set."""

    def __init__(self, run_id: str, where: str) -> None:
        super().__init__(
            f"run {run_id!r} waits at {where} for something that no step, timer, promise or signal will trigger"
        )
        self.run_id = run_id
        self.where = where


class CannotRunHere(WorkflowError):
    """Workflow code or a step raises this if this worker lacks something it needs. The run is kept and can be retried.

    A step that raises it has no outcome: it runs again when the run is retried.

    Example::

        if "refund_flow" not in supported:
            raise CannotRunHere("this build has no refunds; deploy one that has, then retry the run")

    Attributes:
        may_run_elsewhere: Whether another worker of the group, if there is one, should try first. Subclasses set it.
    """

    may_run_elsewhere: ClassVar[bool] = False


class PauseSwallowed(CannotRunHere):
    """A tool's code caught the exception that a pause raises to leave the tool, and continued.

    The run stops, whatever else its code catches. No question was asked, and none counts as answered. The run can be
    retried once the tool lets the exception through.

    Attributes:
        tool: The tool.
        where: The line of the pause, as ``file:line in function``.
        caught: The line of the call that the exception was caught around, if it differs from ``where``.
        how: How the tool continued.
    """

    def __init__(self, tool: str, where: str, caught: str | None, how: str) -> None:
        around = f", in {caught}" if caught else ""
        super().__init__(
            f"tool {tool!r} paused at {where}, and caught the exception that a pause raises{around}: {how}. "
            "No question was asked, and none counts as answered. Catch Exception around it, not BaseException (nor "
            "with a bare except, suppress(BaseException), gather(return_exceptions=True) or a return in finally), "
            "then retry the run"
        )
        self.tool = tool
        self.where = where
        self.caught = caught
        self.how = how


class NotAsApproved(CannotRunHere):
    """A tool's validators produced other arguments than those that were approved. The tool did not run.

    Attributes:
        tool: The tool.
        approved: The approved arguments, as JSON.
        found: The arguments that the tool would have received, as JSON.
    """

    def __init__(self, tool: str, approved: object, found: object) -> None:
        super().__init__(
            f"tool {tool!r} would receive {reprlib.repr(found)}, but {reprlib.repr(approved)} was approved: its "
            "validators do not return the same result for the same arguments each time. The tool did not run. Fix "
            "the validators, then retry the run"
        )
        self.tool = tool
        self.approved = approved
        self.found = found


class ToolCodeMissing(CannotRunHere):
    """An agent's tool has begun to run, and this code lacks it. Workers with other code try first.

    Nothing is lost: deploy the tool again, then retry the run.

    Attributes:
        agent: The agent's name.
        tool: The tool.
        call_id: The id of the model's call.
    """

    may_run_elsewhere = True

    def __init__(self, agent: str, tool: str, call_id: str, became: str) -> None:
        super().__init__(
            f"{agent} has begun to run the tool {tool!r} (call {call_id!r}), which {became} in this code. Only its own "
            "code can continue it: deploy that again, with the name and the parameters that the tool had, then retry "
            "the run. Nothing is lost meanwhile"
        )
        self.agent = agent
        self.tool = tool
        self.call_id = call_id


class UnknownWorkflow(WorkflowError):
    """A run's workflow is not registered in this process."""

    def __init__(self, name: str) -> None:
        super().__init__(f"workflow {name!r} is not registered here; import the module that defines it")
        self.name = name


class ReplayFailed(WorkflowError):
    """A ``durable=False`` step had to run again to rebuild the run, and failed."""

    def __init__(self, run_id: str, n: int, name: str, reason: str) -> None:
        super().__init__(
            f"run {run_id!r} cannot be rebuilt: step {name!r} (call {n}) is durable=False and failed now: {reason}"
        )
        self.run_id = run_id
        self.n = n
        self.name = name


# Stores


class StoreError(SignoffError):
    """Base of the errors that a store raises."""


class StoreUnavailable(StoreError):
    """The store cannot be read or written now. Acknowledged writes are kept; try again later."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"store {store} is not available: {reason}; nothing acknowledged is lost, try again")
        self.store = store
        self.reason = reason


class StoreFull(StoreUnavailable):
    """The store's disk is full. Work continues once there is space again."""

    def __init__(self, store: str) -> None:
        super().__init__(store, "the disk is full, free some space")


class StoreReadOnly(StoreUnavailable):
    """The store's file or folder is read-only."""

    def __init__(self, store: str) -> None:
        super().__init__(store, "it is read-only, check the file's and its folder's permissions")


class StoreMoved(StoreUnavailable):
    """The store's open files are no longer those at its path. Further commits could be lost."""

    def __init__(self, store: str, reason: str) -> None:
        SignoffError.__init__(self, f"store {store} is not available: {reason}")
        self.store = store
        self.reason = reason


class StoreDamaged(StoreUnavailable):
    """The database reports that its files are damaged. Acknowledged writes could be lost."""

    def __init__(self, store: str, reason: str) -> None:
        SignoffError.__init__(
            self,
            f"store {store} is not available: {reason}. Its files are damaged, or are not a database. Stop every "
            "process that has it open, and restore a backup",
        )
        self.store = store
        self.reason = reason


class MissingKey(StoreUnavailable):
    """The store holds a value for which this process lacks the decryption key."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            store, f"a value cannot be decrypted, {reason}; give this process all keys of the store"
        )
        self.undecrypted = reason


class SchemaTooNew(StoreError):
    """The store was migrated by a newer version of Signoff."""

    def __init__(self, store: str, found: int, known: int) -> None:
        super().__init__(
            f"store {store} has schema {found}, this Signoff knows up to {known}; upgrade signoff"
        )
        self.found = found
        self.known = known


class SchemaTooOld(StoreError):
    """The store needs a migration that this process does not, or may not, run."""

    def __init__(self, store: str, found: int, known: int, *, may_migrate: bool = False) -> None:
        has = f"schema {found}" if found else "no schema yet"
        what = (
            "run `signoff migrate`"
            if may_migrate
            else "this role may not change it: run `signoff migrate` as a role that may"
        )
        super().__init__(f"store {store} has {has}, this Signoff needs schema {known}; {what}")
        self.found = found
        self.known = known


class LeaseLost(StoreError):
    """This worker no longer holds the run's lease, so it may write nothing more."""

    def __init__(self, run_id: str, epoch: int) -> None:
        super().__init__(
            f"the lease on run {run_id!r} (epoch {epoch}) is lost; its new holder continues the run"
        )
        self.run_id = run_id
        self.epoch = epoch


class AccessDenied(StoreError):
    """The caller lacks the worker key or the role that this request needs.

    Attributes:
        what: The requested operation or object.
        reason: Why it is refused, and what to do.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what} is refused: {reason}")
        self.what = what
        self.reason = reason


# Control flow, not errors


class ContinueAsNew(BaseException):
    """Ends this generation of a run and starts the next one with new arguments. Only the context raises it."""

    def __init__(self, arguments: str) -> None:
        super().__init__("the run continues as new")
        self.arguments = arguments
