"""Rule: the HTTP API shows what Resonate's workers execute as trees, to those who may see runs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from signoff.codec.ciphers import Ciphers
from signoff.records import NewPromise
from signoff.records.tasks import NewInvocation
from signoff.server import Role
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.wrappers.encrypted import encrypted
from signoff.testing import VirtualClock
from tests.server.resonate.call_trees import call, coded, grow, tags
from tests.server.resonate.speaker import (
    START,
    TARGET,
    Speaker,
    open_store,
    settle_action,
    speaking,
    speaking_on,
)
from tests.support import OnThread

SECRET = "S3CR3T-4711"


class Reader:
    """Reads the HTTP API of a server."""

    def __init__(self, speaker: Speaker, key: str | None = None) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=speaker.server.url, trust_env=False, timeout=60, headers=headers)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        response = self.http.get(f"/v1/invocations{path}", params=query)
        assert response.status_code == status, response.text
        return response.json()

    def ids(self, path: str = "", **query: Any) -> list[str]:
        """The ids on all pages."""
        found: list[str] = []
        page = self.get(path, **query)
        while True:
            found += [each["id"] for each in page["items"]]
            if page["next"] is None:
                return found
            page = self.get(path, **query, after=page["next"])

    def calls(self, id: str, **query: Any) -> list[Any]:
        return self.get(f"/{quote(id, safe='')}/calls", **query)["items"]


@pytest.fixture
def reader(speaker: Speaker) -> Iterator[Reader]:
    with Reader(speaker) as reader:
        yield reader


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Speaker]:
    """A server that needs keys."""
    with OnThread(lambda: speaking(tmp_path, require_auth=True)) as speaker, speaker:
        yield speaker


def key_of(speaker: Speaker, *roles: Role, namespace: str = "default") -> str:
    keys = StoredKeys(speaker.app.store.within(namespace))
    return asyncio.run(keys.create_for_service("bot", roles))[0]


def test_invocations_are_listed_with_their_call_and_who_holds_them(speaker: Speaker, reader: Reader) -> None:
    grow(speaker)
    [shown] = reader.get("")["items"]
    assert shown == {
        "namespace": "default",
        "id": "r",
        "kind": "promise",
        "state": "pending",
        "created_at": shown["created_at"],
        "form": "remote",
        "has_run": False,
        "has_calls": True,
        "function": "order",
        "tags": tags("r", "r", "r", target=TARGET["resonate:target"], scope="global"),
        "data": {"args": ["o-1"], "kwargs": {"cents": 7}},
        "target": TARGET["resonate:target"],
        "task": "acquired",
        "version": 1,
        "pid": "p",
        "ttl": 60_000,
    }
    assert reader.get("/r") == shown
    assert reader.ids(nested="true") == ["r:2", "r"]
    assert reader.ids(task="pending", nested="true") == ["r:2"]
    assert reader.ids(state="resolved") == []
    speaker.ask("task.fulfill", {"id": "r", "version": 1, "action": settle_action("r", data=coded("done"))})
    [shown] = reader.get("", state="resolved")["items"]
    assert (shown["task"], shown["value"]) == ("fulfilled", "done")


def test_a_tree_has_every_call_with_its_form_parent_and_value(speaker: Speaker, reader: Reader) -> None:
    grow(speaker)
    found = {each["id"]: each for each in reader.calls("r")}
    assert {id: (each["form"], each["parent_id"], each["has_calls"]) for id, each in found.items()} == {
        "r:1": ("local", "r", True),
        "r:1.1": ("local", "r:1", False),
        "r:2": ("remote", "r", False),
        "r:3": ("timer", "r", False),
        "r:4": ("question", "r", False),
        "r:5": ("plain", "r", False),
    }
    assert (found["r:1"]["state"], found["r:1"]["value"]) == ("resolved", {"ok": True})
    assert (found["r:2"]["function"], found["r:2"]["data"]) == ("pay", {"args": [7], "kwargs": {}})
    assert found["r:4"]["kind"] == "question"
    assert speaker.server.url
    assert httpx.get(f"{speaker.server.url}/v1/questions/r:4", trust_env=False).status_code == 200


def test_a_list_without_the_data_of_a_promise_does_not_say_who_settles_it(
    speaker: Speaker, reader: Reader
) -> None:
    """The tags are a part of the data."""
    speaker.hold("r", tags={**TARGET, **tags("r", "r", "r")})
    long = {"data": coded("x" * 70_000)}
    speaker.create("r:1", param=long, tags=tags("r:1", "r", "r", scope="local"))
    speaker.create("r:2", param=long, tags={**TARGET, **tags("r:2", "r", "r:2")})
    found = {each["id"]: each for each in reader.calls("r")}
    assert {id: each.get("form") for id, each in found.items()} == {"r:1": None, "r:2": "remote"}
    assert all("data" in each["left_out"] for each in found.values())
    assert reader.get("/r:1")["form"] == "local"


def test_values_with_headers_are_shown_as_their_json(speaker: Speaker, reader: Reader) -> None:
    speaker.create("p", tags=TARGET)
    speaker.settle("p", headers={"resonate:format-py": "x"}, data=coded([1]))
    speaker.create("q", tags=TARGET)
    speaker.settle("q", headers={"a": "b"}, data="text")
    assert reader.get("/p")["value"] == [1]
    assert reader.get("/q")["value"] == {"resonate:value": {"headers": {"a": "b"}, "data": "text"}}


def test_a_tree_of_thousands_is_read_in_pages(speaker: Speaker, reader: Reader) -> None:
    speaker.create("r", tags={**TARGET, **tags("r", "r", "r")})
    ids = [f"r:{number}" for number in range(2_500)]

    async def create_all() -> None:
        news = [NewInvocation(NewPromise(id), branch="r", parent="r") for id in ids]
        await asyncio.gather(*map(speaker.app.store.open_invocation, news))

    asyncio.run(create_all())
    assert len(reader.get("/r/calls", limit=1000)["items"]) == 1000
    assert reader.ids("/r/calls", limit=1000) == sorted(ids)
    assert reader.ids() == ["r"]
    reader.get("/r/calls", 422, limit=1001)


def test_hostile_ids_names_and_parents_are_shown_as_they_are(speaker: Speaker, reader: Reader) -> None:
    html, long = "<img src=x onerror=alert(1)>", "é" * 385
    speaker.create(html, tags={**TARGET, **tags(html, html, html)}, param=call("<script>"))
    speaker.create(long, tags={"resonate:parent": html, "resonate:branch": "x" * 770})
    assert reader.get(f"/{quote(html, safe='')}")["function"] == "<script>"
    assert [each["id"] for each in reader.calls(html)] == [long]
    assert reader.get(f"/{quote(long, safe='')}")["parent_id"] == html
    speaker.create("a", tags={**TARGET, **tags("a", "b", "b")})
    assert reader.ids() == ["a", html], "its parent is missing"
    speaker.create("b", tags={**TARGET, **tags("b", "a", "a")})
    assert reader.ids() == [html], "each made the other"
    assert ([each["id"] for each in reader.calls("a")], reader.calls("b")[0]["id"]) == (["b"], "a")
    for number in range(40):
        id = f"deep{'.1' * number}"
        speaker.create(id, tags=tags(id, f"deep{'.1' * (number - 1)}" if number else id, "deep"))
    assert len(reader.calls("deep")) == 39
    speaker.create("odd", param={"data": coded({"func": 7, "args": "x"})}, tags=TARGET)
    assert (reader.get("/odd").get("function"), reader.get("/odd")["data"]) == (
        None,
        {"func": 7, "args": "x"},
    )


def test_large_arguments_are_left_out_of_lists(speaker: Speaker, reader: Reader) -> None:
    speaker.create("big", param=call("f", "x" * 100_000), tags=TARGET)
    [shown] = reader.get("")["items"]
    assert (shown.get("data"), list(shown["left_out"])) == (None, ["data"])
    assert reader.get("/big")["function"] == "f"


def test_a_promise_of_signoff_is_shown_with_its_data(speaker: Speaker, reader: Reader) -> None:
    body = {"id": "s", "data": {"order": 1}}
    httpx.post(f"{speaker.server.url}/v1/promises", json=body, trust_env=False).raise_for_status()
    shown = reader.get("/s")
    assert (shown["form"], shown["data"]) == ("plain", {"order": 1})
    assert reader.ids(nested="true") == []
    assert reader.calls("s") == []
    for path in ("/none", "/none/calls"):
        assert reader.get(path, 404)["noun"] == "promise"


def test_each_role_sees_what_it_sees_of_runs(closed: Speaker) -> None:
    operator = key_of(closed, Role.OPERATOR)
    with closed.with_key(operator) as speaker:
        grow(speaker)
    paths = ("", "/r", "/r/calls")
    for role in Role:
        with Reader(closed, key_of(closed, role)) as reader:
            for path in paths:
                reader.get(path, 403 if role is Role.RESPONDER else 200)
    with Reader(closed) as reader:
        for path in paths:
            reader.get(path, 401)


def test_another_namespace_sees_nothing(closed: Speaker) -> None:
    with closed.with_key(key_of(closed, Role.OPERATOR)) as speaker:
        grow(speaker)
    with Reader(closed, key_of(closed, Role.ADMIN, namespace="other")) as foreign:
        assert foreign.ids(nested="true") == []
        foreign.get("/r", 404)
        foreign.get("/r/calls", 404)


def test_only_operators_settle_a_plain_promise(closed: Speaker) -> None:
    operator = key_of(closed, Role.OPERATOR)
    with closed.with_key(operator) as speaker:
        grow(speaker)
        path = f"/v1/promises/{quote('r:5', safe='')}/resolve"
        for role in (Role.VIEWER, Role.RESPONDER):
            with Reader(closed, key_of(closed, role)) as reader:
                assert reader.http.post(path, json={"value": 1}).status_code == 403
        with Reader(closed, operator) as reader:
            reader.http.post(path, json={"value": {"paid": True}}).raise_for_status()
        value = speaker.ask("promise.get", {"id": "r:5"})["promise"]["value"]
        assert json.loads(base64.b64decode(value["data"])) == {"paid": True}


# Redaction, encryption


HIDDEN = {"card": {"iban": SECRET}, "to": "bob"}
TERMS = {"text": f"Pay {SECRET}?", "metadata": HIDDEN}
ERROR = {"__type": "error", "__py_pickle": coded(SECRET), "pin": SECRET}


@pytest.mark.parametrize("form", ["call", "tagged question", "called question", "error", "opaque"])
def test_hidden_values_of_programs_leave_the_server_nowhere(tmp_path: Path, form: str) -> None:
    with (
        OnThread(lambda: speaking(tmp_path, redact=["card.iban", "pin"])) as speaker,
        speaker,
        Reader(speaker) as reader,
    ):
        match form:
            case "call":
                speaker.create("p", param=call("pay", HIDDEN["card"], card=HIDDEN["card"]), tags=TARGET)
                speaker.settle("p", data=coded({"paid": HIDDEN, "text": f"to {SECRET}"}))
            case "tagged question":
                speaker.create("p", tags={"signoff:question": json.dumps(TERMS)})
            case "called question":
                speaker.create("p", param=call("signoff:question", TERMS))
            case "error":
                speaker.create("p", tags=TARGET)
                speaker.settle("p", "rejected", data=coded(ERROR))
            case _:
                opaque = {"headers": {"h": coded(HIDDEN)}, "data": f"{coded(SECRET)}\n"}
                speaker.create("p", param=opaque, tags=TARGET)
                speaker.settle("p", headers={"h": coded(HIDDEN)}, data=coded(HIDDEN))
        kept = speaker.ask("promise.get", {"id": "p"})
        assert SECRET in json.dumps(_decoded(kept)), "programs get the values"
        others = ("/v1/questions", "/v1/questions/p") if "question" in form else ("/v1/invocations",)
        for path in (*others, "/v1/invocations/p", "/v1/promises", "/v1/promises/p"):
            shown = reader.http.get(path)
            assert shown.status_code == 200
            decoded = json.dumps(_decoded(shown.json()))
            assert SECRET not in decoded, path
            assert "[redacted" in decoded or (path, form) == ("/v1/invocations/p", "tagged question")
        if form == "call":
            shown = reader.get("/p")
            card = {"iban": "[redacted]"}
            assert shown["function"] == "pay"
            assert shown["data"] == {"args": ["[redacted]"], "kwargs": {"card": card}}
            assert shown["value"] == {"paid": {"card": card, "to": "bob"}, "text": "to [redacted]"}


def _decoded(value: Any) -> Any:
    """All texts, with what is base64 decoded as well."""
    if isinstance(value, dict):
        return {name: _decoded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    with contextlib.suppress(binascii.Error, TypeError):
        return (
            [value, base64.b64decode(f"{value}==").decode(errors="replace")]
            if isinstance(value, str)
            else value
        )
    return value


def test_a_tree_in_an_encrypted_store_is_read_and_an_unreadable_promise_is_shown(tmp_path: Path) -> None:
    for key in "ab":
        secret = base64.urlsafe_b64encode(key.encode() * 32).decode()
        ciphers = Ciphers.parse(f"{key}:{secret}")
        clock = VirtualClock(START / 1000)
        store = encrypted(open_store(f"sqlite:///{tmp_path}/signoff.db", clock=clock), ciphers)
        serving = OnThread(lambda store=store, clock=clock: speaking_on(store, clock))
        with serving as speaker, speaker, Reader(speaker) as reader:
            if key == "a":
                grow(speaker)
            [shown] = reader.get("")["items"]
            calls = reader.calls("r")
            assert len(calls) == 6
            if key == "a":
                assert (shown["function"], shown["data"]["args"]) == ("order", ["o-1"])
            else:
                assert (shown["data"], shown["unreadable"][0]["field"]) == (None, "data")
                assert reader.get("/r")["data"] is None
                assert "form" not in reader.get("/r:1")
                assert {each["task"] for each in calls if "task" in each} == {"pending"}
    assert coded("o-1").encode() not in (tmp_path / "signoff.db").read_bytes()
