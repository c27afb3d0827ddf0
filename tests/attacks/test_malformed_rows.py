"""Malformed rows: refused when workers write them; existing ones are shown as such, alone.

``SIGNOFF_MALFORMED`` is how many attacks each test makes, ``SIGNOFF_MALFORMED_SEED`` what they grow from.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from signoff import Signoff
from signoff.cli.exit_codes import ExitCode
from signoff.errors import InvalidValue
from signoff.records import NewPromise, PromiseKind
from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from tests import worker_keys
from tests.attacks.malformed import QUESTIONS, Attack, Attacker
from tests.cli.commands import signoff
from tests.postgres.databases import migrated_database
from tests.server import workflows
from tests.server.conftest import app_in, asked, serving, start
from tests.support import OnThread

pytestmark = pytest.mark.usefixtures("open_trail")

ATTACKS = int(os.environ.get("SIGNOFF_MALFORMED", "240"))
SEED = int(os.environ.get("SIGNOFF_MALFORMED_SEED", "1"))

SHOWN = 12
"""How many runs the command line shows."""

LISTS = (
    *("/v1/runs", "/v1/questions", "/v1/promises", "/v1/sessions", "/v1/schedules", "/v1/rules", "/v1/audit"),
    *("/v1/deliveries", "/v1/workflows"),
)
PLACES = ("/v1/groups", "/v1/workers", "/v1/audit/chain", "/v1/audit/export", "/v1/me", "/ready", "/metrics")
COMMANDS = (
    *(
        ["runs"],
        ["inbox"],
        ["schedules", "list"],
        ["rules", "list"],
        ["audit", "list"],
        ["groups", "list"],
    ),
    *(["deliveries", "list"], ["workers"], ["workflows"], ["sessions", "list"], ["doctor"]),
)


class Visitor:
    """Looks at everything that a server shows, and notes each reply that is a failure or is not JSON."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.failed: list[str] = []

    def get(self, path: str, **params: Any) -> Any:
        """Return what a path shows; None for a stream, or a refusal."""
        return self.send("GET", path, params=params)

    def send(self, method: str, path: str, **more: Any) -> Any:
        try:
            response = self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            self.failed.append(f"{method} {path}: {error!r}")
            return None
        if response.status_code >= 500 and not _is_too_new(response):
            self.failed.append(f"{method} {path} {more}: {response.status_code} {response.text[:300]}")
        if (
            "json" not in response.headers.get("content-type", "")
            or "ndjson" in response.headers["content-type"]
        ):
            return None
        try:
            said = json.loads(response.text, parse_constant=_refuse)
        except ValueError as error:
            self.failed.append(f"{method} {path} {more}: {error}")
            return None
        return said if response.is_success else None

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return all that a list has, page by page."""
        items: list[dict[str, Any]] = []
        after: str | None = None
        while (page := self.get(path, limit=100, **({} if after is None else {"after": after}))) is not None:
            items += page["items"]
            after = page["next"]
            if after is None:
                break
        return items

    def follow(self, path: str) -> None:
        """Read what a stream has by now."""
        try:
            with self._http.stream("GET", path, headers={"last-event-id": "0"}, timeout=0.5) as response:
                assert response.status_code < 500, response.status_code
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        json.loads(line[len("data: ") :], parse_constant=_refuse)
                    if line == "event: end":
                        break
        except httpx.ReadTimeout:
            return  # it waits for more
        except (httpx.HTTPError, ValueError, AssertionError) as error:
            self.failed.append(f"stream {path}: {error!r}")

    def look_at_all(self, random: Random) -> dict[str, dict[str, Any]]:
        """Look at each list, at each thing that one has, and at what people do with it. Returns what lists had."""
        found = {path: {str(item.get("id")): item for item in self.items(path)} for path in LISTS}
        for path in PLACES:
            self.get(path)
        for search in ({"text": "pay"}, {"assignee": "user:ana"}, {"workflow": "hostile"}):
            self.get("/v1/questions", **search)
        self.follow("/v1/questions/events")
        for id in found["/v1/runs"]:
            for part in ("", "/journal", "/result"):
                self.get(f"/v1/runs/{quote(id, safe='')}{part}")
        for id in random.choices(sorted(found["/v1/runs"]), k=4):
            self.follow(f"/v1/runs/{quote(id, safe='')}/events?live=true")
        for path in ("/v1/promises", "/v1/schedules", "/v1/sessions"):
            for id in found[path]:
                self.get(f"{path}/{quote(id, safe='')}")
        return found

    def act_on_all(self, found: dict[str, dict[str, Any]]) -> None:
        """Have people answer, withdraw and end what is malformed."""
        who = {"user_id": "ana", "groups": ["finance"]}
        for id in filter(_is_bad, found["/v1/questions"]):
            path = f"/v1/questions/{quote(id, safe='')}"
            self.get(path)
            self.get("/v1/audit", question_id=id)
            self.send("POST", f"{path}/view", json=who)
            self.send("POST", f"{path}/comments", json={**who, "text": "What is that?"})
            for value in ({"approved": True}, "a", None):
                self.send("POST", f"{path}/answer", json={**who, "value": value})
            self.send("POST", f"{path}/cancel", json={"by": "user:olga"})
            shown = self.get(path)
            if shown is not None and shown["state"] == "pending":
                self.failed.append(f"{path} cannot be withdrawn: {shown}")
        for id in filter(_is_bad, found["/v1/runs"]):
            for act in ("save", "terminate"):
                self.send("POST", f"/v1/runs/{quote(id, safe='')}/{act}", json={})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _is_bad(id: str) -> bool:
    return not id.startswith("good")


def _is_too_new(response: httpx.Response) -> bool:
    """Whether what a newer version has written is left to it."""
    return response.status_code == 503 and response.json()["type"] == "urn:signoff:QuestionTooNew"


class Errors(logging.Handler):
    """Collects errors with a traceback: unexpected ones."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.unforeseen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.unforeseen.append(f"{record.getMessage()[:200]}: {record.exc_info[1]!r}"[:400])


