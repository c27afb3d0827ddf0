"""Every exception Signoff raises. One tree: ``except SignoffError`` catches what is ours.

Each message says what happened, to what, and what to do. Control flow that a user's
``except Exception`` must not swallow derives from ``BaseException`` and is at the end.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, ClassVar


class SignoffError(Exception):
    """Base of every error that Signoff raises."""


# Values


class NotSerializable(SignoffError, TypeError):
    """A value that cannot be stored as JSON and brought back unchanged."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class PayloadTooLarge(SignoffError, ValueError):
    """A value whose JSON is over the limit (1 MiB unless configured)."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        super().__init__(
            f"{path}: {size:,} bytes as JSON, over the limit of {limit:,}; store it elsewhere and pass a reference"
        )
        self.path = path
        self.size = size
        self.limit = limit


class InvalidValue(SignoffError, ValueError):
    """A value that does not fit the type or the schema declared for it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


# What a caller asked for


class NotFound(SignoffError, LookupError):
    """There is no run, promise, question or workflow of that id in this namespace."""

    def __init__(self, noun: str, id: str) -> None:
        super().__init__(f"no {noun} {id!r} here; check the id, the namespace and which store this is")
        self.noun = noun
        self.id = id


class IdConflict(SignoffError):
    """The id is taken by something else: another workflow, other arguments or another kind."""

    def __init__(self, id: str, differs: str) -> None:
        super().__init__(
            f"id {id!r} is taken: {differs}; choose another id, or repeat the first call exactly"
        )
        self.id = id
        self.differs = differs


class AlreadySettled(SignoffError):
    """Somebody else settled this promise, or it timed out or was cancelled.

    Attributes:
        promise_id: The promise.
        state: What it is now: ``resolved``, ``rejected``, ``cancelled`` or ``timed_out``.
        settled_by: Who settled it, if anyone said.
        settled_at: When, in unix seconds.
    """

    def __init__(self, promise_id: str, state: str, settled_by: str | None, settled_at: float | None) -> None:
        by = f" by {settled_by}" if settled_by else ""
        super().__init__(f"promise {promise_id!r} is already {state}{by}; nothing was changed")
        self.promise_id = promise_id
        self.state = state
        self.settled_by = settled_by
        self.settled_at = settled_at


class RequestConflict(SignoffError):
    """A request id was used again, with another value or for another target.

    Attributes:
        request_id: The request id.
        target: The promise, question or run that the call named.
        used_for: The promise or signal of the same execution that the request id was used for before; None if that
            was ``target`` itself, with another value.
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


class SnapshotRefused(SignoffError):
    """A run that cannot be saved by itself, or a snapshot that cannot be loaded into this store."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"the snapshot of run {run_id!r} is refused: {reason}")
        self.run_id = run_id
        self.reason = reason


class WrongAnswer(SignoffError, ValueError):
    """An answer that its question does not allow. The question stays open.

    Attributes:
        question_id: The question.
        problems: ``(field, message)`` for each thing that is wrong; the field is ``""`` for the whole.
    """

    def __init__(self, question_id: str, problems: list[tuple[str, str]]) -> None:
        listed = "; ".join(f"{field or 'answer'}: {message}" for field, message in problems)
        super().__init__(f"question {question_id!r} does not accept this answer: {listed}")
        self.question_id = question_id
        self.problems = problems


class NotAllowed(SignoffError):
    """This person may not answer the question, or is not known."""

    def __init__(self, question_id: str, user: str | None, reason: str) -> None:
        who = "somebody unnamed" if user is None else user
        super().__init__(f"question {question_id!r} is not for {who} to answer: {reason}")
        self.question_id = question_id
        self.user = user
        self.reason = reason


class NotAuthenticated(SignoffError):
    """The server does not know who this is: sign in, come through the proxy that does so, or give an API key."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"nobody is signed in: {reason}")
        self.reason = reason


class LoginFailed(SignoffError):
    """Signing in did not succeed: begin anew at ``/login``, or have who runs the server look at the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"nobody was signed in: {reason}")
        self.reason = reason


