"""Two namespaces on one server: no route shows, counts, changes or reveals anything of the other one."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff.people.links.answer_links import create_link
from signoff.records import (
    AuditKind,
    NewPromise,
    NewRule,
    NewSchedule,
    Run,
    RunState,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import NewDelivery
from signoff.records.tasks import NewInvocation
from signoff.server import Role, services
from signoff.server.auth.roles import RIGHTS
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.contract.leases import Outcome
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems
from signoff.stores.shared.failure_isolation import ItemFailed
from signoff.stores.tokens import new_token
from tests.server.keyed import Keyed, keyed
from tests.server.namespace_bodies import BODIES
from tests.stores.question_changes import amendment
from tests.stores.scene import YES, Scene, question
from tests.support import OnThread

ROUTES = sorted(route for route in RIGHTS if route[1].startswith("/v1/"))
"""The others are of no namespace: the process, its documentation, and signing in."""

INBOX = "/v1/questions/events"  # it has no end
KEPT_FRESH = ("workers", "worker", "workflows")  # tables in which processes say that they live


@dataclass
class Two:
    """A server that holds the keys of two namespaces, of which one has something to hide."""

    here: Keyed
    file: Path
    mine: str
    theirs: str
    admin: str
    worker: str
    ids: dict[str, dict[str, str]]

    def ask(self, method: str, path: str, who: str) -> list[httpx.Response]:
        """Ask for what is called so: in the path, in the body, and in the query by each filter alone."""
        names = self.ids[who]
        filters: list[dict[str, str]] = [
            {"namespace": names["namespace"]},
            {"run_id": names["run_id"]},
            {"question_id": names["question_id"]},
            {"parent_id": names["run_id"]},
            {"session_id": names["session_id"]},
            {"assignee": f"user:{who}"},
            {"group": f"{who}-group"},
            {"workflow": f"{who}-workflow"},
        ]
        said = json.dumps(BODIES.get(path, {})).replace("{who}-resumes", names["resume_token"])
        body = json.loads(said.replace("{who}", who))
        with self.here.http(self.worker if path.startswith("/v1/store") else self.admin) as http:
            if method == "POST":
                return [http.post(path.format(**names), params=filters[0], json=body)]
            read = told if path == INBOX else httpx.Client.get
            return [read(http, path.format(**names), params=query) for query in filters]

    def plain(self, answer: httpx.Response, who: str) -> tuple[int, str]:
        """What an answer says, apart from what it was asked for and what is random."""
        text = answer.text
        for name, value in self.ids[who].items():
            text = text.replace(value, f"<{name}>")
        text = text.replace(who, "<who>")
        return answer.status_code, re.sub(
            r'"(id|secret|now|at)":("[0-9a-zA-Z_-]{20,}"|[0-9.]+)', r'"\1":_', text
        )

    def rows(self) -> dict[str, list[Any]]:
        """Everything that the other namespace has."""
        with closing(sqlite3.connect(self.file)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            found: dict[str, list[Any]] = {}
            for table in tables:
                columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                if "namespace" in columns and table not in KEPT_FRESH and "seal" not in table:
                    found[table] = db.execute(
                        f"SELECT * FROM {table} WHERE namespace = ? ORDER BY 1, 2, 3", (self.theirs,)
                    ).fetchall()
        db.close()
        return found


def told(http: httpx.Client, path: str, **more: Any) -> httpx.Response:
    """What a stream says from the beginning on, until it has nothing more to say."""
    with http.stream("GET", path, headers={"last-event-id": "-1"}, **more) as answer:
        lines: list[str] = []
        if answer.status_code == 200:
            frames = 0
            for line in answer.iter_lines():
                lines.append(line)
                is_quiet = not line and len(lines) > 1 and lines[-2].startswith("id: ")
                frames += is_quiet
                if frames == 2:  # where it begins, and where it is
                    break
        else:
            lines.append(answer.read().decode())
    return httpx.Response(answer.status_code, headers=answer.headers, text="\n".join(lines))


async def hide(store: Store, clock: Any) -> dict[str, str]:
    """Fill a namespace, and return the ids of its link and its key."""
    scene = Scene(store, clock, None)  # type: ignore[arg-type]  # nothing here needs the other clock
    work = {"group": "confidential-group", "workflow": "confidential-workflow"}

    async def leased(id: str) -> Run:
        await scene.start(id, **work, arguments='{"args": ["confidential"]}', started_by="confidential")
        [claim] = await scene.claim(group=work["group"], workflows=[work["workflow"]])
        return claim.run

    asks = '{"question": "confidential", "input_type": "approval"}'
    for id in ("theirs-run", "confidential-run"):
        run = await leased(id)
        await scene.pause(run, opens=[question(id, data=asks, assignees=("user:theirs",))])
    link = await create_link(store, "confidential-run.0", user_id="theirs", by="confidential")
    ended = await leased("theirs-new")
    await scene.complete(ended, Outcome(RunState.SUCCEEDED, '"confidential"'))
    run = await leased("approved-run")
    await scene.pause(run, opens=[question("approved-run", data=asks)])
    approved = await store.get_promise("approved-run.0")
    rule = NewRule("theirs-rule", "confidential", "mail", "{}", clock.now() + 9e8, approved.id)
    assert (await store.amend(approved.id, amendment(approved, settlement=YES, rule=rule)))[1]
    for id, session in (("a-run", "theirs-session"), ("b-run", "confidential-session")):
        await scene.start(id, **work, session_id=session)
    delivery = NewDelivery("theirs-delivery", "user:confidential", "e", 1, AuditKind.ASKED, approved.id)
    assert await store.expand("theirs-channel", None, -1, [])
    assert await store.expand("theirs-channel", -1, 1, [delivery])
    for id in ("theirs-promise", "theirs-new", "confidential-promise"):
        await store.create_promise(NewPromise(id, data='"confidential"'))
    for id, maker in (("confidential-call", None), ("theirs-call", "theirs-promise")):
        new = NewPromise(id, data='"confidential"')
        await store.open_invocation(NewInvocation(new, "poll://any@confidential-group", parent=maker))
    for id in ("theirs-schedule", "theirs-new", "confidential-schedule"):
        args = '{"args": ["confidential"]}'
        await store.put_schedule(
            NewSchedule(
                id, "confidential-workflow", "confidential-group", args, "0 9 * * *", "UTC", next_at=9e9
            )
        )
    await store.pause_group("theirs-group")
    await store.pause_group("confidential-group")
    await store.enlist(
        WorkerInfo("confidential-worker", "host", 1, 1.5, "confidential-group", store.namespace)
    )
    await store.announce(
        [
            WorkflowInfo(
                "theirs-group", "confidential-workflow", "1", is_current=True, description="confidential"
            )
        ]
    )
    good_for = {"session": "theirs-session", "run": "a-run", "questions": {"theirs-run.0": "confidential"}}
    resume_token, new = new_token(TokenKind.RESUME, "run:a-run", data=json.dumps(good_for), expires_at=9e9)
    await store.create_token(new)
    _, key = await StoredKeys(store).create_for_service("confidential", [Role.ADMIN])
    return {"link_id": link.token.id, "key_id": key.id, "resume_token": resume_token}


@pytest.fixture(scope="module", params=[("default", "acme"), ("acme", "default")], ids="-sees-no-".join)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("namespaces")
    mine, theirs = request.param
    with OnThread(lambda: keyed(folder)) as here:
        hidden = asyncio.run(hide(here.app.store.within(theirs), here.clock))
        admin, _ = here.key("boss", Role.ADMIN, namespace=mine)
        worker, _ = here.worker_key("boss", namespace=mine)
        ids = {who: _ids(who) for who in ("theirs", "nobody")}
        ids["theirs"] |= {**hidden, "namespace": theirs}
        aside = FailedItems("schedule", logging.getLogger("tests"))
        failed = (theirs, "confidential-schedule")
        aside.note(here.app.store.location, failed, ItemFailed("confidential"), here.clock.now())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(services, "PING_SECONDS", 0.05)
            yield Two(here, folder / "signoff.db", mine, theirs, admin, worker, ids)


def _ids(who: str) -> dict[str, str]:
    return {
        "question_id": f"{who}-run.0",
        "run_id": f"{who}-run",
        "promise_id": f"{who}-promise",
        "schedule_id": f"{who}-schedule",
        "name": f"{who}-group",
        "key_id": "0" * 32,
        "link_id": "1" * 32,
        "rule_id": f"{who}-rule",
        "session_id": f"{who}-session",
        "delivery_id": f"{who}-delivery",
        "channel": f"{who}-channel",
        "resume_token": "sgr_" + "0" * 43,
        "namespace": f"{who}-namespace",
    }


def test_every_route_is_asked_with_a_body_that_it_takes() -> None:
    assert {path for method, path in ROUTES if method == "POST"} == BODIES.keys()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_what_is_in_another_namespace_is_as_what_is_nowhere(two: Two, method: str, path: str) -> None:
    before = two.rows()
    assert sum(map(len, before.values())) > 15
    for theirs, nobodys in zip(two.ask(method, path, "theirs"), two.ask(method, path, "nobody"), strict=True):
        assert two.plain(theirs, "theirs") == two.plain(nobodys, "nobody")
        assert "confidential" not in theirs.text + str(theirs.headers)
        assert theirs.status_code != 500
    assert two.rows() == before


LISTS = sorted(path for method, path in ROUTES if method == "GET" and "{" not in path and path != INBOX)


@pytest.mark.parametrize("path", [path for path in LISTS if not path.startswith("/v1/store")])
@pytest.mark.parametrize("query", [{}, {"kind": "worker"}, {"state": "pending"}, {"limit": 1}], ids=str)
def test_no_list_has_what_is_in_another_namespace(two: Two, path: str, query: dict[str, Any]) -> None:
    with two.here.http(two.admin) as http:
        answer = http.get(path, params=query)
    assert answer.status_code in (200, 422), answer.text
    assert "confidential" not in answer.text


def test_users_of_a_namespace_see_it(two: Two) -> None:
    secret, _ = two.here.key("owner", Role.ADMIN, namespace=two.theirs)
    with two.here.http(secret) as http:
        for path in LISTS:
            if path in ("/v1/me", "/v1/store", "/v1/store/changes", "/v1/audit/chain", "/v1/audit/export"):
                continue
            assert "confidential" in http.get(path).text, path
        assert http.get("/v1/me").json()["namespace"] == two.theirs
        assert http.get("/v1/runs/theirs-run/journal").status_code == 200


def test_a_waiter_in_another_namespace_is_notified_at_once(two: Two) -> None:
    secret, _ = two.here.key("waiter", Role.OPERATOR, namespace="acme")
    with two.here.http(secret) as http, ThreadPoolExecutor(1) as thread:
        http.post("/v1/runs", json={"workflow": "echo", "id": "awaited"})
        waiting = thread.submit(http.get, "/v1/runs/awaited/result", params={"wait": 60})
        with two.here.http(secret) as other:
            other.post("/v1/runs/awaited/cancel")
        ended = waiting.result(timeout=60)
    assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
