"""Hidden values leave the server by no route, and an approval without seeing them approves the original values."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

import signoff
from signoff import Action, Context, Signoff
from signoff.client.http_backend import HttpBackend
from signoff.codec.exceptions import encode_error
from signoff.errors import InvalidValue
from signoff.people.audit.hash_chain import verify
from signoff.people.notifications.channels.channel import Channel
from signoff.people.questions.edits import edits_between
from signoff.records import (
    AuditKind,
    Entry,
    EntryKind,
    NewRun,
    Promise,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
)
from signoff.records.paging import AuditFilter
from signoff.redaction import Redaction
from signoff.redaction.answers import restored
from signoff.server import Server, create_server_app
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.server.conftest import asked, ended, events, fields, kind, path_of, serving, start
from tests.server.recording_channel import RecordingChannel
from tests.support import OnThread, in_asyncio, new_app

pytestmark = pytest.mark.usefixtures("open_trail")

SECRET = "S3CR3T"
"""What every hidden value has in it."""

PATHS = ("card.number", "iban", "otp", "fetch_token", "['tax id']", "lines.code", "$.pin")


class Line(BaseModel):
    code: str
    cents: int


class Transfer(BaseModel):
    to: str
    iban: str
    lines: list[Line]


class Declined(Exception):
    def __init__(self, iban: str) -> None:
        super().__init__(f"the bank declined {iban}")
        self.iban = iban


TRANSFER: dict[str, Any] = {
    "to": "bob",
    "iban": f"{SECRET}-iban",
    "lines": [{"code": f"{SECRET}-a", "cents": 1}, {"code": f"{SECRET}-b", "cents": 2}],
}


async def pay(ctx: Context, card: dict[str, Any], transfer: Transfer, fails: bool = False) -> Any:
    """Everything that may be hidden goes through it."""
    token = await ctx.step("fetch_token", lambda: f"{SECRET}-token")
    await ctx.progress(f"pays to {transfer.iban}", iban=transfer.iban)
    arguments = transfer.model_dump()
    answer = await ctx.wait_for_user(
        f"Pay to {transfer.iban}?",
        proposal=transfer,
        proposal_type=Transfer,
        metadata={"tax id": f"{SECRET}-tax", "shop": "north"},
        action=Action("pay", arguments),
    )
    if fails:
        raise Declined(transfer.iban)
    got = await ctx.wait_for_signal("otp")
    return {"token": token == f"{SECRET}-token", "got": got == f"{SECRET}-otp", "iban": transfer.iban,
            "approved": None if answer.proposal is None else answer.proposal.model_dump()}  # fmt: skip


async def fill(ctx: Context) -> Any:
    answer = await ctx.wait_for_user(
        "Which account?", input_type="form", answer_type=Transfer, default=Transfer(**TRANSFER)
    )
    return {"matches": answer.value.model_dump() == TRANSFER, "to": answer.value.to}


MUTTERED = threading.Event()


async def mutter(ctx: Context) -> None:
    def speak() -> None:
        signoff.current_step().live(f"the iban is {SECRET}")
        MUTTERED.wait(60)

    await ctx.step(speak)


async def again(ctx: Context, iban: str, left: int = 1) -> Any:
    if left:
        ctx.continue_as_new(iban, left - 1)
    return "done"


class Place:
    """A server that hides things, another one that knows no workflows, and the file that they share."""

    def __init__(self, app: Signoff, server: Server, http: httpx.Client, recorder: RecordingChannel) -> None:
        self.app = app
        self.server = server
        self.http = http
        self.recorder = recorder

    def ask(self, workflow: str = "pay", **kwargs: Any) -> str:
        if workflow == "pay":
            kwargs = {"card": {"number": f"{SECRET}-card"}, "transfer": TRANSFER, **kwargs}
        run = f"run-{uuid.uuid4()}"
        start(self.http, workflow, run, kwargs=kwargs, session_id=f"c-{run}")
        for event, entry in events(self.http, run):
            if event == "message" and (entry["kind"], entry.get("call")) == ("opened", "question"):
                return f"{run}.{entry['n']}"
        raise AssertionError("nothing was asked")

    def question(self, id: str) -> dict[str, Any]:
        return self.http.get(f"/v1/questions/{path_of(id)}").json()

    def answer(self, id: str, value: Any, **more: Any) -> httpx.Response:
        return self.http.post(
            f"/v1/questions/{path_of(id)}/answer", json={"value": value, "user_id": "ana", **more}
        )

    def finish(self, id: str) -> Any:
        """Send what the run waits for, and return its result."""
        run = id.rpartition(".")[0]
        self.http.post(f"/v1/runs/{run}/signals", json={"name": "otp", "value": f"{SECRET}-otp"})
        return ended(self.http, run)["result"]

    def kept(self, id: str) -> dict[str, Any]:
        """What settled a question, as the store has it."""
        assert isinstance(self.app.store, SqliteStore)
        with closing(sqlite3.connect(self.app.store.path)) as file:
            [(value,)] = file.execute("SELECT value FROM promises WHERE id = ?", (id,)).fetchall()
        return json.loads(value)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    app = new_app(tmp_path_factory.mktemp("redaction"))
    for workflow in (pay, fill, again, mutter):
        app.workflow(workflow)
    recorder = RecordingChannel()
    channel = Channel("hook", recorder, events=frozenset(AuditKind))
    with (
        OnThread(lambda: serving(app, redact=PATHS, channels=[channel])) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        yield Place(app, served, http, recorder)


def leaks(shown: str) -> list[str]:
    """Return the places of a hidden value in the messages, with the text around it."""
    return re.findall(rf".{{0,80}}{SECRET}.{{0,20}}", shown)


# Nothing leaves


def test_no_route_that_reads_shows_what_is_hidden(place: Place) -> None:
    id = place.ask()
    run = id.rpartition(".")[0]
    link = place.http.post(f"/v1/questions/{path_of(id)}/links", json={"user_id": "ana"}).json()
    page = place.http.get(link["path"]).text
    assert place.answer(id, True, alike={"seconds": 60}).status_code == 200
    place.finish(id)
    failed = place.ask(fails=True)
    place.answer(failed, True)
    assert ended(place.http, failed.rpartition(".")[0])["state"] == "failed"
    place.http.post("/v1/promises", json={"id": f"p-{run}", "data": {"iban": f"{SECRET}-p"}})
    settled = place.http.post(f"/v1/promises/p-{run}/resolve", json={"value": {"iban": f"{SECRET}-v"}})
    scheduled = place.http.post(
        "/v1/schedules",
        json={
            "id": f"s-{run}",
            "workflow": "pay",
            "cron": "0 3 * * *",
            "kwargs": {"card": {"number": f"{SECRET}-card"}, "transfer": TRANSFER},
        },
    )
    shown = page + settled.text + scheduled.text
    names = {
        "run_id": run,
        "session_id": f"c-{run}",
        "question_id": path_of(id),
        "promise_id": path_of(f"p-{run}"),
        "schedule_id": f"s-{run}",
    }
    looked = 0
    for route, methods in place.http.get("/openapi.json").json()["paths"].items():
        if "get" not in methods or route in ("/docs/{asset}", "/v1/questions/events"):
            continue
        for each in (names, {**names, "run_id": failed.rpartition(".")[0], "question_id": path_of(failed)}):
            response = place.http.get(route.format_map(each))
            looked += response.status_code == 200
            shown += response.text
    assert looked > 30
    assert leaks(shown) == []
    assert shown.count("[redacted") > 30
    assert "north" in shown


def test_the_streams_of_runs_and_of_the_inbox_show_nothing_hidden(place: Place) -> None:
    with place.http.stream("GET", "/v1/questions/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        id = place.ask()
        shown = ""
        while id not in shown:
            shown += next(lines)
    place.answer(id, True)
    place.finish(id)
    shown += json.dumps(list(events(place.http, id.rpartition(".")[0])))
    assert leaks(shown) == []
    assert "[redacted" in shown


def test_no_live_text_is_sent_where_payloads_are_hidden(place: Place) -> None:
    run = f"run-{uuid.uuid4()}"
    start(place.http, "mutter", run)
    assert isinstance(place.app.store, SqliteStore)
    with closing(sqlite3.connect(place.app.store.path)) as file:
        deadline = time.monotonic() + 60
        while not file.execute("SELECT text FROM live WHERE run_id = ?", (run,)).fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with place.http.stream("GET", f"/v1/runs/{run}/events", params={"live": True}) as stream:
        lines = stream.iter_lines()
        shown = next(lines)
        MUTTERED.set()
        shown += "".join(lines)
    assert "event: end" in shown
    assert ("event: live" in shown, leaks(shown)) == (False, [])


def test_notifications_show_nothing_hidden_and_bind_the_same_digest(place: Place) -> None:
    id = place.ask()
    place.answer(id, {"approved": True, "edited": {**place.question(id)["data"]["proposal"], "to": "eve"}})
    place.finish(id)
    deadline = time.monotonic() + 60
    while not any(
        n.delivery.question_id == id and n.event.kind is AuditKind.RESOLVED for n in place.recorder.notices
    ):
        assert time.monotonic() < deadline
        place.http.get("/v1/audit", params={"question_id": id})
    said = [notice for notice in place.recorder.notices if notice.delivery.question_id == id]
    for notice in said:
        assert SECRET not in json.dumps([notice.parts, notice.title, notice.details, notice.data])
        assert SECRET not in repr(notice.question)
        assert notice.data["digest"] == place.question(id)["data"]["digest"]


def test_a_hidden_value_is_hidden_in_the_texts_beside_it_too(place: Place) -> None:
    id = place.ask(fails=True)
    assert place.question(id)["data"]["text"] == "Pay to [redacted]?"
    place.answer(id, True)
    error = ended(place.http, id.rpartition(".")[0])["error"]
    assert error["message"] == "the bank declined [redacted]"
    assert SECRET not in json.dumps(error)


def test_positional_arguments_are_hidden_by_name_or_whole_if_unknown(place: Place, tmp_path: Path) -> None:
    run = f"run-{uuid.uuid4()}"
    shown = start(place.http, "again", run, f"{SECRET}-iban")
    assert shown["arguments"] == {"args": ["[redacted]"], "kwargs": {}}
    ended(place.http, run)
    journal = place.http.get(f"/v1/runs/{run}/journal").json()["items"]
    assert [each["value"]["args"] for each in journal if each["kind"] == "continued"] == [["[redacted]", 0]]
    stranger = new_app(tmp_path)
    with (
        OnThread(lambda: serving(stranger, redact=["iban", "card.number"])) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        shown = start(http, "unknown", "r", "S3CR3T", {"number": "S3CR3T", "x": 1})
    assert shown["arguments"]["args"] == ["[redacted]", "[redacted]"]


def test_a_server_that_hides_nothing_shows_everything(tmp_path: Path) -> None:
    with (
        OnThread(lambda: serving(new_app(tmp_path))) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        assert start(http, "any", "r", kwargs={"iban": "x"})["arguments"]["kwargs"] == {"iban": "x"}


@in_asyncio
async def test_workers_from_afar_get_the_very_values(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    async with serving(app, redact=PATHS, worker_keys=worker_keys.KEYS) as server:
        store = RemoteStore(server.url, key=worker_keys.SECRET)
        await store.open()
        await store.create_run(NewRun("r", "pay", "elsewhere", '{"args":[],"kwargs":{"iban":"S3CR3T"}}'))
        run = await store.get_run("r")
        await store.close()
    assert json.loads(run.arguments)["kwargs"] == {"iban": SECRET}


def test_words_are_looked_for_in_what_is_shown_alone(place: Place) -> None:
    id = place.ask()
    run = id.rpartition(".")[0]
    raw = place.app.store
    assert isinstance(raw, SqliteStore)
    with closing(sqlite3.connect(raw.path)) as file:
        [(data,)] = file.execute("SELECT data FROM promises WHERE id = ?", (id,)).fetchall()
    assert SECRET in json.loads(data)["text"]

    def found(text: str) -> list[str]:
        items = place.http.get("/v1/questions", params={"text": f"{run} {text}"}).json()["items"]
        return [item["id"] for item in items]

    assert (found(""), found(SECRET)) == ([id], [])


def test_a_journal_that_is_read_on_calls_no_answered_question_by_its_text(place: Place) -> None:
    id = place.ask()
    place.answer(id, True)
    place.finish(id)
    run, _, n = id.rpartition(".")
    page = place.http.get(f"/v1/runs/{run}/journal", params={"after": 5})
    assert leaks(page.text) == []
    whole = place.http.get(f"/v1/runs/{run}/journal").json()["items"]
    assert [each["name"] for each in whole if each.get("n") == int(n)] == ["Pay to [redacted]?"] * 2


def test_a_timeline_shows_what_the_journal_shows(place: Place) -> None:
    id = place.ask()
    open_stream = place.http.get(f"/v1/runs/{id.rpartition('.')[0]}/timeline").text
    place.answer(id, True)
    place.finish(id)
    stream = place.http.get(f"/v1/runs/{id.rpartition('.')[0]}/timeline").text
    assert leaks(open_stream + stream) == []
    assert "Pay to [redacted]?" in stream


# Approving and editing what is hidden


def test_a_placeholder_that_comes_back_in_an_edit_means_the_very_value(place: Place) -> None:
    id = place.ask()
    question = place.question(id)["data"]
    assert question["proposal"]["iban"] == "[redacted /iban]"
    assert question["proposal"]["lines"][1] == {"code": "[redacted /lines/1/code]", "cents": 2}
    edited = {**question["proposal"], "to": "eve"}
    response = place.answer(id, {"approved": True, "edited": edited}, digest=question["digest"])
    assert response.status_code == 200, response.text
    kept = place.kept(id)
    assert kept["proposal"] == {**TRANSFER, "to": "eve"}
    assert kept["edits"] == [{"op": "replace", "path": "/to", "value": "eve", "old": "bob"}]
    place.finish(id)


def test_the_diff_of_an_edited_secret_shows_the_edit_and_neither_value(place: Place) -> None:
    id = place.ask()
    edited = {**place.question(id)["data"]["proposal"], "iban": f"{SECRET}-other"}
    response = place.answer(id, {"approved": True, "edited": edited})
    [edit] = response.json()["value"]["edits"]
    assert edit == {"op": "replace", "path": "/iban", "value": "[redacted]", "old": "[redacted]"}
    assert place.kept(id)["proposal"]["iban"] == f"{SECRET}-other"
    trail = place.http.get("/v1/audit", params={"question_id": id})
    history = place.http.get(f"/v1/questions/{id}/history")
    assert "resolved" in trail.text
    assert "resolved" in history.text
    assert SECRET not in trail.text + history.text
    place.finish(id)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"to": "[redacted /iban]"}, "edited.to"),
        ({"to": "[redacted]"}, "edited.to"),
        ({"to": "to [redacted /iban] it goes"}, "edited.to"),
        ({"iban": "[redacted]"}, "edited.iban"),
        ({"iban": "[redacted /lines/0/code]"}, "edited.iban"),
        ({"lines": [{"code": "[redacted /lines/1/code]", "cents": 2}]}, "edited.lines.0.code"),
        (
            {"lines": [{"code": f"[redacted /lines/{n}/code]", "cents": 1} for n in (0, 1, 2)]},
            "edited.lines.2.code",
        ),
    ],
    ids=str,
)
def test_a_placeholder_that_stands_for_nothing_where_it_is_is_refused(
    place: Place, change: dict[str, Any], wrong: str
) -> None:
    id = place.ask()
    before = place.question(id)
    response = place.answer(id, {"approved": True, "edited": {**before["data"]["proposal"], **change}})
    assert (response.status_code, kind(response), list(fields(response))) == (422, "WrongAnswer", [wrong])
    assert SECRET not in response.text
    after = place.question(id)
    assert (after["state"], after["data"]) == ("pending", before["data"])
    trail = place.http.get("/v1/audit", params={"question_id": id}).json()["items"]
    assert [event["kind"] for event in trail] == ["asked", "refused"]


def test_a_refusal_quotes_no_value_that_was_put_back(place: Place) -> None:
    id = place.ask()
    proposal = place.question(id)["data"]["proposal"]
    lines = [{**proposal["lines"][0], "cents": "many"}, {**proposal["lines"][1], "more": 1}]
    response = place.answer(id, {"approved": True, "edited": {**proposal, "lines": lines, "iban": [SECRET]}})
    assert response.status_code == 422
    assert SECRET not in response.text
    assert fields(response)["edited.lines.0.cents"] == '"many" is not of type "integer"'
    trail = place.http.get("/v1/audit", params={"question_id": id})
    assert SECRET not in trail.text


def test_several_answers_at_once_mean_the_very_values_too(place: Place) -> None:
    good, bad = place.ask(), place.ask()
    edited = {**place.question(good)["data"]["proposal"], "to": "eve"}
    said = [
        {"question_id": good, "value": {"approved": True, "edited": edited}},
        {"question_id": bad, "value": {"approved": True, "edited": {**edited, "to": "[redacted]"}}},
    ]
    response = place.http.post("/v1/questions/answers", json={"user_id": "ana", "answers": said})
    first, second = response.json()["items"]
    assert place.kept(good)["proposal"] == {**TRANSFER, "to": "eve"}
    assert second["problem"]["fields"][0]["field"] == "edited.to"
    assert SECRET not in response.text
    assert first["question"]["value"]["proposal"]["iban"] == "[redacted]"


def test_answers_by_a_resume_token_mean_the_very_values_too(place: Place) -> None:
    id = place.ask()
    run = id.rpartition(".")[0]
    session = {"session_id": f"c-{run}"}
    made = place.http.post(f"/v1/runs/{run}/resume-tokens", json={**session, "questions": [id]})
    said = {**session, "resume_token": made.json()["resume_token"], "user_id": "ana"}

    def give(verb: str, change: dict[str, Any]) -> httpx.Response:
        edited = {**place.question(id)["data"]["proposal"], **change}
        answers = [{"question_id": id, "value": {"approved": True, "edited": edited}}]
        return place.http.post(f"/v1/resume-tokens/{verb}", json={**said, "answers": answers})

    wrong = [{"to": "[redacted]"}, {"iban": [SECRET]}, {"lines": [{"code": [SECRET], "cents": 1}]}]
    for refused in (give(verb, change) for verb in ("check", "answer") for change in wrong):
        assert (refused.status_code, kind(refused)) == (422, "WrongAnswer")
        assert SECRET not in refused.text
    assert give("check", {"to": "eve"}).status_code == 200
    answered = give("answer", {"to": "eve"})
    assert answered.status_code == 200
    assert place.kept(id)["proposal"] == {**TRANSFER, "to": "eve"}
    assert SECRET not in answered.text + place.http.get("/v1/audit", params={"question_id": id}).text
    place.finish(id)


def test_what_a_form_begins_with_comes_back_as_the_very_values(place: Place) -> None:
    id = place.ask("fill")
    default = place.question(id)["data"]["default"]
    assert default["iban"] == "[redacted /iban]"
    assert place.answer(id, default).status_code == 200
    assert ended(place.http, id.rpartition(".")[0])["result"] == {"matches": True, "to": "bob"}


def filled(page: str) -> dict[str, str]:
    """What a link's page sends as it is."""
    sent: dict[str, str] = {}
    for name, value in re.findall(r'<input[^>]*name="([^"]+)"[^>]*?value="([^"]*)"', page):
        sent.setdefault(name, unescape(value))
    for name, text in re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL):
        sent[name] = unescape(text)
    return sent