class ProviderUnavailable(SignoffError):
    """The identity provider that signs people in gives no usable answer now. Who is signed in stays so; try again."""

    def __init__(self, issuer: str, reason: str) -> None:
        super().__init__(f"nobody can sign in now, {issuer}: {reason}; who is signed in stays so, try again")
        self.issuer = issuer
        self.reason = reason


class QuestionClaimed(SignoffError):
    """Somebody else has claimed the question, and answers it."""

    def __init__(self, question_id: str, claimed_by: str) -> None:
        super().__init__(f"question {question_id!r} is claimed by {claimed_by}; ask them to release it")
        self.question_id = question_id
        self.claimed_by = claimed_by


class AlreadyVoted(SignoffError):
    """The same person has voted otherwise before; a vote is not changed."""

    def __init__(self, question_id: str, user: str) -> None:
        super().__init__(f"{user} has voted otherwise on question {question_id!r} before; a vote counts once")
        self.question_id = question_id
        self.user = user


class QuestionTooNew(SignoffError):
    """A newer Signoff has asked the question, under rules that this one does not know."""

    def __init__(self, question_id: str, unknown: str) -> None:
        super().__init__(
            f"question {question_id!r} has {unknown}, which this version of Signoff does not know; upgrade it"
        )
        self.question_id = question_id
        self.unknown = unknown


class UnreadableRecord(SignoffError):
    """A record is kept that cannot be read: an earlier version, or a program past Signoff, has written it."""

    def __init__(self, noun: str, id: str, reason: str) -> None:
        super().__init__(f"{noun} {id!r} cannot be read: {reason}; an operator can cancel it")
        self.noun = noun
        self.id = id
        self.reason = reason


class UnknownLink(SignoffError):
    """There is no answer link of this address. Nothing is said of whether there ever was one, or of what."""

    def __init__(self) -> None:
        super().__init__(
            "there is no such link; look whether all of its address was copied, or ask for another"
        )


class LinkEnded(SignoffError):
    """An answer link that opens nothing any more.

    Attributes:
        reason: ``used``, ``expired``, ``revoked``, or ``gone`` if its question was deleted.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this link is {_LINK_ENDS.get(reason, reason)}; if you are still asked, ask for another"
        )
        self.reason = reason


_LINK_ENDS = {
    "used": "used: the answer that it was for has been given",
    "expired": "too old",
    "revoked": "withdrawn",
    "gone": "for a question that is not there any more",
}


class ResumeRefused(SignoffError):
    """A resume token does not let this be answered. Nothing was changed.

    Attributes:
        reason: ``unknown``, ``used``, ``expired``, ``foreign`` (of another session), ``several`` (it is good for
            several questions, so say which one is answered), ``question`` (it is not good for these) or ``missing``
            (it answers all of its questions that are open, these too).
        questions: The ids of the questions that this is about, where that helps.
        by: Who has used it, if they said.
    """

    def __init__(self, reason: str, questions: Sequence[str] = (), by: str | None = None) -> None:
        listed = f": {', '.join(questions)}" if questions else ""
        who = f" by {by}" if by else ""
        super().__init__(f"this resume token {_RESUME_REFUSALS.get(reason, reason)}{who}{listed}")
        self.reason = reason
        self.questions = tuple(questions)
        self.by = by


_RESUME_REFUSALS = {
    "unknown": "is none of this namespace's; look whether all of it was copied",
    "used": "was used: what it was for is answered",
    "expired": "is too old; look at the conversation again for another",
    "foreign": "is for another session; resume that one",
    "several": "is for several questions; answer them as {question_id: answer}",
    "question": "is for what was open when it was made, and not for what was answered here",
    "missing": "answers all at once that is open of its questions, and something has no answer here",
}


class Detached(SignoffError):
    """A conversation was detached while something waited for a turn. The turn goes on by itself."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"nobody waits for turn {run_id!r} here any more; it goes on: conversation.wait(...)"
        )
        self.run_id = run_id


class TooManyRequests(SignoffError):
    """Somebody asks too often, or gives wrong keys too often; wait, and look at which key is given."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__(f"too many requests in a short time; try again in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


class BlockingCall(SignoffError, RuntimeError):
    """A blocking method was called on a thread whose event loop is running."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method} blocks, and an event loop runs on this thread; use signoff.AsyncClient")
        self.method = method