@contextmanager
def errors_logged() -> Iterator[Errors]:
    errors = Errors()
    logging.getLogger().addHandler(errors)
    try:
        yield errors
    finally:
        logging.getLogger().removeHandler(errors)


@contextmanager
def app_on(store: str, folder: Path) -> Iterator[Signoff]:
    if store == "sqlite":
        yield app_in(folder)
        return
    with migrated_database() as url:
        app = Signoff(PostgresStore(url))
        workflows.register(app)
        yield app


def seed(http: httpx.Client) -> None:
    """Have innocent rows of each kind."""
    for number in range(3):
        start(http, "approve", f"good-{number}", kwargs={"assignees": ["group:finance"]})
        asked(http, f"good-{number}")
    start(http, "echo", "good-echo", "hello", session_id="good-session")
    assert http.post("/v1/promises", json={"id": "good-promise"}).status_code == 201
    schedule = {"id": "good-schedule", "workflow": "echo", "cron": "0 3 * * *"}
    assert http.post("/v1/schedules", json=schedule).status_code == 200


def good_in(found: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    return {path: sorted(id for id in items if not _is_bad(id)) for path, items in found.items()}


def at_door(http: httpx.Client, failed: list[str], attacks: list[Attack]) -> Counter[str]:
    """Send attacks as a worker does. Returns what they came to."""
    outcomes: Counter[str] = Counter()
    for number, attack in enumerate(attacks, 1):
        operation = {"id": number, "namespace": "default", "do": attack.do, "arguments": attack.arguments}
        body = json.dumps({"client": "c", "floor": 0, "operations": [operation]})
        headers = {"content-type": "application/json", "authorization": f"Bearer {worker_keys.SECRET}"}
        response = http.post("/v1/store", content=body, headers=headers)
        if not response.is_success:
            outcome = f"{response.status_code}"
        else:
            outcome = json.loads(response.text).get("problem", {}).get("type", "done")
        outcomes[outcome] += 1
        if outcome.startswith("5") or outcome == "about:blank" or "StoreUnavailable" in outcome:
            failed.append(f"{attack.do} with {attack.changed}: {response.text[:300]}")
    return outcomes


def in_process(app: Signoff, attacks: list[Attack]) -> Counter[str]:
    """Write attacks with the store itself, as an earlier version did: what crosses no door is not checked there."""
    outcomes: Counter[str] = Counter()

    async def write() -> None:
        for attack in attacks:
            try:
                arguments = OPERATIONS[attack.do].read_arguments(attack.arguments)
                await getattr(app.store, attack.do)(**arguments)
                outcomes["done"] += 1
            except Exception as error:  # the caller's own
                outcomes[type(error).__name__] += 1

    asyncio.run(write())
    return outcomes


def shows_all(url: str, found: dict[str, dict[str, Any]], folder: Path) -> list[str]:
    """Run the commands that list, and those that show a run. Returns what failed of them."""
    failed: list[str] = []
    shown = [["show", id] for id in sorted(found["/v1/runs"], key=len)[:SHOWN]]
    for command in (*COMMANDS, *shown):
        ended = signoff(*command, "--url", url, cwd=folder)
        if "Traceback" in ended.err or ended.code not in (0, ExitCode.FAILED):
            failed.append(f"signoff {' '.join(command)}: {ended.code} {ended.err[-600:]}")
    return failed


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["door", "in process"])
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def test_malformed_rows_break_no_list_no_page_and_no_innocent_row(
    tmp_path: Path, store: str, way: str
) -> None:
    random = Random(SEED)
    print(f"SIGNOFF_MALFORMED_SEED={SEED} SIGNOFF_MALFORMED={ATTACKS}")
    limits = httpx.Limits(max_keepalive_connections=0)
    with (
        errors_logged() as errors,
        app_on(store, tmp_path) as app,
        OnThread(lambda: serving(app, worker_keys=worker_keys.KEYS)) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60, limits=limits) as http,
    ):
        seed(http)
        visitor = Visitor(http)
        before = good_in(visitor.look_at_all(random))
        attacks = asyncio.run(Attacker(random).attacks(app.store, ATTACKS))
        attack = partial(at_door, http, visitor.failed) if way == "door" else partial(in_process, app)
        outcomes = attack(attacks)
        found = visitor.look_at_all(random)
        visitor.failed += shows_all(server.url, found, tmp_path)
        assert good_in(found) == before
        assert all(
            "unreadable" not in item
            for items in found.values()
            for id, item in items.items()
            if not _is_bad(id)
        )
        visitor.act_on_all(found)
        unreadable = sum("unreadable" in item for items in found.values() for item in items.values())
        print(f"{outcomes}; {unreadable} rows cannot be read")
        assert not visitor.failed, f"seed {SEED}:\n" + "\n".join(visitor.failed)
        assert not errors.unforeseen, f"seed {SEED}:\n" + "\n".join(errors.unforeseen)
        assert http.get("/ready").status_code == 200
    if way == "door":
        assert unreadable == 0, f"seed {SEED}: the door has taken what cannot be read"
    else:
        assert unreadable > 0, f"seed {SEED}: nothing was malformed"