def test_a_links_page_shows_placeholders_and_returns_the_original_values(place: Place) -> None:
    id = place.ask()
    link = place.http.post(f"/v1/questions/{path_of(id)}/links", json={"user_id": "ana"}).json()
    page = place.http.get(link["path"]).text
    assert SECRET not in page
    assert "[redacted /iban]" in page
    sent = filled(page)
    name = next(name for name, text in sent.items() if text == "bob")
    wrong = place.http.post(link["path"], data={**sent, name: "[redacted /iban]", "decision": "1"})
    assert wrong.status_code == 422
    assert SECRET not in wrong.text
    done = place.http.post(link["path"], data={**sent, name: "eve", "decision": "1"})
    assert done.status_code == 200, done.text
    assert place.kept(id)["proposal"] == {**TRANSFER, "to": "eve"}
    place.finish(id)


def test_a_non_assignee_is_refused_whatever_placeholders_they_send(place: Place) -> None:
    id = place.ask()
    place.http.post(f"/v1/questions/{path_of(id)}/delegate", json={"user_id": "ana", "to": ["user:bob"]})
    edited = {**place.question(id)["data"]["proposal"], "to": "[redacted]"}
    assert kind(place.answer(id, {"approved": True, "edited": edited})) == "NotAllowed"
    place.answer(id, True, user_id="bob")
    assert kind(place.answer(id, {"approved": True, "edited": edited}, user_id="bob")) == "AlreadySettled"