class ClientClosed(SignoffError, RuntimeError):
    """A method was called on a client that is closed, or the client was closed before the call had ended."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method}: the client was closed; make another one for further calls")
        self.method = method


class BegunBeforeFork(SignoffError, RuntimeError):
    """A forked child went on with an iteration that its parent had begun."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"{method}: this iteration was begun before the process was forked; begin another one in the child"
        )
        self.method = method


class OutsideWorkflow(SignoffError, RuntimeError):
    """A context was used elsewhere than in its run's workflow code, such as inside a step."""

    def __init__(self, what: str, run_id: str | None = None, why: str | None = None) -> None:
        if run_id is None:
            said = f"{what} was called out of place: {why}"
        else:
            said = f"{what} was asked of the context of run {run_id!r} from outside its workflow code"
        super().__init__(said)
        self.what = what
        self.run_id = run_id
        self.why = why


class BeyondStep(SignoffError, RuntimeError):
    """Code of a step would have ended or changed its worker: it cancelled the worker's tasks, or stopped its loop.

    The step fails with it, also if its code catches it. It is not retried.
    """

    def __init__(self, step: str, what: str) -> None:
        super().__init__(
            f"step {step!r} {what}, which belongs to its worker and serves other runs. Use only what the step has made "
            "itself, or a loop of its own: asyncio.run(...) in a step that is a plain function"
        )
        self.step = step
        self.what = what


class RegistrationError(SignoffError, ValueError):
    """A workflow that cannot be registered, or a call with options that contradict each other."""


class CircularWait(RegistrationError):
    """The run would wait for a run that waits for it, directly or through others: none of them could go on.

    Attributes:
        circle: The ids of the runs. Each waits for the next; the last is the first one again.
    """

    def __init__(self, circle: Sequence[str]) -> None:
        first, *others, _ = circle
        waits = ", which waits for ".join(f"run '{id}'" for id in [*others, first])
        what = f"would wait for {waits}: none of them could go on" if others else "would wait for itself"
        super().__init__(
            f"run '{first}' {what}; wait for another run, or choose another id for the child run"
        )
        self.circle = list(circle)


# What a run can meet


class RunFailed(SignoffError):
    """The run failed with an error whose class this process does not know."""

    def __init__(self, run_id: str, type_name: str, message: str) -> None:
        super().__init__(f"run {run_id!r} failed with {type_name}: {message}")
        self.run_id = run_id
        self.type_name = type_name
        self.message = message


class RunCancelled(SignoffError):
    """The run whose result was asked for was cancelled."""

    def __init__(self, run_id: str, reason: str | None = None) -> None:
        super().__init__(f"run {run_id!r} was cancelled" + (f": {reason}" if reason else ""))
        self.run_id = run_id
        self.reason = reason


class RunTerminated(RunCancelled):
    """An operator ended the run without running its code again. Its clean-up did not run."""

    def __init__(self, run_id: str, reason: str | None = None) -> None:
        SignoffError.__init__(self, f"run {run_id!r} was terminated" + (f": {reason}" if reason else ""))
        self.run_id = run_id
        self.reason = reason


class RunTimeout(SignoffError, TimeoutError):
    """The run passed its own deadline."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} passed its deadline")
        self.run_id = run_id


class StepFailed(SignoffError):
    """A step failed with an error whose class cannot be rebuilt here (not imported, or not rebuildable)."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message


class StepTimeout(SignoffError, TimeoutError):
    """A step took longer than its ``timeout``. It may or may not have had its effect."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"step {name!r} took longer than {seconds:g} s")
        self.name = name
        self.seconds = seconds


class SignalTimeout(SignoffError, TimeoutError):
    """Nobody answered, or no signal came, in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"nothing came for {what} within {seconds:g} s")
        self.what = what
        self.seconds = seconds


class PromiseRejected(SignoffError):
    """A promise was rejected from outside; ``value`` is what the rejecter gave as the reason."""

    def __init__(self, promise_id: str, value: object) -> None:
        super().__init__(f"promise {promise_id!r} was rejected: {value!r}")
        self.promise_id = promise_id
        self.value = value


