"""A value that a path hides is hidden wherever it recurs, and answering the shown question works."""

from __future__ import annotations

import base64
import html
import json
import re
import sqlite3
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from pydantic import TypeAdapter

from signoff import Action, AsyncClient, Context, Signoff
from signoff.agents import Approve, Conversation, Edit, Finished, Paused
from signoff.people.notifications.channels.channel import Channel
from signoff.records import AuditKind, Promise, PromiseKind, PromiseState
from signoff.redaction import Redaction
from signoff.redaction.hidden_values import Hidden
from signoff.server import Server
from signoff.stores.sqlite.store import SqliteStore
from tests.agents.chats import Chats
from tests.examples.servers import until
from tests.server.conftest import ended, events, kind, path_of, serving, start
from tests.server.recording_channel import RecordingChannel
from tests.support import OnThread, in_asyncio, new_app

pytestmark = pytest.mark.usefixtures("open_trail")

# Not four digits: ids, digests and times contain any four by chance (one run in fourteen did).
SECRET = 'DE89 "quokka" 0044'
"""With characters that JSON and URLs write otherwise."""

NUMBER = 4929123456781234


class Declined(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.reference = f"ref {message}"


async def tell(ctx: Context, text: str) -> str:
    return f"child: {text}"


async def pay(ctx: Context, iban: str, card: int, *, fails: bool = False) -> Any:
    """Put the values that are hidden of its arguments into everything else."""
    await ctx.progress(f"pays to {iban}", percent=5, about={"text": f"<{iban}>"})
    sent = await ctx.step(
        "send", lambda: {"said": f"sent to {iban}", "nr": card, "raw": json.dumps({"to": iban})}
    )
    await ctx.rfc(tell, f"about {iban}")
    answer = await ctx.wait_for_user(
        f"Pay to {iban}?",
        help=f"The card is {card}.",
        metadata={"conversation": [{"role": "user", "content": f"pay {iban}"}], iban: 1, "nr": card},
        proposal={"memo": f"for {iban}", "cents": 7, "nr": card, "notes": {iban: "x"}},
        action=None,
        attachments=[{"name": f"{iban}.pdf", "url": f"https://bank.example/?iban={card}"}],
    )
    if fails:
        raise Declined(f"declined {iban}")
    account = await ctx.wait_for_user(
        "Which account?", input_type="select", options=[{"value": iban, "label": f"Account {iban}"}, "other"]
    )
    memo = await ctx.wait_for_user(
        "Memo?",
        input_type="form",
        answer_type={
            "type": "object",
            "properties": {"memo": {"type": "string", "description": f"for {iban}", "default": iban}},
        },
        default={"memo": f"for {iban}"},
    )
    await ctx.wait_for_user(
        "Do it?",
        action=Action("pay", {"text": f"pay {iban}"}, about={"warning": f"{iban} is new"}),
        timeout_seconds=0.01,
        timeout_answer=False,
    )
    proposal = None if answer.proposal is None else dict(answer.proposal)
    return {"sent": sent, "proposal": proposal, "account": account.value, "memo": memo.value}


class Place:
    """A server that hides things, and a client of its."""

    def __init__(self, app: Signoff, server: Server, http: httpx.Client, recorder: RecordingChannel) -> None:
        self.app = app
        self.server = server
        self.http = http
        self.recorder = recorder

    def start(self, **options: Any) -> str:
        run = f"run-{uuid.uuid4()}"
        start(
            self.http, "pay", run, kwargs={"iban": SECRET, "card": NUMBER, **options}, session_id=f"c-{run}"
        )
        return run

    def asked(self, run: str, count: int = 1) -> dict[str, Any]:
        """The ``count``-th question of a run."""
        seen = 0
        for event, entry in events(self.http, run):
            if event == "message" and (entry["kind"], entry.get("call")) == ("opened", "question"):
                seen += 1
                if seen == count:
                    return self.http.get(f"/v1/questions/{path_of(run)}.{entry['n']}").json()
        raise AssertionError("nothing was asked")

    def answer(self, question: dict[str, Any], value: Any, **more: Any) -> httpx.Response:
        return self.http.post(
            f"/v1/questions/{path_of(question['id'])}/answer",
            json={"value": value, "user_id": "ana", "digest": question["data"]["digest"], **more},
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    app = new_app(tmp_path_factory.mktemp("derived"))
    app.workflow(tell)
    app.workflow(pay)
    recorder = RecordingChannel()
    channel = Channel("hook", recorder, events=frozenset(AuditKind))
    with (
        OnThread(lambda: serving(app, redact=["iban", "card"], channels=[channel])) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        yield Place(app, served, http, recorder)


def leaks(shown: str) -> list[str]:
    """Return the places of a hidden value in the messages, in any spelling, with the text around it."""
    return re.findall(r".{0,80}(?:quokka|4929123456781234).{0,20}", shown)


def test_a_value_is_hidden_wherever_it_shows_up_again_and_can_be_answered(place: Place) -> None:
    run = place.start()
    first = place.asked(run)
    link = place.http.post(f"/v1/questions/{path_of(first['id'])}/links", json={"user_id": "ana"}).json()
    shown = place.http.get(link["path"]).text + json.dumps(first)
    data = first["data"]
    assert data["text"] == "Pay to [redacted]?"
    assert data["metadata"]["conversation"] == [{"role": "user", "content": "pay [redacted]"}]
    edited = {**data["proposal"], "cents": 8}
    done = place.answer(first, {"approved": True, "edited": edited}, note=f"to {SECRET}")
    assert done.status_code == 200, done.text
    second = place.asked(run, 2)
    [option, _] = second["data"]["options"]
    assert option["label"] == "Account [redacted]"
    chosen = place.answer(second, option["value"])
    assert chosen.status_code == 200, chosen.text
    third = place.asked(run, 3)
    assert third["data"]["default"] == {"memo": "for [redacted]"}
    filled = place.answer(third, third["data"]["default"])
    assert filled.status_code == 200, filled.text
    result = ended(place.http, run)["result"]
    assert result["proposal"] == {"memo": "for [redacted]", "cents": 8, "nr": "[redacted]",
                                  "notes": {"[redacted]": "x"}}  # fmt: skip
    assert place.http.get("/v1/questions", params={"text": "quokka"}).json()["items"] == []
    failed = place.start(fails=True)
    place.answer(place.asked(failed), True)
    error = ended(place.http, failed)["error"]
    assert error["message"] == "declined [redacted]"
    shown += json.dumps([second, third, result, error]) + done.text + chosen.text + filled.text
    names = {"question_id": path_of(first["id"]), "session_id": f"c-{run}"}
    looked = 0
    for route, methods in place.http.get("/openapi.json").json()["paths"].items():
        if "get" not in methods or route in ("/docs/{asset}", "/v1/questions/events"):
            continue
        for each in (run, failed):
            said = {**names, "run_id": each, "promise_id": "none", "schedule_id": "none"}
            response = place.http.get(route.format_map(said))
            looked += response.status_code == 200
            shown += response.text
    child = place.http.get("/v1/runs", params={"workflow": "tell"})
    assert looked > 20
    assert leaks(shown + child.text) == []
    assert "child: about [redacted]" in shown + child.text


def test_what_the_workflow_gets_is_as_it_was(place: Place) -> None:
    """The values that were put back, as the store has them."""
    run = place.start()
    first = place.asked(run)
    place.answer(first, {"approved": True, "edited": {**first["data"]["proposal"], "cents": 9}})
    second = place.asked(run, 2)
    place.answer(second, second["data"]["options"][0]["value"])
    third = place.asked(run, 3)
    place.answer(third, third["data"]["default"])
    ended(place.http, run)
    assert isinstance(place.app.store, SqliteStore)
    with closing(sqlite3.connect(place.app.store.path)) as file:
        [(result,)] = file.execute("SELECT result FROM runs WHERE id = ?", (run,)).fetchall()
    kept = json.loads(result)
    assert kept["account"] == SECRET
    assert kept["memo"] == {"memo": f"for {SECRET}"}
    assert kept["proposal"] == {"memo": f"for {SECRET}", "cents": 9, "nr": NUMBER, "notes": {SECRET: "x"}}


@pytest.mark.parametrize("memo", ["for [redacted] now", "[redacted]", "to [redacted /memo]"])
def test_a_masked_text_is_left_as_it_is_or_written_anew(place: Place, memo: str) -> None:
    question = place.asked(place.start())
    edited = {**question["data"]["proposal"], "memo": memo}
    refused = place.answer(question, {"approved": True, "edited": edited})
    assert (refused.status_code, kind(refused)) == (422, "WrongAnswer")
    assert refused.json()["fields"][0]["field"] == "edited.memo"
    assert leaks(refused.text) == []


def test_a_refusal_does_not_list_the_values_that_could_be_chosen(place: Place) -> None:
    run = place.start()
    place.answer(place.asked(run), True)
    refused = place.answer(place.asked(run, 2), "banana")
    assert refused.status_code == 422
    assert leaks(refused.text + place.http.get("/v1/audit", params={"run_id": run}).text) == []


def test_messages_to_people_have_none_of_it_either(place: Place) -> None:
    run = place.start()
    question = place.asked(run)
    notices = place.recorder.notices
    for notice in until(lambda: [each for each in notices if each.delivery.question_id == question["id"]]):
        assert leaks(json.dumps([notice.title, notice.parts, notice.data, notice.details])) == []


@in_asyncio
async def test_a_conversation_through_a_redacting_server_is_answered(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    async with (
        serving(chats.app, redact=["path"]) as server,
        AsyncClient(server.url) as client,
        httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False) as http,
    ):
        chat = Conversation(client, "support", session_id="c")
        turn = await chat.run("rm iban-quokka")
        assert isinstance(turn, Paused)
        [pending] = turn.pending
        assert leaks(repr(turn)) == []
        turn = await chat.respond(pending.id, Approve())
        assert isinstance(turn, Finished)
        assert chats.removed == ["iban-quokka"]
        turn = await chat.run("rm iban-quokka")
        assert isinstance(turn, Paused)
        turn = await chat.respond(turn.pending[0].id, Edit({"path": "z"}))
        assert isinstance(turn, Finished)
        assert chats.removed == ["iban-quokka", "z"]
        assert isinstance(await chat.run("hello iban-quokka"), Finished), "a later turn of the session"
        shown = ""
        for run in (await http.get("/v1/runs")).json()["items"]:
            shown += json.dumps(run) + (await http.get(f"/v1/runs/{run['id']}/journal")).text
        shown += (await http.get("/v1/audit")).text
        assert leaks(shown) == []
        assert "hello [redacted]" in shown


@in_asyncio
async def test_of_a_run_that_was_deleted_the_trail_shows_no_texts(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    async with (
        serving(chats.app, redact=["path"]) as server,
        AsyncClient(server.url) as client,
        httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False) as http,
    ):
        chat = Conversation(client, "support", session_id="c")
        turn = await chat.run("rm iban-quokka")
        assert isinstance(turn, Paused)
        assert isinstance(await chat.respond(turn.pending[0].id, "yes"), Finished)
        deleted = await http.post("/v1/prune", json={"older_than_seconds": 0})
        assert deleted.is_success, deleted.text
        trail = (await http.get("/v1/audit")).json()["items"]
        assert trail
        assert leaks(json.dumps(trail)) == []


TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


def said_by(read: Callable[[Any], object], value: object) -> str:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        read(value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ('Tom & "Al"', html.escape('Tom & "Al"'), "[redacted]"),
        ("a b+c/d", urlencode({"q": "a b+c/d"}), "q=[redacted]"),
        ("a b/c", "/x/" + quote("a b/c"), "/x/[redacted]"),
        ('Zoë "Al"', json.dumps(json.dumps({"n": 'Zoë "Al"'})), r'"{\"n\": \"[redacted]\"}"'),
        ('Zoë "Al"', repr(json.dumps({"n": 'Zoë "Al"'})), """'{"n": "[redacted]"}'"""),
        ("de89370400440532013000", "TO DE89370400440532013000", "TO [redacted]"),
        (TOKEN, f"{TOKEN:.20}...", "[redacted]..."),
        (TOKEN, f"{TOKEN:.20}…{TOKEN[-9:]}.", "[redacted]…[redacted]."),
        (TOKEN, f"x{TOKEN:.50}, {TOKEN:.40}", "x[redacted], [redacted]"),
        (TOKEN, f"{TOKEN[-50:]} {TOKEN[-40:]}y", "[redacted] [redacted]y"),
        (TOKEN * 3, said_by(int, TOKEN * 3), "invalid literal for int() with base 10: '[redacted]"),
        (TOKEN, f"{TOKEN:.5}...{TOKEN[-5:]}", f"{TOKEN:.5}...{TOKEN[-5:]}"),
        (TOKEN, f"{TOKEN:.20} {TOKEN[-20:]}", f"{TOKEN:.20} {TOKEN[-20:]}"),
        ("aaaaaaaaaaaa", "aaaaaaaa...aaaaaaaaaaab", "[redacted]...[redacted]b"),
        ("DE89370400440532013000", "to DE89 3704 0044 0532 0130 00.", "to [redacted]."),
        ("DE89 3704 0044 0532 0130 00", "to de89370400440532013000!", "to [redacted]!"),
        ("DE89370400440532013000", "DE89-3704\r\n  0044.0532/0130_00", "[redacted]"),
        (str(NUMBER), f"{NUMBER:,} or 4929 1234\u00a05678 1234", "[redacted] or [redacted]"),
        ("1234567.25", f"EUR {1234567.25:,.2f}", "EUR [redacted]"),
        ("Anna-Maria Lopez", "By ANNA-Maria LOPEZ.", "By [redacted]."),
        ("Jürgen Groß", "by " + unicodedata.normalize("NFD", "Jürgen Groß"), "by [redacted]"),
        ("Zoë/b", quote(quote("Zoë/b", safe=""), safe=""), "[redacted]"),
        ("Zoë/b", re.sub("%..", lambda each: each[0].lower(), quote("Zoë/b")), "[redacted]"),
        ("together", "to get her", "to get her"),
        ("a1b2c3", "a1 b2 c3", "a1 b2 c3"),
    ],
)
def test_a_value_is_hidden_as_other_texts_quote_and_cut_it(secret: str, text: str, shown: str) -> None:
    assert Hidden([secret]).masked(text) == shown
    assert Hidden([secret]).is_in(text) == (text != shown)


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("write", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_value_within_base64_is_hidden(write: Callable[[bytes], bytes], before: str) -> None:
    secret = "pa\u00dfw\u00f6rt??>>"
    written = write(f"{before}{secret};".encode()).decode()
    masked = Hidden([secret]).masked(f"Basic {written}")
    left = masked.removeprefix("Basic ").replace("[redacted]", "")
    assert len(left) <= len(before) * 4 // 3 + 6, "what is left stands for what is around it"
    assert "[redacted]" in masked


@pytest.mark.parametrize("value", [TOKEN, {"to": [TOKEN]}, [{"a": 1, "b": TOKEN, "c": "x"}]])
def test_pieces_of_a_value_in_a_validation_error_are_hidden(value: object) -> None:
    said = said_by(TypeAdapter(int).validate_python, value)
    assert "..." in said
    assert TOKEN[:8] in said
    masked = Hidden([TOKEN]).masked(said)
    assert not re.search(f"{TOKEN[:4]}|{TOKEN[-4:]}", masked)


def test_short_and_common_values_are_not_looked_for() -> None:
    redaction = Redaction(["pin", "on"])
    data = {"text": "Pay 12 or 1000?", "metadata": {"pin": "12", "on": True, "n": 1000}, "input_type": "text"}
    question = Promise("default", "q", PromiseKind.QUESTION, PromiseState.PENDING, 0.0, data=json.dumps(data))
    shown = json.loads(redaction.shown(question, ["1000"]).data or "")
    assert shown["text"] == "Pay 12 or [redacted]?"
    assert shown["metadata"] == {"pin": "[redacted]", "on": "[redacted]", "n": 1000}


@pytest.mark.parametrize("secret", ["approval", "redacted", "text", "metadata", "null", "memo"])
def test_a_secret_that_is_a_common_word_breaks_no_question(secret: str) -> None:
    data = {
        "text": "Pay?",
        "input_type": "approval",
        "answer_schema": {"type": "object", "properties": {"approved": {"type": "boolean"}}},
        "options": [],
        "metadata": {"x": 1},
        "proposal": {"memo": "a"},
        "skippable": False,
        "digest": "0",
    }
    question = Promise("default", "q", PromiseKind.QUESTION, PromiseState.PENDING, 0.0, data=json.dumps(data))
    shown = json.loads(Redaction(["iban"]).shown(question, [secret]).data or "")
    assert shown.keys() == data.keys()
    assert (shown["input_type"], shown["answer_schema"]) == (data["input_type"], data["answer_schema"])


def test_a_redactor_is_the_only_thing_that_shows_records_in_the_server() -> None:
    """A new door goes through ``Redactor.shown`` or a backend, or this fails."""
    folder = Path(__file__).parents[2] / "src" / "signoff"
    shown = [
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in folder.rglob("*.py")
        if path.parent.name != "redaction" and path.name != "redacted_service.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"redaction\.(shown|entry|question)\b", line) and "redactor.redaction.shown" not in line
    ]
    assert shown == []