# The trail


@in_asyncio
async def test_partly_hidden_events_say_so_and_the_chain_is_checked_at_the_store(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)
    app.workflow(pay)
    async with serving(app, redact=PATHS) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
            transfer = {"card": {"number": SECRET}, "transfer": TRANSFER}
            await http.post("/v1/runs", json={"workflow": "pay", "id": "r", "kwargs": transfer})
            while len((await http.get("/v1/audit/chain")).json()["items"]) < 1:
                await asyncio.sleep(0.05)
            backend = HttpBackend(server.url)
            await backend.open()
            export = (await http.get("/v1/audit/export")).text
            far = await verify(backend)
            await backend.close()
        near = await verify(app.store)
        [event] = (await app.store.list_audit(AuditFilter())).items
        [line] = map(json.loads, export.splitlines())
        assert line["event"]["redacted"] is True
        assert SECRET not in export
        assert SECRET in (event.details or "")
        assert event.redacted is None
        assert (far.problems, far.unchecked, far.head) == ((), 1, near.head)
        assert (near.problems, near.unchecked) == ((), 0)


# Paths


@pytest.mark.parametrize("path", ["", "card[", "$", "a[?@.b]", "a[-1]", "a[1:2]", "first name", "a-b"])
def test_a_path_that_is_none_is_refused_at_the_start_by_name(tmp_path: Path, path: str) -> None:
    app = new_app(tmp_path)
    with pytest.raises(InvalidValue) as refused:
        create_server_app(app, redact=["iban", path])
    assert refused.value.path == "redact"
    assert repr(path) in refused.value.reason


