"""Routes of runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field, FiniteFloat
from starlette.responses import Response

from signoff import codec
from signoff.errors import IdConflict, InvalidState, NotFound, NotSerializable, RequestConflict
from signoff.observability.trace_context import current_traceparent, read_header
from signoff.records import Entry, NewRun, Run, RunState
from signoff.records.paging import RunFilter
from signoff.records.start_options import HIGHEST_PRIORITY, LOWEST_PRIORITY, check_id, check_session
from signoff.server.auth.actors import Actor, ActorOf
from signoff.server.http.idempotency_key import KeyOf, request_id_of, run_id_of
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute, RequestId, Text
from signoff.server.http.responses import After, Limit, Seq, reply, reply_items, reply_page, reply_with
from signoff.server.limits.requests import LONGEST_WAIT_SECONDS
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.openapi.examples import example
from signoff.server.services import CallerOf, Services, ServicesOf
from signoff.stores.contract.validation import HIGHEST_LIMIT
from signoff.workflow.concurrency import LONGEST_KEY, named_slot, slot_of

router = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=ExactRoute)


class StartRun(
    Body,
    json_schema_extra=example(workflow="refund", id="refund-o-1", args=["o-1", 7000], started_by="user:req"),
):
    """A run to start. Repeated requests with the same id start it once."""

    workflow: Text = Field(min_length=1)
    args: list[Any] = Field(default_factory=list[Any])
    kwargs: dict[str, Any] = Field(default_factory=dict[str, Any])
    id: Text | None = None
    group: Text | None = None
    timeout_seconds: float | None = None
    priority: int = Field(default=0, ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)
    start_at: FiniteFloat | None = None
    delay_seconds: float | None = None
    concurrency_key: Text | None = Field(default=None, max_length=LONGEST_KEY)
    concurrency_limit: int | None = Field(default=None, ge=1, le=HIGHEST_LIMIT)
    started_by: Text | None = None
    session_id: Text | None = Field(
        default=None,
        description="The run waits until the earlier runs of this session have ended",
    )

    def new_run(self, services: Services, actor: Actor, key: str | None, traceparent: str | None) -> NewRun:
        """Return the record for the store."""
        arguments = codec.encode_arguments(None, self.args, self.kwargs)
        self.args, self.kwargs = [], {}  # the reply parses the arguments again
        named = named_slot(self.concurrency_key, self.concurrency_limit)
        slot, limit = named or slot_of(services.function(self.workflow), arguments)
        group = services.group if self.group is None else self.group
        actor.check_start(group)
        return NewRun(
            id=run_id_of(key, actor) if self.id is None else check_id(self.id),
            workflow=self.workflow,
            group=group,
            arguments=arguments,
            priority=self.priority,
            start_at=self.start_at,
            concurrency_key=slot,
            concurrency_limit=limit,
            traceparent=traceparent,
            started_by=actor.user_id("started_by", self.started_by),
            session_id=check_session(self.session_id),
        )


class CancelRun(Body, json_schema_extra=example(reason="the order is gone", by="user:req")):
    """The reason to cancel a run, and the user who does."""

    reason: Text | None = None
    by: Text | None = None


class TerminateRun(Body, json_schema_extra=example(reason="its code is gone", by="user:olga")):
    """The reason to terminate a run, and the user who does."""

    reason: Text | None = None
    by: Text | None = None


class RetryRun(Body, json_schema_extra=example(reason="the bank is back", by="user:olga")):
    """The reason to retry a run, and the user who does."""

    reason: Text | None = None
    by: Text | None = None


class SuspendRun(Body, json_schema_extra=example(reason="the bank is down", by="user:olga")):
    """The reason to suspend a run, and the user who does."""

    reason: Text | None = None
    by: Text | None = None


class ResumeRun(Body, json_schema_extra=example(by="user:olga")):
    """The user who resumes a suspended run."""

    by: Text | None = None


class SendSignal(Body, json_schema_extra=example(name="paid", value={"cents": 7000}, request_id="bank-17")):
    """A signal to a run."""

    name: Text = Field(min_length=1)
    value: Any = None
    by: Text | None = None
    request_id: RequestId | None = None


class Sent(BaseModel, json_schema_extra=example(sent=True)):
    """Whether the signal was sent; false for a repeated request."""

    sent: bool


@router.post(
    "",
    status_code=201,
    responses=gives(
        Run,
        IdConflict,
        NotSerializable,
        statuses={201: "It was started now", 200: "It was started before"},
    ),
)
async def start_run(
    body: StartRun,
    services: ServicesOf,
    actor: ActorOf,
    key: KeyOf,
    traceparent: Annotated[str | None, Header()] = None,
) -> Response:
    """Start a run: 201, or 200 if it was started before. It continues the caller's trace.

    The run is identified by its id or, if the server chooses the id, by ``Idempotency-Key``.
    """
    new = body.new_run(services, actor, key, read_header(traceparent) or current_traceparent())
    run, created = await services.backend.create_run(
        new, timeout_seconds=body.timeout_seconds, delay_seconds=body.delay_seconds
    )
    return reply_with(run, 201 if created else 200)


@router.get("", responses=gives_page(Run))
async def list_runs(
    services: ServicesOf,
    state: Annotated[list[RunState] | None, Query()] = None,
    workflow: Text | None = None,
    group: Text | None = None,
    parent_id: Text | None = None,
    session_id: Text | None = None,
    suspended: Annotated[bool | None, Query(description="Only runs that wait for an operator")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List runs, newest first."""
    states = frozenset(state) if state else None
    which = RunFilter(states, workflow, group, parent_id, session_id, suspended)
    return reply_page(await services.backend.list_runs(which, after=after, limit=limit))