MALFORMED = [
    ('{"text": 1}', r"new\.data\.text: Input should be a valid string"),
    ("[]", r"new\.data: Input should be a valid dictionary"),
    ("{", r"new\.data: it is not valid JSON"),
    (
        QUESTIONS[0].replace('"order":"o-1"', '"order":1e999'),
        r"new\.data: it is not valid JSON: .* too large",
    ),
    (QUESTIONS[0].replace('"text"', '"text":"Refuse?","text"', 1), r"new\.data: .*duplicate key 'text'"),
    (QUESTIONS[5].replace('"remind_every": 60.0', '"remind_every": 0'), r"new\.data\.policy\.remind_every"),
    (
        QUESTIONS[5].replace('"approvals": 1', '"approvals": 3'),
        r"new\.data\.policy\.quorum: 3 of 2 is not a quorum",
    ),
    (QUESTIONS[0].replace('"type":"object"', '"type":"nothing"', 1), r"new\.data\.answer_schema"),
]


@pytest.mark.parametrize(("data", "refusal"), MALFORMED)
def test_an_unreadable_question_is_refused_by_the_store_api(tmp_path: Path, data: str, refusal: str) -> None:
    """The refusal names the field."""

    async def ask(url: str) -> None:
        store = RemoteStore(url, key=worker_keys.SECRET)
        await store.open()
        try:
            with pytest.raises(InvalidValue, match=refusal):
                await store.create_promise(NewPromise("bad", PromiseKind.QUESTION, data=data))
            await store.create_promise(NewPromise("good", PromiseKind.QUESTION, data=QUESTIONS[5]))
        finally:
            await store.close()

    with OnThread(lambda: serving(app_in(tmp_path), worker_keys=worker_keys.KEYS)) as server:
        asyncio.run(ask(server.url))