PAYLOAD: dict[str, Any] = {
    "password": "top",
    "card": {"number": 1, "old": {"number": 2}, "so-so": 3},
    "cards": [{"number": 4}, {"number": 5}],
    "tax id": 6,
    "a.b": {"c": 7},
    "user": {"password": None, "pin": 8},
    "pin": {"whole": 9},
}


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("password", ["/password", "/user/password"]),
        ("**.password", ["/password", "/user/password"]),
        ("*.password", ["/user/password"]),
        ("card.number", ["/card/number"]),
        ("card.**.number", ["/card/number", "/card/old/number"]),
        ("cards.number", ["/cards/0/number", "/cards/1/number"]),
        ("cards[1].number", ["/cards/1/number"]),
        ("['tax id']", ["/tax id"]),
        ("['a.b'].c", ["/a.b/c"]),
        ("card['so-so','number']", ["/card/number", "/card/so-so"]),
        ("$.pin", ["/pin"]),
        ("$.cards.number", []),
        ("$.cards[*].number", ["/cards/0/number", "/cards/1/number"]),
        ("$..pin", ["/user/pin", "/pin"]),
        ("$.*", [f"/{name}" for name in PAYLOAD]),
        ("Password", []),
    ],
)
def test_a_path_hides_what_the_table_of_the_docs_says(path: str, hidden: list[str]) -> None:
    kwargs = json.dumps({"args": [], "kwargs": PAYLOAD})
    run = Run("default", "r", "pay", "default", kwargs, RunState.READY, 0.0)
    shown = json.loads(Redaction([path]).shown(run).arguments)["kwargs"]
    edits = edits_between(PAYLOAD, shown)
    assert sorted(edit["path"] for edit in edits) == sorted(hidden)
    assert all(edit.get("value") == "[redacted]" for edit in edits)
    assert Redaction([path, "nowhere", "no.where[3]"]).shown(run) == Redaction([path]).shown(run)


