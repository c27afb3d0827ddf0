"""The client's HTTP connection to a ``signoff server``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic_core import PydanticSerializationError, from_json, to_json

from signoff import codec
from signoff.errors import InvalidValue, SignoffError, StoreUnavailable
from signoff.people.links.answer_links import NewLink
from signoff.people.links.resume_tokens import Response, Resumption
from signoff.people.questions.answer_checks import written_answer
from signoff.people.questions.bulk_answers import GivenAnswer, check_count
from signoff.people.questions.policies import check_deadline
from signoff.people.questions.search import QuestionSearch
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
from signoff.records.names import check_text
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    Page,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    WorkflowFilter,
    check_page,
)
from signoff.records.pruned import Pruned
from signoff.records.responders import Responder, check_names
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.runtime import forks
from signoff.service.snapshots import Snapshot
from signoff.stores.contract.validation import check_limits
from signoff.wire.http import (
    CONNECT_SECONDS,
    SILENT_SECONDS,
    key_headers,
    new_client,
    server_url,
    shown_url,
)
from signoff.wire.records import from_problem, from_wire
from signoff.wire.sse import read_events

R = TypeVar(
    "R",
    Run,
    Promise,
    Entry,
    Group,
    WorkerInfo,
    WorkflowInfo,
    Schedule,
    AuditEvent,
    Delivery,
    Rule,
    Session,
    Token,
)
S = TypeVar("S", Entry, TimelineChange)
T = TypeVar("T")

ANSWER_SECONDS = 60.0
POLL_SECONDS = 30.0
PAGE = 1000  # the server's page size

NEVER: Sequence[float] = ()
QUICK: Sequence[float] = (0.1, 0.3, 0.9)
"""Pauses in seconds between attempts at a repeatable call."""
PATIENT: Sequence[float] = (*QUICK, 2.0, 4.0, 8.0, 15.0)
"""The same, for callers that wait for a run and have reached the server before."""

_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)

_CREATED = 201

_SETTLE = {
    PromiseState.RESOLVED: "resolve",
    PromiseState.REJECTED: "reject",
    PromiseState.CANCELLED: "cancel",
}


class HttpBackend:
    """Performs a client's operations on a server. Repeatable calls are retried when a connection breaks.

    Args:
        url: The server, such as ``http://127.0.0.1:8000``.
        key: An API key.

    Raises:
        InvalidValue: The URL or the key is not valid.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = shown_url(url)
        self._base = server_url(url)
        self._headers = key_headers(key)
        self._opened: httpx.AsyncClient | None = None
        forks.in_child(self)

    def forked(self) -> None:
        """Drop the parent's connections in a forked child without closing them."""
        forks.keep(self._opened)
        self._opened = None

    async def open(self) -> None:
        """Do nothing: the server may start after the client."""

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

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
        response = await self._post("/v1/runs", body, pauses=QUICK, headers=headers)
        return self._record(Run, response), response.status_code == _CREATED

    async def get_run(self, run_id: str) -> Run:
        return self._record(Run, await self._get(_path("runs", run_id)))

    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        query = {
            "state": None if which.states is None else sorted(which.states),
            "workflow": which.workflow,
            "group": which.group,
            "parent_id": which.parent_id,
            "session_id": which.session_id,
            "suspended": which.suspended,
        }
        return await self._list(Run, "/v1/runs", query, after, limit)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        entries: list[Entry] = []
        left = PAGE if limit is None else limit
        while left > 0:
            query = {"after": after, "limit": min(left, PAGE)}
            page = self._page(Entry, await self._get(_path("runs", run_id, "journal"), query))
            entries += page.items
            if page.next is None:
                break
            after = int(page.next)
            left = PAGE if limit is None else limit - len(entries)
        return entries

    async def follow(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry, None]:
        """Yield journal entries from ``after`` on, live, until the run has ended."""
        async with aclosing(self._follow(run_id, "events", Entry, after, {})) as events:
            async for event in events:
                if isinstance(event, Entry):
                    yield event

    async def follow_live(self, run_id: str, *, after: int = -1) -> AsyncGenerator[Entry | LiveText, None]:
        """Yield entries as ``follow`` does, with the live text of running steps, anew at each connection."""
        async with aclosing(self._follow(run_id, "events", Entry, after, {"live": "true"})) as events:
            async for event in events:
                if not isinstance(event, TimelineMark):
                    yield event

    async def timeline(
        self, run_id: str, *, after: int = -1, follow: bool = False, live: bool = False
    ) -> AsyncGenerator[TimelineChange | TimelineMark | LiveText, None]:
        """Yield the changes of a run's timeline that journal entries from ``after`` on make, then ``CURRENT``."""
        query = {"follow": str(follow).lower(), "live": str(live).lower()}
        is_current = False
        async with aclosing(self._follow(run_id, "timeline", TimelineChange, after, query)) as events:
            async for event in events:
                if event is TimelineMark.CURRENT:
                    if is_current:  # anew at each connection
                        continue
                    is_current = True
                yield event

    async def _follow(
        self, run_id: str, stream: str, kind: type[S], after: int, query: dict[str, str]
    ) -> AsyncGenerator[S | LiveText | TimelineMark, None]:
        await self.get_run(run_id)
        broken = 0
        ended = False
        while True:
            try:
                async with self._stream(
                    _path("runs", run_id, stream), {"last-event-id": str(after)}, query
                ) as chunks:
                    async for event in read_events(chunks):
                        if event.name == "end":
                            # Continue: a stream read to its end has nothing left to close.
                            ended = True
                            continue
                        broken = 0
                        if event.name == "live":
                            yield from_wire(LiveText, from_json(event.data))
                            continue
                        if event.name == TimelineMark.CURRENT.value:
                            yield TimelineMark.CURRENT
                            continue
                        item = from_wire(kind, from_json(event.data))
                        after = item.seq
                        yield item
            except httpx.TransportError as error:
                if broken == len(PATIENT) and not ended:
                    raise self._unreachable(error) from error
            if ended:
                return
            await asyncio.sleep(PATIENT[min(broken, len(PATIENT) - 1)])
            broken += 1

    async def wait(self, run_id: str) -> Run:
        """Return the run once it has ended."""
        run = await self.get_run(run_id)
        while not run.state.is_final:
            query = {"wait": POLL_SECONDS}
            run = self._record(Run, await self._get(_path("runs", run_id, "result"), query, pauses=PATIENT))
        return run

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return self._record(Run, await self._post(_path("runs", run_id, "cancel"), body, pauses=QUICK))

    async def suspend_run(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return self._record(Run, await self._post(_path("runs", run_id, "suspend"), body, pauses=QUICK))

    async def resume_run(self, run_id: str, *, by: str | None = None) -> Run:
        return self._record(Run, await self._post(_path("runs", run_id, "resume"), {"by": by}, pauses=QUICK))

    async def terminate(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return self._record(Run, await self._post(_path("runs", run_id, "terminate"), body))

    async def retry(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        body = {"reason": reason, "by": by}
        return self._record(Run, await self._post(_path("runs", run_id, "retry"), body))

    async def signal(
        self, run_id: str, name: str, value: str, *, by: str | None = None, request_id: str | None = None
    ) -> bool:
        body = {"name": name, "value": from_json(value), "by": by, "request_id": request_id}
        response = await self._post(_path("runs", run_id, "signals"), body, pauses=_repeatable(request_id))
        return self._read(response, lambda answer: answer["sent"])

    async def save(self, run_id: str, *, by: str | None = None) -> dict[str, Any]:
        response = await self._post(_path("runs", run_id, "save"), _given({"by": by}), pauses=QUICK)
        return self._read(response, dict)

    async def load(self, snapshot: Snapshot, *, by: str | None = None) -> Run:
        body = {"snapshot": dict(snapshot), **_given({"by": by})}
        return self._record(Run, await self._post("/v1/snapshots", body))

    async def delete_ended(self, older_than_seconds: float, limit: int) -> Pruned:
        body = {"older_than_seconds": older_than_seconds, "limit": limit}
        response = await self._post("/v1/prune", body, pauses=QUICK)
        return self._read(
            response,
            lambda answer: Pruned(
                answer["deleted"], answer["tokens"], answer["deliveries"], answer.get("workflows", 0)
            ),
        )

    # Promises

    async def create_promise(
        self, new: NewPromise, *, timeout_seconds: float | None = None
    ) -> tuple[Promise, bool]:
        body: dict[str, Any] = {"id": new.id, "timeout_seconds": timeout_seconds}
        if new.data is not None:
            body["data"] = from_json(new.data)
        response = await self._post("/v1/promises", body, pauses=QUICK)
        return self._record(Promise, response), response.status_code == _CREATED

    async def get_promise(self, promise_id: str) -> Promise:
        return self._record(Promise, await self._get(_path("promises", promise_id)))

    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        if which.answerable_by is not None or which.is_of_runs:
            search = QuestionSearch(which.run_id, which.answerable_by, which.workflow, which.group)
            return await self.list_questions(search, after=after, limit=limit)
        query = {"kind": which.kind, "state": which.state, "run_id": which.run_id}
        return await self._list(Promise, "/v1/promises", query, after, limit)

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
        return await self._list(Promise, "/v1/questions", query, after, limit)

    async def settle(self, promise_id: str, settlement: Settlement) -> Promise:
        body = {"by": settlement.by, "note": settlement.note, "request_id": settlement.request_id}
        if settlement.state is not PromiseState.CANCELLED:
            body["value"] = from_json(settlement.value or "null")
        path = _path("promises", promise_id, _SETTLE[settlement.state])
        return self._record(Promise, await self._post(path, body, pauses=_repeatable(settlement.request_id)))

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
            **_responder(Responder.of(user_id, groups, roles)),
            "note": note,
            "request_id": request_id,
            "digest": digest,
            "alike": None if alike is None else _given(asdict(alike)),
        }
        path = _path("questions", question_id, "answer")
        return self._record(Promise, await self._post(path, body, pauses=_repeatable(request_id)))

    async def answer_all(
        self, given: Sequence[GivenAnswer], responder: Responder
    ) -> Sequence[Promise | SignoffError]:
        check_count(given)
        body = {"answers": [_given_answer(each) for each in given], **_responder(responder)}
        is_repeatable = all(each.request_id is not None for each in given)
        response = await self._post("/v1/questions/answers", body, pauses=QUICK if is_repeatable else NEVER)
        return self._read(response, lambda answer: [self._result(item) for item in answer["items"]])

    async def view_question(self, question_id: str, responder: Responder) -> Promise:
        path = _path("questions", question_id, "view")
        return self._record(Promise, await self._post(path, _responder(responder), pauses=QUICK))

    async def comment_on_question(
        self, question_id: str, responder: Responder, text: str, request_id: str | None = None
    ) -> AuditEvent:
        body = {**_responder(responder), "text": text, "request_id": request_id}
        path = _path("questions", question_id, "comments")
        return self._record(AuditEvent, await self._post(path, body, pauses=_repeatable(request_id)))

    async def claim_question(self, question_id: str, responder: Responder) -> Promise:
        path = _path("questions", question_id, "claim")
        return self._record(Promise, await self._post(path, _responder(responder), pauses=QUICK))

    async def release_question(self, question_id: str, responder: Responder) -> Promise:
        path = _path("questions", question_id, "release")
        return self._record(Promise, await self._post(path, _responder(responder), pauses=QUICK))

    async def delegate_question(
        self, question_id: str, responder: Responder, to: Sequence[str], note: str | None = None
    ) -> Promise:
        body = {**_responder(responder), "to": check_names("to", to), "note": note}
        path = _path("questions", question_id, "delegate")
        return self._record(Promise, await self._post(path, body))

    async def cancel_question(
        self, question_id: str, *, by: str | None, reason: str | None, request_id: str | None
    ) -> Promise:
        body = {"by": by, "reason": reason, "request_id": request_id}
        path = _path("questions", question_id, "cancel")
        return self._record(Promise, await self._post(path, body, pauses=_repeatable(request_id)))

    async def reassign_question(
        self, question_id: str, to: Sequence[str], *, by: str | None, reason: str | None
    ) -> Promise:
        body = {"to": check_names("to", to), "by": by, "reason": reason}
        path = _path("questions", question_id, "reassign")
        return self._record(Promise, await self._post(path, body, pauses=QUICK))

    async def move_deadline(
        self, question_id: str, timeout_seconds: float, *, by: str | None, reason: str | None
    ) -> Promise:
        body = {"timeout_seconds": check_deadline(timeout_seconds), "by": by, "reason": reason}
        return self._record(Promise, await self._post(_path("questions", question_id, "deadline"), body))

    async def create_link(
        self, question_id: str, responder: Responder, *, lifetime_seconds: float, by: str | None = None
    ) -> NewLink:
        body = {**_responder(responder), "lifetime_seconds": lifetime_seconds, "by": by}
        response = await self._post(_path("questions", question_id, "links"), body)
        return self._read(
            response, lambda answer: NewLink(from_wire(Token, answer), answer["path"], answer["url"])
        )

    async def list_links(
        self, question_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        return await self._list(Token, _path("questions", question_id, "links"), {}, after, limit)

    async def revoke_link(self, link_id: str, *, by: str | None = None) -> Token:
        return self._record(
            Token, await self._post(_path("links", link_id, "revoke"), {"by": by}, pauses=QUICK)
        )

    async def create_resumption(
        self, session_id: str, run_id: str, questions: Collection[Promise], *, lifetime_seconds: float
    ) -> str:
        body = {
            "session_id": session_id,
            "questions": [each.id for each in questions],
            "lifetime_seconds": lifetime_seconds,
        }
        response = await self._post(_path("runs", run_id, "resume-tokens"), body, pauses=QUICK)
        return self._read(response, lambda answer: answer["resume_token"])

    async def find_resumption(self, session_id: str, secret: str) -> Resumption:
        body = {"session_id": session_id, "resume_token": secret}
        response = await self._post("/v1/resume-tokens/read", body, pauses=QUICK)
        return self._read(
            response,
            lambda answer: Resumption(answer["token_id"], answer["run_id"], dict(answer["questions"])),
        )

    async def check_responses(
        self, session_id: str, secret: str, responses: Mapping[str, Response], responder: Responder
    ) -> None:
        body = _responses(session_id, secret, responses, responder)
        await self._post("/v1/resume-tokens/check", body, pauses=QUICK)

    async def resume(
        self,
        session_id: str,
        secret: str,
        responses: Mapping[str, Response],
        responder: Responder,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        body = _responses(session_id, secret, responses, responder)
        if context is not None:
            body["context"] = from_json(codec.encode(dict(context), path="context"))
        await self._post("/v1/resume-tokens/answer", body)

    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        query = {"question_id": which.question_id, "run_id": which.run_id}
        return await self._list(AuditEvent, "/v1/audit", query, after, limit)

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        query = {"after": after, "limit": min(limit, PAGE)}
        return self._read(await self._get("/v1/audit/chain", query), _links)

    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        query = {"state": which.state, "channel": which.channel, "question_id": which.question_id}
        return await self._list(Delivery, "/v1/deliveries", query, after, limit)

    async def redeliver(self, delivery_id: str) -> Delivery:
        return self._record(Delivery, await self._post(_path("deliveries", delivery_id, "redeliver"), {}))

    # Sessions

    async def get_session(self, session_id: str) -> Session:
        return self._record(Session, await self._get(_path("sessions", session_id)))

    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        return await self._list(Session, "/v1/sessions", {}, after, limit)

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
        return await self._list(Rule, "/v1/rules", query, after, limit)

    async def revoke_rule(self, rule_id: str, *, by: str | None, reason: str | None) -> Rule:
        body = {"by": by, "reason": reason}
        return self._record(Rule, await self._post(_path("rules", rule_id, "revoke"), body, pauses=QUICK))

    # Workers and groups

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return self._page(WorkerInfo, await self._get("/v1/workers")).items

    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        query = {"name": which.name, "group": which.group}
        return await self._list(WorkflowInfo, "/v1/workflows", query, after, limit)

    async def list_groups(self) -> Sequence[Group]:
        return self._page(Group, await self._get("/v1/groups")).items

    async def pause_group(self, name: str) -> None:
        await self._post(_path("groups", name, "pause"), {}, pauses=QUICK)

    async def resume_group(self, name: str) -> None:
        await self._post(_path("groups", name, "resume"), {}, pauses=QUICK)

    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_limits(max_running, starts_per)  # numbers that are not finite are not JSON
        body = {"max_running": max_running, "starts_per": starts_per and asdict(starts_per)}
        await self._post(_path("groups", name, "limit"), body, pauses=QUICK)

    # Schedules

    async def put_schedule(self, new: NewSchedule) -> Schedule:
        body = {**asdict(new), **from_json(new.arguments)}
        for name in ("arguments", "next_at"):
            del body[name]
        return self._record(Schedule, await self._post("/v1/schedules", body, pauses=QUICK))

    async def get_schedule(self, schedule_id: str) -> Schedule:
        return self._record(Schedule, await self._get(_path("schedules", schedule_id)))

    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        return await self._list(Schedule, "/v1/schedules", {}, after, limit)

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return self._record(
            Schedule, await self._post(_path("schedules", schedule_id, "pause"), {}, pauses=QUICK)
        )

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        return self._record(
            Schedule, await self._post(_path("schedules", schedule_id, "resume"), {}, pauses=QUICK)
        )

    async def delete_schedule(self, schedule_id: str) -> None:
        await self._post(_path("schedules", schedule_id, "delete"), {})

    # HTTP

    @property
    def _client(self) -> httpx.AsyncClient:
        if self._opened is None:
            self._opened = new_client(self._base, answer_seconds=ANSWER_SECONDS, headers=self._headers)
        return self._opened

    async def _get(
        self, path: str, query: Mapping[str, Any] | None = None, *, pauses: Sequence[float] = QUICK
    ) -> httpx.Response:
        return await self._send(self._client.build_request("GET", path, params=_given(query or {})), pauses)

    async def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        pauses: Sequence[float] = NEVER,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        request = self._client.build_request(
            "POST",
            path,
            content=_json(_given(body, "value", "data")),
            headers={"content-type": "application/json", **(headers or {})},
        )
        return await self._send(request, pauses)

    async def _send(self, request: httpx.Request, pauses: Sequence[float]) -> httpx.Response:
        for pause in (*pauses, None):
            try:
                response = await self._client.send(request)
            except _BROKEN as error:
                if pause is None:
                    raise self._unreachable(error, request.method) from error
                await asyncio.sleep(pause)
            except httpx.TransportError as error:
                raise self._unreachable(error, request.method) from error
            else:
                if not response.is_success:
                    raise self._refused(response)
                return response
        raise AssertionError

    @asynccontextmanager
    async def _stream(
        self, path: str, headers: dict[str, str], query: dict[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        timeout = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS, pool=None)
        request = self._client.stream("GET", path, headers=headers, params=query, timeout=timeout)
        async with request as response:
            if not response.is_success:
                await response.aread()
                raise self._refused(response)
            yield response.aiter_bytes()

    async def _list(
        self, kind: type[R], path: str, query: dict[str, Any], after: str | None, limit: int
    ) -> Page[R]:
        check_page(after, limit)
        items: list[R] = []
        while True:
            part = {**query, "after": after, "limit": min(limit - len(items), PAGE)}
            page = self._page(kind, await self._get(path, part))
            items += page.items
            after = page.next
            if after is None or len(items) >= limit:
                return Page(tuple(items), after)

    def _record(self, kind: type[R], response: httpx.Response) -> R:
        return self._read(response, lambda answer: from_wire(kind, answer))

    def _page(self, kind: type[R], response: httpx.Response) -> Page[R]:
        return self._read(
            response,
            lambda answer: Page(tuple(from_wire(kind, item) for item in answer["items"]), answer["next"]),
        )

    def _read(self, response: httpx.Response, read: Callable[[Any], T]) -> T:
        try:
            return read(from_json(response.content))
        except (ValueError, KeyError, TypeError):
            raise StoreUnavailable(self.url, "the response is not from a signoff server") from None

    def _result(self, item: Any) -> Promise | SignoffError:
        """Return the result of one of several answers."""
        if "question" in item:
            return from_wire(Promise, item["question"])
        problem = item["problem"]
        return from_problem(problem) or StoreUnavailable(
            self.url, f"the server reported: {problem.get('detail')}"
        )

    def _refused(self, response: httpx.Response) -> SignoffError:
        """Return the error that a response describes."""
        try:
            problem = from_json(response.content)
            error = from_problem(problem)
        except (ValueError, KeyError, TypeError, AttributeError):
            return StoreUnavailable(
                self.url,
                f"it answered {response.status_code} {response.reason_phrase}, in a form that no signoff server uses",
            )
        return error or StoreUnavailable(
            self.url, f"it answered {response.status_code} {response.reason_phrase}: {problem.get('detail')}"
        )

    def _unreachable(self, error: httpx.TransportError, method: str = "GET") -> StoreUnavailable:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return StoreUnavailable(
                self.url, f"no server answers there ({error}); start one with `signoff server`"
            )
        reason = f"the connection broke ({str(error) or type(error).__name__})"
        if method == "POST":
            reason += (
                ", so the call may or may not have taken effect; with a request id it can be repeated safely"
            )
        return StoreUnavailable(self.url, reason)


def _json(body: object) -> bytes:
    """Return a body as JSON.

    Raises:
        InvalidValue: A text in it is not Unicode.
    """
    try:
        return to_json(body)
    except PydanticSerializationError as error:
        raise InvalidValue("request", f"it cannot be sent as JSON: {error}") from None


def _path(noun: str, id: str, verb: str | None = None) -> str:
    """Return a path for any id. ``.`` and ``..`` are quoted, or they would change the path."""
    check_text("id", id)
    quoted = quote(id, safe="").replace(".", "%2E") if id in (".", "..") else quote(id, safe="")
    return f"/v1/{noun}/{quoted}" + (f"/{verb}" if verb else "")


def _links(answer: Any) -> list[tuple[Seal, AuditEvent | None]]:
    return [
        (
            Seal(link["seq"], link["event_id"], link["hash"]),
            None if link["event"] is None else from_wire(AuditEvent, link["event"]),
        )
        for link in answer["items"]
    ]


def _given_answer(given: GivenAnswer) -> dict[str, Any]:
    details = {"note": given.note, "request_id": given.request_id, "digest": given.digest}
    value = from_json(written_answer(given.value))
    return {"question_id": given.question_id, "value": value, **_given(details)}


def _responses(
    session_id: str, secret: str, responses: Mapping[str, Response], responder: Responder
) -> dict[str, Any]:
    answers = [
        {
            "question_id": id,
            "value": from_json(written_answer(each.value)),
            **_given(
                {"note": each.note, "alike": None if each.alike is None else _given(asdict(each.alike))}
            ),
        }
        for id, each in responses.items()
    ]
    return {
        "session_id": session_id,
        "resume_token": secret,
        "answers": answers,
        **_responder(responder),
    }


def _responder(responder: Responder) -> dict[str, Any]:
    user: dict[str, Any] = {"user_id": responder.user_id}
    if responder.groups:
        user["groups"] = sorted(responder.groups)
    if responder.roles:
        user["roles"] = sorted(responder.roles)
    return user


def _repeatable(request_id: str | None) -> Sequence[float]:
    return NEVER if request_id is None else QUICK


def _given(values: Mapping[str, Any], *nullable: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None or name in nullable}
