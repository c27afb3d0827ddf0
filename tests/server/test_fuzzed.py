"""The whole API, fuzzed from its own description: every reply matches the description.

``SIGNOFF_API_EXAMPLES`` is how many requests are made up for each operation, besides those that its description alone
brings about; ``SIGNOFF_API_SEED`` is what they grow from.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff.people.questions.question import Question
from signoff.records import (
    AuditKind,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewToken,
    PromiseKind,
    RunState,
    TokenKind,
)
from signoff.records.deliveries import DeliveryState, NewDelivery, Report
from signoff.server import Server, TrustedProxy
from signoff.server.openapi.examples import (
    CHANNEL,
    KEY,
    PROMISE_ID,
    QUESTION_ID,
    RUN_ID,
    SCHEDULE_ID,
    SESSION_ID,
)
from signoff.server.routes import runs, standalone_questions
from signoff.stores.contract.store import Store
from signoff.stores.tokens import hash_of, new_token
from tests.server.conftest import app_in, asked, serving, start
from tests.server.described import operations
from tests.server.fuzzing_notes import SNAPSHOT, resume_token_of
from tests.server.proxied import PROXY, through
from tests.stores.question_changes import amendment
from tests.stores.scene import YES
from tests.support import OnThread, pauses, running

EXAMPLES = int(os.environ.get("SIGNOFF_API_EXAMPLES", "3"))
SEED = os.environ.get("SIGNOFF_API_SEED", "1")
ENDLESS = ["follow_journal", "read_timeline", "follow_inbox"]
"""Operations whose replies have no end, or none while they follow a run."""

OF_KEYS = ["POST /v1/keys", "GET /v1/keys", "POST /v1/keys/{key_id}/rotate", "POST /v1/keys/{key_id}/revoke"]
OF_THE_TRAIL = ["GET /v1/audit", "GET /v1/audit/chain", "GET /v1/audit/export"]

HERE = Path(__file__).parent


@contextmanager
def impatient() -> Iterator[None]:
    """No request waits long for a result."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (runs, standalone_questions):
            patch.setattr(module, "LONGEST_WAIT_SECONDS", 0.001)
        yield


def seed(http: httpx.Client) -> None:
    """Have a server know something of everything, under the ids of the examples."""
    start(http, "approve", RUN_ID, kwargs={"assignees": ["group:finance"]})
    assert asked(http, RUN_ID) == QUESTION_ID
    for workflow in ("ask", "choose", "refund", "skip"):
        start(http, workflow, f"{workflow}-1")
        asked(http, f"{workflow}-1")
    start(http, "echo", "echoed", "hello")
    assert http.post("/v1/promises", json={"id": PROMISE_ID}).status_code == 201
    schedule = {"id": SCHEDULE_ID, "workflow": "echo", "cron": "0 3 * * *"}
    assert http.post("/v1/schedules", json=schedule).status_code == 200


async def keep(store: Store, described: dict[str, Any], *, keys: bool = True) -> None:
    """Have a store keep, for each operation on one of something, one under that operation's id.

    So that none finds its own changed or gone by another one: ``fuzzing_notes.py`` has the examples be about it. With
    ``keys=False`` there are no keys: with one, every door asks.
    """
    for _, path, operation in operations(described):
        for parameter, kept in KEPT.items():
            if f"{{{parameter}}}" in path and (keys or kept is not keep_key):
                await kept(store, operation["operationId"])
        if path.startswith("/v1/resume-tokens/"):
            await keep_resume_token(store, operation["operationId"])


async def keep_run(store: Store, id: str) -> None:
    workflow = "forget" if id == "retry_run" else "ask"
    session_id = SESSION_ID if id == "create_resume_token" else None
    arguments = '{"args": [], "kwargs": {}}'
    await store.create_run(NewRun(id, workflow, "default", arguments, session_id=session_id))
    state = RunState.FAILED if id == "retry_run" else RunState.PAUSED
    while (await store.get_run(id)).state is not state:
        await asyncio.sleep(0.01)


async def keep_session(store: Store, id: str) -> None:
    await store.create_run(NewRun(f"{id}-1", "ask", "default", '{"args": [], "kwargs": {}}', session_id=id))


async def keep_question(store: Store, id: str) -> None:
    data, due_at = Question.make("Refund o-1?").to_json(), store.clock.now() + 3600
    new = NewPromise(id, PromiseKind.QUESTION, data=data, assignees=("group:finance",), due_at=due_at)
    await store.create_promise(new)


async def keep_resume_token(store: Store, id: str) -> None:
    await keep_question(store, id)
    shown = {id: Question.from_json((await store.get_promise(id)).data or "null").digest}
    data = json.dumps({"session": SESSION_ID, "run": RUN_ID, "questions": shown})
    at = store.clock.now() + 3600
    hash = hash_of(resume_token_of(id))
    await store.create_token(NewToken(id, TokenKind.RESUME, hash, f"run:{RUN_ID}", data=data, expires_at=at))


async def keep_promise(store: Store, id: str) -> None:
    await store.create_promise(NewPromise(id))


async def keep_schedule(store: Store, id: str) -> None:
    at = store.clock.now() + 3600
    await store.put_schedule(NewSchedule(id, "echo", "default", "{}", "0 3 * * *", "UTC", next_at=at))