def test_a_record_without_anything_hidden_is_the_very_record() -> None:
    run = Run("default", "r", "pay", "default", '{"args": [],   "kwargs": {"a": 1}}', RunState.READY, 0.0)
    assert Redaction(()).shown(run) is run
    assert Redaction(["iban"]).shown(run) is run


def test_what_is_no_json_is_hidden_whole_where_something_is_hidden() -> None:
    run = Run("default", "r", "pay", "default", "S3CR3T", RunState.READY, 0.0, result='{"iban":1}')
    assert Redaction(["iban"]).shown(run).arguments == '"[redacted]"'


def test_policy_defaults_and_option_details_are_hidden_not_their_values() -> None:
    data = {
        "text": "Which of 9999?",
        "input_type": "select",
        "options": [{"value": "one", "label": "One", "account": {"iban": "9999"}}],
        "policy": {"timeout_answer": {"approved": True, "proposal": {"iban": "8888"}}},
        "default": {"other": {"iban": "7777"}},
        "digest": "d",
    }
    question = Promise(
        "default", "q", PromiseKind.QUESTION, PromiseState.PENDING, 0.0, data=json.dumps(data), note="9999"
    )
    shown = Redaction(["iban", "value", "label"]).shown(question)
    assert json.loads(shown.data or "") == {
        "text": "Which of [redacted]?",
        "input_type": "select",
        "options": [{"value": "one", "label": "One", "account": {"iban": "[redacted]"}}],
        "policy": {"timeout_answer": {"approved": True, "proposal": {"iban": "[redacted]"}}},
        "default": {"other": {"iban": "[redacted /other/iban]"}},
        "digest": "d",
    }
    assert shown.note == "[redacted]"