class PromiseCancelled(SignoffError):
    """A promise was cancelled from outside, so nothing will ever settle it."""

    def __init__(self, promise_id: str) -> None:
        super().__init__(f"promise {promise_id!r} was cancelled")
        self.promise_id = promise_id


class QuestionCancelled(PromiseCancelled):
    """Somebody has withdrawn a question from outside, so nobody will answer it.

    Attributes:
        promise_id: The question.
        by: Who has, if they said.
        reason: Why, if they said.
    """

    def __init__(self, promise_id: str, by: str | None = None, reason: str | None = None) -> None:
        super().__init__(promise_id)
        who = f" by {by}" if by else ""
        why = f": {reason}" if reason else ""
        self.args = (f"question {promise_id!r} was cancelled{who}{why}",)
        self.by = by
        self.reason = reason


class PromiseTimeout(SignoffError, TimeoutError):
    """A promise reached its deadline unsettled."""

    def __init__(self, promise_id: str) -> None:
        super().__init__(f"promise {promise_id!r} timed out")
        self.promise_id = promise_id


# What the engine finds wrong with workflow code. The run fails and can be retried once the code is mended.


class WorkflowError(SignoffError):
    """Base of what the engine finds wrong with workflow code; such a run is kept and can be retried."""


class NotInStep(WorkflowError, RuntimeError):
    """Workflow code did I/O, or used a thread or a clock, outside a step."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(
            f"{what} in workflow code at {where}: it would run again at every replay; wrap it in ctx.step(...)"
        )
        self.what = what
        self.where = where


_CAUSES_OF_OTHER_INPUTS = (
    "Either the calls come in another order (a set of your own, os.listdir, time.time()), or a deploy has changed what "
    "this call is called with. "
)


class NonDeterminism(WorkflowError):
    """The code asked for something else than the journal holds at this place.

    Attributes:
        run_id: The run, which is kept as it is.
        n: The number of the call.
        recorded: What the journal holds, such as ``step 'charge'``.
        issued: What the code asked for now.
        where: ``file:line`` of the code, if it issued a call.
        recorded_inputs: What the recorded call was called with, if that is what differs.
        issued_inputs: What the code calls it with now, if that is what differs.
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
            f"run {run_id!r} went on for {limit} without waiting for anything, at {where}; "
            f"move the work into ctx.step(...), or wait for an event instead of looping"
        )
        self.run_id = run_id
        self.limit = limit
        self.where = where


class CallbackFailed(WorkflowError):
    """A callback of workflow code, such as a done callback of a task, raised what would end a whole process."""

    def __init__(self, run_id: str, what: str) -> None:
        super().__init__(f"run {run_id!r} failed in a callback of its code: {what}")
        self.run_id = run_id
        self.what = what


