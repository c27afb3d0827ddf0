"""The client's operations on a ``signoff server``: each is one HTTP request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from pydantic_core import from_json

from signoff import codec
from signoff.client.http_transport import NEVER, PAGE, PATIENT, QUICK, HttpTransport
from signoff.client.request_bodies import (
    SETTLE_VERBS,
    chain_links,
    given_answer,
    given_responder,
    given_responses,
    path_to,
    without_none,
)
from signoff.client.run_streams import run_stream
from signoff.errors import SignoffError
from signoff.people.links.answer_links import NewLink
from signoff.people.links.resume_tokens import Response, Resumption
from signoff.people.questions.answer_checks import written_answer
from signoff.people.questions.bulk_answers import GivenAnswer, check_count
from signoff.people.questions.policies import check_deadline
from signoff.people.questions.search import QuestionSearch
from signoff.people.questions.standalone_questions import StandaloneQuestion
from signoff.people.questions.standing_approvals import Alike
from signoff.records import (
    AuditEvent,
    Entry,
    Group,
    LiveText,
    NewPromise,
    NewRun,
    NewSchedule,
    Promise,
    PromiseState,
    Rate,
    Rule,
    Run,
    Schedule,
    Seal,
    Session,
    Settlement,
    Token,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    Page,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    WorkflowFilter,
)
from signoff.records.pruned import Pruned
from signoff.records.responders import Responder, check_names
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.service.snapshots import Snapshot
from signoff.stores.contract.validation import check_limits
from signoff.wire.records import from_wire

POLL_SECONDS = 30.0

_CREATED = 201


class HttpBackend:
    """Performs a client's operations on a server. Repeatable calls are retried when a connection breaks.

    Args:
        url: The server, such as ``http://127.0.0.1:8000``.
        key: An API key.

    Raises:
        InvalidValue: The URL or the key is not valid.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        self._http = HttpTransport(url, key)
        self.url = self._http.url

    async def open(self) -> None:
        """Do nothing: the server may start after the client."""

    async def close(self) -> None:
        await self._http.close()

    # Runs

    async def create_run(
        self, new: NewRun, *, timeout_seconds: float | None = None, delay_seconds: float | None = None
    ) -> tuple[Run, bool]:
        body = {
            **from_json(new.arguments),
            "workflow": new.workflow,
            "id": new.id,
            "group": new.group,
            "timeout_seconds": timeout_seconds,
            "priority": new.priority,
            "start_at": new.start_at,
            "delay_seconds": delay_seconds,
            "concurrency_key": new.concurrency_key,
            "concurrency_limit": new.concurrency_limit,
            "started_by": new.started_by,
            "session_id": new.session_id,
        }
        headers = {"traceparent": new.traceparent} if new.traceparent else None
        response = await self._http.post("/v1/runs", body, pauses=QUICK, headers=headers)
        return self._http.record(Run, response), response.status_code == _CREATED

    async def get_run(self, run_id: str) -> Run:
        return await self._http.get_record(Run, path_to("runs", run_id))

    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        query = {
            "state": None if which.states is None else sorted(which.states),
            "workflow": which.workflow,
            "group": which.group,
            "parent_id": which.parent_id,
            "session_id": which.session_id,
            "suspended": which.suspended,
        }
        return await self._http.list_records(Run, "/v1/runs", query, after, limit)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        entries: list[Entry] = []
        left = PAGE if limit is None else limit
        while left > 0:
            query = {"after": after, "limit": min(left, PAGE)}
            page = self._http.page(Entry, await self._http.get(path_to("runs", run_id, "journal"), query))
            entries += page.items
            if page.next is None:
                break
            after = int(page.next)
            left = PAGE if limit is None else limit - len(entries)
        return entries

    async def follow(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry, None]:
        """Yield journal entries from ``after`` on, live, until the run has ended."""
        await self.get_run(run_id)
        async with aclosing(run_stream(self._http, run_id, "events", Entry, after, {})) as events:
            async for event in events:
                if isinstance(event, Entry):
                    yield event

    async def follow_live(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry | LiveText, None]:
        """Yield entries as ``follow`` does, with the live text of running steps, anew at each connection."""
        await self.get_run(run_id)
        query = {"live": "true"}
        async with aclosing(run_stream(self._http, run_id, "events", Entry, after, query)) as events:
            async for event in events:
                if not isinstance(event, TimelineMark):
                    yield event

    async def timeline(
        self, run_id: str, *, after: int = -1, follow: bool = False, live: bool = False
    ) -> AsyncGenerator[TimelineChange | TimelineMark | LiveText, None]:
        """Yield the changes of a run's timeline that journal entries from ``after`` on make, then ``CURRENT``."""
        await self.get_run(run_id)
        query = {"follow": str(follow).lower(), "live": str(live).lower()}
        is_current = False
        stream = run_stream(self._http, run_id, "timeline", TimelineChange, after, query)
        async with aclosing(stream) as events:
            async for event in events:
                if event is TimelineMark.CURRENT:
                    if is_current:  # anew at each connection
                        continue
                    is_current = True
                yield event

    async def wait(self, run_id: str) -> Run:
        """Return the run once it has ended."""
        run = await self.get_run(run_id)
        while not run.state.is_final:
            query = {"wait": POLL_SECONDS}
            run = await self._http.get_record(Run, path_to("runs", run_id, "result"), query, pauses=PATIENT)
        return run

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return await self._http.post_record(Run, path_to("runs", run_id, "cancel"), body, pauses=QUICK)

    async def suspend_run(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return await self._http.post_record(Run, path_to("runs", run_id, "suspend"), body, pauses=QUICK)

    async def resume_run(self, run_id: str, *, by: str | None = None) -> Run:
        return await self._http.post_record(Run, path_to("runs", run_id, "resume"), {"by": by}, pauses=QUICK)

    async def terminate(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return await self._http.post_record(Run, path_to("runs", run_id, "terminate"), body)

    async def retry(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return await self._http.post_record(Run, path_to("runs", run_id, "retry"), body)

    async def signal(
        self, run_id: str, name: str, value: str, *, by: str | None = None, request_id: str | None = None
    ) -> bool:
        body = {"name": name, "value": from_json(value), "by": by, "request_id": request_id}
        response = await self._http.post(
            path_to("runs", run_id, "signals"), body, pauses=_repeatable(request_id)
        )
        return self._http.read(response, lambda answer: answer["sent"])

    async def save(self, run_id: str, *, by: str | None = None) -> dict[str, Any]:
        response = await self._http.post(path_to("runs", run_id, "save"), {"by": by}, pauses=QUICK)
        return self._http.read(response, dict)

    async def load(self, snapshot: Snapshot, *, by: str | None = None) -> Run:
        body = {"snapshot": dict(snapshot), "by": by}
        return await self._http.post_record(Run, "/v1/snapshots", body)

    async def delete_ended(self, older_than_seconds: float, limit: int) -> Pruned:
        body = {"older_than_seconds": older_than_seconds, "limit": limit}
        response = await self._http.post("/v1/prune", body, pauses=QUICK)
        return self._http.read(
            response,
            lambda answer: Pruned(
                answer["deleted"],
                answer["tokens"],
                answer["deliveries"],
                answer.get("workflows", 0),
                answer.get("promises", 0),
            ),
        )

    # Promises

    async def create_promise(
        self, new: NewPromise, *, timeout_seconds: float | None = None
    ) -> tuple[Promise, bool]:
        body: dict[str, Any] = {"id": new.id, "timeout_seconds": timeout_seconds}
        if new.data is not None:
            body["data"] = from_json(new.data)
        response = await self._http.post("/v1/promises", body, pauses=QUICK)
        return self._http.record(Promise, response), response.status_code == _CREATED

    async def ask(self, id: str, asked: StandaloneQuestion) -> tuple[Promise, bool]:
        body = {"id": id, **asked.to_plain()}
        response = await self._http.post("/v1/questions", body, pauses=QUICK)
        return self._http.record(Promise, response), response.status_code == _CREATED

    async def wait_for_answer(self, question_id: str) -> Promise:
        """Return the question once it has been answered or closed otherwise."""
        path, query = path_to("questions", question_id, "result"), {"wait": 0.0}
        while True:
            question = await self._http.get_record(Promise, path, query, pauses=PATIENT)
            if question.state is not PromiseState.PENDING:
                return question
            query = {"wait": POLL_SECONDS}

    async def get_promise(self, promise_id: str) -> Promise:
        return await self._http.get_record(Promise, path_to("promises", promise_id))

    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        if which.answerable_by is not None or which.is_of_runs:
            search = QuestionSearch(which.run_id, which.answerable_by, which.workflow, which.group)
            return await self.list_questions(search, after=after, limit=limit)
        query = {"kind": which.kind, "state": which.state, "run_id": which.run_id}
        return await self._http.list_records(Promise, "/v1/promises", query, after, limit)

    async def list_questions(
        self, search: QuestionSearch, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        query = {
            "run_id": search.run_id,
            "assignee": None if search.names is None else sorted(search.names),
            "workflow": search.workflow,
            "group": search.group,
            "text": search.text,
        }
        return await self._http.list_records(Promise, "/v1/questions", query, after, limit)

    async def settle(self, promise_id: str, settlement: Settlement) -> Promise:
        body = {"by": settlement.by, "note": settlement.note, "request_id": settlement.request_id}
        if settlement.state is not PromiseState.CANCELLED:
            body["value"] = from_json(settlement.value or "null")
        path = path_to("promises", promise_id, SETTLE_VERBS[settlement.state])
        return await self._http.post_record(Promise, path, body, pauses=_repeatable(settlement.request_id))

    async def answer(
        self,
        question_id: str,
        value: Any,
        *,
        user_id: str | None = None,
        groups: Collection[str] = (),
        roles: Collection[str] = (),
        note: str | None = None,
        request_id: str | None = None,
        digest: str | None = None,
        alike: Alike | None = None,
    ) -> Promise:
        body = {
            "value": from_json(written_answer(value)),
            **given_responder(Responder.of(user_id, groups, roles)),
            "note": note,
            "request_id": request_id,
            "digest": digest,
            "alike": None if alike is None else without_none(asdict(alike)),
        }
        path = path_to("questions", question_id, "answer")
        return await self._http.post_record(Promise, path, body, pauses=_repeatable(request_id))

    async def answer_all(
        self, given: Sequence[GivenAnswer], responder: Responder
    ) -> Sequence[Promise | SignoffError]:
        check_count(given)
        body = {"answers": [given_answer(each) for each in given], **given_responder(responder)}
        is_repeatable = all(each.request_id is not None for each in given)
        response = await self._http.post(
            "/v1/questions/answers", body, pauses=QUICK if is_repeatable else NEVER
        )
        return self._http.read(response, lambda answer: [self._http.result(item) for item in answer["items"]])

    async def view_question(self, question_id: str, responder: Responder) -> Promise:
        path = path_to("questions", question_id, "view")
        return await self._http.post_record(Promise, path, given_responder(responder), pauses=QUICK)

    async def comment_on_question(
        self, question_id: str, responder: Responder, text: str, request_id: str | None = None
    ) -> AuditEvent:
        body = {**given_responder(responder), "text": text, "request_id": request_id}
        path = path_to("questions", question_id, "comments")
        return await self._http.post_record(AuditEvent, path, body, pauses=_repeatable(request_id))

    async def claim_question(self, question_id: str, responder: Responder) -> Promise:
        path = path_to("questions", question_id, "claim")
        return await self._http.post_record(Promise, path, given_responder(responder), pauses=QUICK)

    async def release_question(self, question_id: str, responder: Responder) -> Promise:
        path = path_to("questions", question_id, "release")
        return await self._http.post_record(Promise, path, given_responder(responder), pauses=QUICK)

    async def delegate_question(
        self, question_id: str, responder: Responder, to: Sequence[str], note: str | None = None
    ) -> Promise:
        body = {**given_responder(responder), "to": check_names("to", to), "note": note}
        path = path_to("questions", question_id, "delegate")
        return await self._http.post_record(Promise, path, body)

    async def cancel_question(
        self, question_id: str, *, by: str | None, reason: str | None, request_id: str | None
    ) -> Promise:
        body = {"by": by, "reason": reason, "request_id": request_id}
        path = path_to("questions", question_id, "cancel")
        return await self._http.post_record(Promise, path, body, pauses=_repeatable(request_id))

    async def reassign_question(
        self, question_id: str, to: Sequence[str], *, by: str | None, reason: str | None
    ) -> Promise:
        body = {"to": check_names("to", to), "by": by, "reason": reason}
        path = path_to("questions", question_id, "reassign")
        return await self._http.post_record(Promise, path, body, pauses=QUICK)

    async def move_deadline(
        self, question_id: str, timeout_seconds: float, *, by: str | None, reason: str | None
    ) -> Promise:
        body = {"timeout_seconds": check_deadline(timeout_seconds), "by": by, "reason": reason}
        return await self._http.post_record(Promise, path_to("questions", question_id, "deadline"), body)

    async def create_link(
        self, question_id: str, responder: Responder, *, lifetime_seconds: float, by: str | None = None
    ) -> NewLink:
        body = {**given_responder(responder), "lifetime_seconds": lifetime_seconds, "by": by}
        response = await self._http.post(path_to("questions", question_id, "links"), body)
        return self._http.read(
            response, lambda answer: NewLink(from_wire(Token, answer), answer["path"], answer["url"])
        )

    async def list_links(
        self, question_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        return await self._http.list_records(
            Token, path_to("questions", question_id, "links"), {}, after, limit
        )

    async def revoke_link(self, link_id: str, *, by: str | None = None) -> Token:
        return await self._http.post_record(
            Token, path_to("links", link_id, "revoke"), {"by": by}, pauses=QUICK
        )

    async def create_resumption(
        self, session_id: str, run_id: str, questions: Collection[Promise], *, lifetime_seconds: float
    ) -> str:
        body = {
            "session_id": session_id,
            "questions": [each.id for each in questions],
            "lifetime_seconds": lifetime_seconds,
        }
        response = await self._http.post(path_to("runs", run_id, "resume-tokens"), body, pauses=QUICK)
        return self._http.read(response, lambda answer: answer["resume_token"])

    async def find_resumption(self, session_id: str, secret: str) -> Resumption:
        body = {"session_id": session_id, "resume_token": secret}
        response = await self._http.post("/v1/resume-tokens/read", body, pauses=QUICK)
        return self._http.read(
            response,
            lambda answer: Resumption(answer["token_id"], answer["run_id"], dict(answer["questions"])),
        )

    async def check_responses(
        self, session_id: str, secret: str, responses: Mapping[str, Response], responder: Responder
    ) -> None:
        body = given_responses(session_id, secret, responses, responder)
        await self._http.post("/v1/resume-tokens/check", body, pauses=QUICK)

    async def resume(
        self,
        session_id: str,
        secret: str,
        responses: Mapping[str, Response],
        responder: Responder,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        body = given_responses(session_id, secret, responses, responder)
        if context is not None:
            body["context"] = from_json(codec.encode(dict(context), path="context"))
        await self._http.post("/v1/resume-tokens/answer", body)

    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        query = {"question_id": which.question_id, "run_id": which.run_id}
        return await self._http.list_records(AuditEvent, "/v1/audit", query, after, limit)

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        query = {"after": after, "limit": min(limit, PAGE)}
        return self._http.read(await self._http.get("/v1/audit/chain", query), chain_links)

    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        query = {"state": which.state, "channel": which.channel, "question_id": which.question_id}
        return await self._http.list_records(Delivery, "/v1/deliveries", query, after, limit)

    async def redeliver(self, delivery_id: str) -> Delivery:
        return await self._http.post_record(Delivery, path_to("deliveries", delivery_id, "redeliver"), {})

    # Sessions

    async def get_session(self, session_id: str) -> Session:
        return await self._http.get_record(Session, path_to("sessions", session_id))

    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        return await self._http.list_records(Session, "/v1/sessions", {}, after, limit)

    # Rules

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        query = {
            "by": which.by,
            "tool": which.tool,
            "in_force": which.in_force or None,
            "session_id": which.session_id,
        }
        return await self._http.list_records(Rule, "/v1/rules", query, after, limit)

    async def revoke_rule(self, rule_id: str, *, by: str | None, reason: str | None) -> Rule:
        body = {"by": by, "reason": reason}
        return await self._http.post_record(Rule, path_to("rules", rule_id, "revoke"), body, pauses=QUICK)

    # Workers and groups

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return self._http.page(WorkerInfo, await self._http.get("/v1/workers")).items

    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        query = {"name": which.name, "group": which.group}
        return await self._http.list_records(WorkflowInfo, "/v1/workflows", query, after, limit)

    async def list_groups(self) -> Sequence[Group]:
        return self._http.page(Group, await self._http.get("/v1/groups")).items

    async def pause_group(self, name: str) -> None:
        await self._http.post(path_to("groups", name, "pause"), {}, pauses=QUICK)

    async def resume_group(self, name: str) -> None:
        await self._http.post(path_to("groups", name, "resume"), {}, pauses=QUICK)

    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_limits(max_running, starts_per)  # numbers that are not finite are not JSON
        body = {"max_running": max_running, "starts_per": starts_per and asdict(starts_per)}
        await self._http.post(path_to("groups", name, "limit"), body, pauses=QUICK)

    # Schedules

    async def put_schedule(self, new: NewSchedule) -> Schedule:
        body = {**asdict(new), **from_json(new.arguments)}
        for name in ("arguments", "next_at"):
            del body[name]
        return await self._http.post_record(Schedule, "/v1/schedules", body, pauses=QUICK)

    async def get_schedule(self, schedule_id: str) -> Schedule:
        return await self._http.get_record(Schedule, path_to("schedules", schedule_id))

    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        return await self._http.list_records(Schedule, "/v1/schedules", {}, after, limit)

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return await self._http.post_record(
            Schedule, path_to("schedules", schedule_id, "pause"), {}, pauses=QUICK
        )

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        return await self._http.post_record(
            Schedule, path_to("schedules", schedule_id, "resume"), {}, pauses=QUICK
        )

    async def delete_schedule(self, schedule_id: str) -> None:
        await self._http.post(path_to("schedules", schedule_id, "delete"), {})


def _repeatable(request_id: str | None) -> Sequence[float]:
    return NEVER if request_id is None else QUICK