def test_signals_carried_into_a_new_generation_stay_hidden() -> None:
    details = json.dumps({"version": None, "signals": [{"name": "otp", "value": '"S3CR3T"'}]})
    begun = Entry(3, 0.0, EntryKind.CONTINUED, value='{"args":[],"kwargs":{}}', details=details)
    shown = Redaction(["otp"]).shown(begun)
    assert shown.fact("signals") == [{"name": "otp", "value": '"[redacted]"'}]


def test_an_argument_that_was_hidden_whole_comes_back_whole() -> None:
    asked = {"input_type": "approval", "proposal": {"card": {"number": 1}, "n": [1, 2]}}
    start = Redaction(["card", "n[1]"]).start
    edited = {"card": "[redacted /card]", "n": [1, "[redacted /n/1]"], "more": 1}
    meant, wrong = restored(start, asked, {"approved": True, "edited": edited})
    assert (meant["edited"], wrong) == ({"card": {"number": 1}, "n": [1, 2], "more": 1}, [])
    _, wrong = restored(start, asked, {"approved": True, "edited": {"n": ["[redacted /n/1]", 1]}})
    assert [each for each, _ in wrong] == ["edited.n.0"]


def test_rows_that_look_the_same_are_not_taken_for_one_another() -> None:
    asked = {"input_type": "approval", "proposal": {"notes": ["to S1111", "to S2222"]}}
    seen = {**asked, "proposal": {"notes": ["to [redacted]", "to [redacted]"]}}
    start = Redaction(["iban"]).start
    for edited, refused in (
        ({"notes": ["to [redacted]", "to [redacted]"]}, []),
        ({"notes": ["to [redacted]"]}, ["edited.notes.0"]),
        ({"notes": ["to S3333", "to [redacted]"]}, []),
    ):
        meant, wrong = restored(start, asked, {"approved": True, "edited": edited}, seen)
        assert [each for each, _ in wrong] == refused
        assert wrong or meant["edited"]["notes"][-1] == "to S2222"