async def keep_rule(store: Store, id: str) -> None:
    await keep_question(store, f"{id}-approved")
    approved = await store.get_promise(f"{id}-approved")
    rule = NewRule(id, "ana", "refund", "{}", store.clock.now() + 3600, approved.id)
    assert (await store.amend(approved.id, amendment(approved, settlement=YES, rule=rule)))[1]


async def keep_link(store: Store, id: str) -> None:
    at = store.clock.now() + 3600
    await store.create_token(
        new_token(TokenKind.LINK, "user:ana", id=id, question_id=QUESTION_ID, expires_at=at)[1]
    )


async def keep_key(store: Store, id: str) -> None:
    await store.create_token(new_token(TokenKind.API_KEY, KEY.subject, id=id, data=KEY.data)[1])


async def keep_delivery(store: Store, id: str) -> None:
    at = await store.read_cursor(CHANNEL)
    assert await store.expand(CHANNEL, at, 0, [NewDelivery(id, "", "e", 0, AuditKind.ASKED, QUESTION_ID)])
    await store.claim_deliveries(CHANNEL, 1, 60.0)
    await store.finish_delivery(id, 1, Report(DeliveryState.DEAD, error="connection refused"))


KEPT: dict[str, Callable[[Store, str], Awaitable[None]]] = {
    "run_id": keep_run,
    "session_id": keep_session,
    "question_id": keep_question,
    "promise_id": keep_promise,
    "schedule_id": keep_schedule,
    "rule_id": keep_rule,
    "link_id": keep_link,
    "key_id": keep_key,
    "delivery_id": keep_delivery,
}
"""How to keep one of what a path names."""


async def saved_elsewhere(folder: Path) -> dict[str, Any]:
    """The snapshot of a run that waits in another store."""
    app = app_in(folder)
    async with running(app) as client:
        await client.start("ask", id="saved-elsewhere")
        await pauses(app, "saved-elsewhere")
        return await client.save("saved-elsewhere")


def fuzz(
    server: Server,
    description: bytes,
    folder: Path,
    unanswered: Mapping[str, str],
    hooks: str = "tests.server.fuzzing_notes",
    phases: str = "examples,coverage,fuzzing",
) -> None:
    """Have schemathesis try a server, and fail if it finds anything.

    Args:
        server: Which one.
        description: Its description.
        folder: Where to write.
        unanswered: Operations that need not come to an answer that is no refusal, and why.
        hooks: The module that it loads.
        phases: What it does. ``coverage``, which tries each limit of each schema, takes the most time by far.
    """
    notes = folder / "notes"
    schema = folder / "openapi.json"
    schema.write_bytes(description)
    (folder / "elsewhere").mkdir()
    (folder / SNAPSHOT).write_text(json.dumps(asyncio.run(saved_elsewhere(folder / "elsewhere"))))
    command = ["--config-file", str(HERE / "schemathesis.toml"), "--no-color", "run", str(schema)]
    options = ["--url", server.url, "--seed", SEED, "--max-examples", str(EXAMPLES), "--warnings", "off"]
    options += ["--phases", phases, "--continue-on-failure"]
    options += [option for name in ENDLESS for option in ("--exclude-operation-id", name)]
    found = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *command, *options],
        env={
            **os.environ,
            "NO_PROXY": "127.0.0.1",
            "PYTHONPATH": str(HERE.parents[1]),
            "SIGNOFF_API_NOTES": str(notes),
            "SCHEMATHESIS_HOOKS": hooks,
        },
        cwd=folder,  # it leaves files there
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, f"SIGNOFF_API_SEED={SEED}\n{found.stdout}\n{found.stderr}"
    answered = {line.partition(" ")[2] for line in notes.read_text().splitlines() if line.startswith("2")}
    tried = {
        f"{method} {path}"
        for method, path, operation in operations(json.loads(description))
        if operation["operationId"] not in ENDLESS
    }
    refused = sorted(tried - answered - unanswered.keys())
    assert not refused, "they only ever refuse:\n" + "\n".join(refused)


@pytest.mark.long
@pytest.mark.timeout(300 + 60 * EXAMPLES)
def test_on_a_laptop_nothing_comes_back_that_is_not_described(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with impatient(), OnThread(lambda: serving(app)) as server:
        with httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
            seed(http)
            description = http.get("/openapi.json").content
        asyncio.run(keep(app.store, json.loads(description), keys=False))
        unanswered = dict.fromkeys([*OF_KEYS, *OF_THE_TRAIL], "they need an authenticated caller")
        phases = "examples,fuzzing"  # the limits of the schemas are the same behind a proxy
        fuzz(server, description, tmp_path, unanswered, phases=phases)


@pytest.mark.long
@pytest.mark.timeout(300 + 60 * EXAMPLES)
def test_behind_a_proxy_every_reply_is_a_described_one_for_every_caller(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    proxy = TrustedProxy(PROXY.user_header, PROXY.groups_header, PROXY.roles_header, default_role=None)
    with impatient(), OnThread(lambda: serving(app, proxy=proxy)) as server:
        with through(server, "root", roles="admin") as http:
            seed(http)
            description = http.get("/openapi.json").content
        asyncio.run(keep(app.store, json.loads(description)))
        fuzz(server, description, tmp_path, {}, "tests.server.fuzzing_people")
