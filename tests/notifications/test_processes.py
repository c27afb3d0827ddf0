"""A ``signoff server`` that is killed while it sends notifications; and their display on a terminal."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from signoff.people.questions.question import Question
from signoff.records import NewPromise, PromiseKind
from signoff.stores.sqlite.store import SqliteStore
from tests.cli.commands import ORDERS, Running, signoff, until
from tests.notifications.asking import SECRET

CHANNELS = """
[[channels]]
name = "hook"
kind = "webhook"
url = "$HOOK_URL"
secrets = ["$HOOK_SECRET"]
events = ["asked"]
"""


class Hook:
    """A real HTTP server on threads: it can do something before it replies."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.status = 200
        self.before_reply: Callable[[], object] = lambda: None
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                hook.ids.append(self.headers["webhook-id"])
                hook.before_reply()
                self.send_response(hook.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/T0KEN"


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    thread = threading.Thread(target=hook.server.serve_forever)
    thread.start()
    yield hook
    hook.server.shutdown()
    hook.server.server_close()
    thread.join()


def ask(folder: Path, id: str) -> None:
    """Ask a question of no run."""

    async def create() -> None:
        store = SqliteStore(folder / "signoff.db")
        await store.open()
        data = Question.make("Pay?").to_json()
        await store.create_promise(NewPromise(id, PromiseKind.QUESTION, data=data))
        await store.close()

    asyncio.run(create())


def sql(folder: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "signoff.db", timeout=60)) as connection:
        found = connection.execute(statement).fetchall()
        connection.commit()
        return found


def serve(folder: Path, hook: Hook, channels: str = CHANNELS) -> Running:
    (folder / "channels.toml").write_text(channels)
    options = ("--store", "sqlite:///signoff.db", "--port", "0", "--channels", "channels.toml")
    return Running("server", *options, cwd=folder, HOOK_URL=hook.url, HOOK_SECRET=SECRET)


def test_another_server_repeats_what_a_killed_one_was_sending(tmp_path: Path, hook: Hook) -> None:
    with serve(tmp_path, hook) as server:
        server.wait_for("listening")
        until(lambda: sql(tmp_path, "SELECT seq FROM channels"))
        hook.before_reply = server.process.kill
        ask(tmp_path, "q1")
        server.ends()
    assert len(hook.ids) == 1
    hook.before_reply = lambda: None
    assert sql(tmp_path, "SELECT state, attempts FROM deliveries") == [("pending", 1)]
    sql(tmp_path, "UPDATE deliveries SET due_at = 0")  # its lease has run out
    with serve(tmp_path, hook) as server:
        until(lambda: sql(tmp_path, "SELECT 1 FROM deliveries WHERE state = 'delivered'"))
        assert len(hook.ids) == 2
        assert len(set(hook.ids)) == 1
        assert sql(tmp_path, "SELECT attempts FROM deliveries") == [(2,)]


@pytest.mark.long
def test_three_servers_announce_open_questions_once_even_if_one_is_killed(tmp_path: Path, hook: Hook) -> None:
    for number in range(12):
        ask(tmp_path, f"q{number}")
    channels = CHANNELS + 'begin = "open"\nconcurrency = 1\n'
    with ExitStack() as stack:
        servers = [stack.enter_context(serve(tmp_path, hook, channels)) for _ in range(3)]
        hook.before_reply = servers[0].process.kill
        until(lambda: len(hook.ids) >= 5)
        servers[0].ends()
        until(lambda: sql(tmp_path, "SELECT count(*) >= 11 FROM deliveries WHERE state = 'delivered'")[0][0])
        sql(
            tmp_path, "UPDATE deliveries SET due_at = 0 WHERE state = 'pending'"
        )  # the lease of the killed one
        until(lambda: sql(tmp_path, "SELECT count(*) = 12 FROM deliveries WHERE state = 'delivered'")[0][0])
    assert sql(tmp_path, "SELECT count(*), count(DISTINCT question_id) FROM deliveries") == [(12, 12)]
    assert len(set(hook.ids)) == 12
    assert len(hook.ids) <= 13, "one, whose server was killed, came twice"