def test_a_proposals_own_placeholder_text_is_kept_where_it_is_unchanged() -> None:
    asked = {"input_type": "approval", "proposal": {"text": "[redacted /iban]", "iban": "1"}}
    start = Redaction(["iban"]).start
    edited = {"text": "[redacted /iban]", "iban": "[redacted /iban]"}
    meant, wrong = restored(start, asked, {"approved": True, "edited": edited})
    assert (meant["edited"], wrong) == (asked["proposal"], [])


def test_a_form_that_looks_like_an_approval_is_hidden_as_any() -> None:
    kept = {"approved": True, "iban": "S3CR3T", "edits": [{"iban": "S3CR3T"}], "proposal": {"x": {"iban": 1}}}
    question = Promise(
        "default", "q", PromiseKind.QUESTION, PromiseState.RESOLVED, 0.0, data="{}", value=json.dumps(kept)
    )
    shown = Redaction(["iban"]).shown(question)
    assert json.loads(shown.value or "") == {
        "approved": True,
        "iban": "[redacted]",
        "edits": [{"iban": "[redacted]"}],
        "proposal": {"x": {"iban": "[redacted]"}},
    }


def test_a_record_of_another_shape_than_it_should_have_is_hidden_whole() -> None:
    data = json.dumps({"text": "?", "options": 7, "metadata": {"iban": "S3CR3T"}})
    question = Promise("default", "q", PromiseKind.QUESTION, PromiseState.PENDING, 0.0, data=data)
    assert Redaction(["iban"]).shown(question).data == '"[redacted]"'