class NotAwaited(WorkflowError):
    """Workflow code built a call and never awaited it, so that it did nothing: a question that was not asked.

    Attributes:
        run_id: The run.
        what: The call, such as ``question 'Refund?'``.
        where: The line that built it, as ``file:line in function``.
        how: What became of it.
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
    """Workflow code waits for something that nothing will ever bring, such as an Event that nobody can set."""

    def __init__(self, run_id: str, where: str) -> None:
        super().__init__(
            f"run {run_id!r} waits at {where} for something that no step, timer, promise or signal will bring"
        )
        self.run_id = run_id
        self.where = where


class CannotRunHere(WorkflowError):
    """Raised by workflow code or a step that lacks something on this worker: the run is kept and can be retried.

    A step that raises it has no outcome: it runs again when the run is retried.

    Example::

        if "refund_flow" not in supported:
            raise CannotRunHere("this build has no refunds; retry the run when one that has is deployed")

    Attributes:
        may_run_elsewhere: Whether another worker of the group, if there is one, should try first. A subclass says so.
    """

    may_run_elsewhere: ClassVar[bool] = False


class PauseSwallowed(CannotRunHere):
    """A tool's code caught the exception with which a pause leaves the tool, and went on.

    The run stops, whatever else its code catches. Nothing was asked, and nothing counts as answered. The run can be
    retried once the tool lets the exception through.

    Attributes:
        tool: The tool.
        where: The line of the pause, as ``file:line in function``.
        caught: The line that it was caught around, if another.
        how: How the tool went on.
    """

    def __init__(self, tool: str, where: str, caught: str | None, how: str) -> None:
        around = f", in {caught}" if caught else ""
        super().__init__(
            f"tool {tool!r} paused at {where}, and caught the exception with which a pause leaves{around}: {how}. "
            "Nothing was asked, and nothing counts as answered. Catch Exception around it, not BaseException (nor "
            "with a bare except, suppress(BaseException), gather(return_exceptions=True) or a return in finally), "
            "then retry the run"
        )
        self.tool = tool
        self.where = where
        self.caught = caught
        self.how = how


class NotAsApproved(CannotRunHere):
    """A tool's validators made something else of a call's arguments than what was decided on. The tool did not run.

    Attributes:
        tool: The tool.
        approved: What was decided on, as JSON.
        found: What the tool would have got, as JSON.
    """

    def __init__(self, tool: str, approved: object, found: object) -> None:
        super().__init__(
            f"tool {tool!r} would get {reprlib.repr(found)} where {reprlib.repr(approved)} was decided on: its "
            "validators do not make the same of the same arguments each time. It did not run. Mend them, then retry "
            "the run"
        )
        self.tool = tool
        self.approved = approved
        self.found = found


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
    """Base of what a store can refuse or suffer."""


class StoreUnavailable(StoreError):
    """The store cannot be read or written now. What was acknowledged is kept; try again later."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"store {store} is not available: {reason}; nothing acknowledged is lost, try again")
        self.store = store
        self.reason = reason


class StoreFull(StoreUnavailable):
    """The disk under the store is full. Work goes on when there is space again."""

    def __init__(self, store: str) -> None:
        super().__init__(store, "the disk is full, make space")


class StoreReadOnly(StoreUnavailable):
    """The store's file or folder may not be written."""

    def __init__(self, store: str) -> None:
        super().__init__(store, "it is read-only, check the file's and its folder's permissions")


class StoreMoved(StoreUnavailable):
    """The files that a store has open are not those at its path any more. What is committed there could be lost."""

    def __init__(self, store: str, reason: str) -> None:
        SignoffError.__init__(self, f"store {store} is not available: {reason}")
        self.store = store
        self.reason = reason


class StoreDamaged(StoreUnavailable):
    """The database finds its own files damaged. What was acknowledged could be lost."""

    def __init__(self, store: str, reason: str) -> None:
        SignoffError.__init__(
            self,
            f"store {store} is not available: {reason}. Its files are damaged, or not those of a database. Stop each "
            "process that has it open, and restore a backup",
        )
        self.store = store
        self.reason = reason


class MissingKey(StoreUnavailable):
    """The store holds a value that this process cannot decrypt."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            store, f"a value cannot be decrypted, {reason}; give this process all keys of the store"
        )


class SchemaTooNew(StoreError):
    """The store was migrated by a newer Signoff than this one."""

    def __init__(self, store: str, found: int, known: int) -> None:
        super().__init__(
            f"store {store} has schema {found}, this Signoff knows up to {known}; upgrade signoff"
        )
        self.found = found
        self.known = known


class SchemaTooOld(StoreError):
    """The store has not been migrated yet, and who opens it does not, or may not."""

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
    """The run belongs to another worker now, or to none: this one may write nothing more."""

    def __init__(self, run_id: str, epoch: int) -> None:
        super().__init__(f"the lease on run {run_id!r} (epoch {epoch}) is lost; its new holder goes on")
        self.run_id = run_id
        self.epoch = epoch


class AccessDenied(StoreError):
    """The server does not let this caller do that: it needs a worker key or a role, or another one.

    Attributes:
        what: What was asked for.
        reason: Why it is refused, and what to do.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what} is refused: {reason}")
        self.what = what
        self.reason = reason


# Control flow, not errors


class ContinueAsNew(BaseException):
    """Ends this generation of a run and starts the next with new arguments. Raised by the context only."""

    def __init__(self, arguments: str) -> None:
        super().__init__("the run continues as new")
        self.arguments = arguments