def test_what_was_given_up_is_listed_and_sent_again(tmp_path: Path, hook: Hook) -> None:
    hook.status = 410
    with serve(tmp_path, hook) as server:
        url = server.wait_for("listening")["url"]
        until(lambda: sql(tmp_path, "SELECT seq FROM channels"))
        ask(tmp_path, "q1")
        until(lambda: sql(tmp_path, "SELECT 1 FROM deliveries WHERE state = 'dead'"))
        for place in (("--store", "sqlite:///signoff.db"), ("--url", url)):
            listed = signoff("deliveries", "list", "--state", "dead", *place, cwd=tmp_path)
            heading, row = listed.out.splitlines()
            assert heading.split()[:3] == ["DELIVERY", "CHANNEL", "TO"]
            assert row.split()[:4] == [hook.ids[0], "hook", "asked", "q1"]
            assert "HTTP 410" in row
        found = signoff(
            "deliveries",
            "list",
            "--channel",
            "hook",
            "--question",
            "q1",
            "--url",
            url,
            "--json",
            cwd=tmp_path,
        )
        [delivery] = found.json["items"]
        assert (delivery["state"], delivery["attempts"], delivery["kind"]) == ("dead", 1, "asked")
        hook.status = 200
        again = signoff("deliveries", "redeliver", delivery["id"], "--url", url, cwd=tmp_path)
        assert (again.code, again.out) == (0, f"delivery {delivery['id']} of channel hook is sent again\n")
        until(lambda: sql(tmp_path, "SELECT 1 FROM deliveries WHERE state = 'delivered'"))
        assert signoff("deliveries", "redeliver", "none", "--url", url, cwd=tmp_path).code == 3
        assert "gives up delivery" in server.err
        for secret in ("T0KEN", SECRET):
            assert secret not in server.err


@pytest.mark.long
def test_signoff_dev_tells_of_what_is_asked_and_loads_changed_channels(tmp_path: Path, hook: Hook) -> None:
    (tmp_path / "orders.py").write_text(ORDERS)
    channels = tmp_path / "channels.toml"
    channels.write_text(CHANNELS)
    environment = {"HOOK_URL": hook.url, "HOOK_SECRET": SECRET}
    options = ("--port", "0", "--channels", "channels.toml", "--public-url", "https://dev.example.org")
    with Running("dev", "orders:app", *options, cwd=tmp_path, **environment) as dev:
        url = dev.wait_for("working") and dev.events("listening")[0]["url"]
        until(lambda: sql(tmp_path, "SELECT seq FROM channels"))
        started = signoff("start", "refund", "--arg", '"o-1"', "--id", "r-1", "--url", url, cwd=tmp_path)
        assert started.code == 0
        until(lambda: hook.ids)
        link = signoff("links", "create", "r-1.2", "--user", "ana", "--url", url, cwd=tmp_path)
        assert link.out.startswith("https://dev.example.org/l/")

        channels.write_text(CHANNELS + "colour = 1\n")
        assert dev.wait_for("broken")["running"] is True
        assert "colour" in dev.err
        channels.write_text(CHANNELS.replace('"hook"', '"other"'))
        dev.wait_for("working", times=2)
        until(lambda: sql(tmp_path, "SELECT seq FROM channels WHERE name = 'other'"))


def test_a_server_does_not_start_with_channels_that_make_no_sense(tmp_path: Path, hook: Hook) -> None:
    (tmp_path / "channels.toml").write_text(CHANNELS)
    options = ("--store", "sqlite:///signoff.db", "--port", "0", "--channels", "channels.toml")
    ended = signoff("server", *options, cwd=tmp_path, HOOK_SECRET=SECRET)
    assert ended.code == 2
    assert "HOOK_URL" in ended.err