@router.get("/{run_id}", responses=gives(Run, NotFound))
async def get_run(run_id: Id, services: ServicesOf) -> Response:
    """Show a run."""
    return reply_with(await services.backend.get_run(run_id))


@router.get(
    "/{run_id}/result",
    responses=gives(Run, NotFound, statuses={200: "It has ended", 202: "It has not ended yet"}),
)
async def get_result(
    run_id: Id,
    services: ServicesOf,
    caller: CallerOf,
    wait: Annotated[float, Query(ge=0, description="Seconds")] = 0,
) -> Response:
    """Wait up to ``wait`` seconds for a run to end. Return it with 200 if it has ended, or else with 202."""
    run = await services.backend.get_run(run_id)
    if wait and not run.state.is_final:
        del run  # saves memory: thousands of requests may wait
        with services.streams.opened("wait", caller):
            ended = await services.wait_for(
                services.backend.wait(run_id), seconds=min(wait, LONGEST_WAIT_SECONDS)
            )
        run = ended or await services.backend.get_run(run_id)
    return reply_with(run, 200 if run.state.is_final else 202)


@router.post("/{run_id}/cancel", responses=gives(Run, NotFound))
async def cancel_run(
    run_id: Id, services: ServicesOf, actor: ActorOf, body: CancelRun | None = None
) -> Response:
    """Request the cancellation of a run."""
    asked = body or CancelRun()
    by = actor.user_id("by", asked.by)
    return reply_with(await services.backend.cancel(run_id, reason=asked.reason, by=by))


@router.post("/{run_id}/suspend", responses=gives(Run, NotFound, InvalidState))
async def suspend_run(
    run_id: Id, services: ServicesOf, actor: ActorOf, body: SuspendRun | None = None
) -> Response:
    """Suspend a run until it is resumed. Running steps finish first, so it may stay ``running`` for a while."""
    asked = body or SuspendRun()
    by = actor.user_id("by", asked.by)
    return reply_with(await services.backend.suspend_run(run_id, reason=asked.reason, by=by))


@router.post("/{run_id}/resume", responses=gives(Run, NotFound, InvalidState))
async def resume_run(
    run_id: Id, services: ServicesOf, actor: ActorOf, body: ResumeRun | None = None
) -> Response:
    """Resume a suspended run. A run that is not suspended does not change."""
    asked = body or ResumeRun()
    return reply_with(await services.backend.resume_run(run_id, by=actor.user_id("by", asked.by)))


@router.post("/{run_id}/terminate", responses=gives(Run, NotFound, InvalidState))
async def terminate_run(
    run_id: Id, services: ServicesOf, actor: ActorOf, body: TerminateRun | None = None
) -> Response:
    """Terminate a run at once. Its code, including its cleanup, does not run."""
    asked = body or TerminateRun()
    by = actor.user_id("by", asked.by)
    return reply_with(await services.backend.terminate(run_id, reason=asked.reason, by=by))


@router.post("/{run_id}/retry", responses=gives(Run, NotFound, InvalidState))
async def retry_run(
    run_id: Id, services: ServicesOf, actor: ActorOf, key: KeyOf, body: RetryRun | None = None
) -> Response:
    """Retry a failed run from where it failed, or resume a suspended one."""
    asked, token = body or RetryRun(), None if key is None else f"key:{key}"
    by = actor.user_id("by", asked.by)
    return reply_with(await services.backend.retry(run_id, reason=asked.reason, by=by, token=token))


@router.post(
    "/{run_id}/signals",
    responses=gives(Sent, NotFound, InvalidState, RequestConflict, NotSerializable),
)
async def send_signal(
    run_id: Id, body: SendSignal, services: ServicesOf, actor: ActorOf, key: KeyOf
) -> Response:
    """Send a signal to a run. ``sent`` is false if ``request_id`` or ``Idempotency-Key`` was used before."""
    value = codec.encode(body.value)
    by = actor.user_id("by", body.by)
    request_id = request_id_of(key, body.request_id)
    sent = await services.backend.signal(run_id, body.name, value, by=by, request_id=request_id)
    return reply({"sent": sent})


@router.get("/{run_id}/journal", responses=gives_page(Entry, NotFound, after=int))
async def read_journal(run_id: Id, services: ServicesOf, after: Seq = -1, limit: Limit = 100) -> Response:
    """List the journal's entries after seq ``after``. ``next`` is the ``after`` of the next page, or null."""
    entries = await services.backend.read_journal(run_id, after=after, limit=limit)
    last = entries[-1].seq if entries else after
    is_more = len(entries) == limit or (
        entries and await services.backend.read_journal(run_id, after=last, limit=1)
    )
    return reply_items(entries, last if is_more else None)