def test_an_answer_may_say_redacted_where_nothing_is_hidden(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def note(ctx: Context) -> str:
        return (await ctx.wait_for_user("What?", input_type="text")).value

    with (
        OnThread(lambda: serving(app)) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        start(http, "note", "r")
        id = asked(http, "r")
        link = http.post(f"/v1/questions/{path_of(id)}/links", json={"user_id": "ana"}).json()
        page = http.get(link["path"]).text
        done = http.post(link["path"], data={**filled(page), "f0": "[redacted]"})
        assert done.status_code == 200, done.text
        assert ended(http, "r")["result"] == "[redacted]"


class Bounced(Exception):
    def __init__(self, iban: str) -> None:
        super().__init__("declined")
        self.request = {"iban": iban}


@pytest.mark.parametrize("how", ["alone", "as a cause", "in a group"])
def test_what_is_hidden_of_an_error_is_hidden_of_those_within_it(how: str) -> None:
    error: Exception = Bounced("DE89")
    if how == "as a cause":
        cause, error = error, RuntimeError("no")
        error.__cause__ = cause
    elif how == "in a group":
        error = ExceptionGroup("several", [error])
    run = Run("default", "r", "pay", "default", "{}", RunState.FAILED, 0.0, error=encode_error(error))
    shown = Redaction(["request.iban"]).shown(run)
    assert "DE89" in (run.error or "")
    assert "DE89" not in (shown.error or "DE89")
