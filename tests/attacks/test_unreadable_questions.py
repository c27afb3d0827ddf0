"""A question whose row cannot be read, at each place where people look: links, the command line, Slack.

Another test does the same in Studio: ``tests/studio/test_unreadable_questions.py``.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest

from signoff import Signoff
from signoff.cli.exit_codes import ExitCode
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore
from tests.attacks.unreadable import UNREADABLE
from tests.cli.commands import signoff
from tests.notifications import slack_stage
from tests.postgres.databases import migrated_database
from tests.server import workflows
from tests.server.conftest import app_in, asked, open_trail, path_of, serving, start
from tests.support import OnThread, in_asyncio

__all__ = ["open_trail"]

pytestmark = pytest.mark.usefixtures("open_trail")


def _damage(app: Signoff, question: str, data: str) -> None:
    if isinstance(app.store, SqliteStore):
        with closing(sqlite3.connect(app.store.path)) as connection, connection:
            connection.execute("UPDATE promises SET data = ? WHERE id = ?", (data, question))
    else:
        assert isinstance(app.store, PostgresStore)
        with psycopg.connect(app.store.conninfo) as connection:
            connection.execute("UPDATE signoff.promises SET data = %s WHERE id = %s", (data, question))


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def test_links_and_commands_say_so_and_show_what_is_beside_it(tmp_path: Path, store: str) -> None:
    if store == "sqlite":
        _look(app_in(tmp_path), tmp_path)
        return
    with migrated_database() as url:
        app = Signoff(PostgresStore(url))
        workflows.register(app)
        _look(app, tmp_path)


def _look(app: Signoff, folder: Path) -> None:
    with (
        OnThread(lambda: serving(app)) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        questions, links = dict[str, str](), dict[str, str]()
        for number, name in enumerate(["good", *UNREADABLE]):
            start(http, "approve", f"run-{number}", kwargs={"assignees": ["group:finance"]})
            questions[name] = asked(http, f"run-{number}")
            made = http.post(
                f"/v1/questions/{path_of(questions[name])}/links",
                json={"user_id": "ana", "groups": ["finance"]},
            )
            links[name] = made.json()["path"]
        for name, data in UNREADABLE.items():
            _damage(app, questions[name], data)
        for name in UNREADABLE:
            _link_says_so(http, name, links[name])
            answered = signoff("answer", questions[name], "--approve", "--url", server.url, cwd=folder)
            assert answered.code not in (ExitCode.OK, 70), name
            assert "Traceback" not in answered.err
            shown = signoff("show", questions[name].rsplit(".", 1)[0], "--url", server.url, cwd=folder)
            assert (shown.code, "Traceback" in shown.err) == (ExitCode.OK, False), name
        inbox = signoff("inbox", "--url", server.url, "--json", cwd=folder)
        assert inbox.code == ExitCode.OK, inbox.err
        assert questions["good"] in inbox.out
        seen = signoff("inbox", "--url", server.url, cwd=folder)
        assert (seen.code, "Traceback" in seen.err) == (ExitCode.OK, False), seen.err
        assert http.get(links["good"]).status_code == 200
        answer = {"user_id": "ana", "groups": ["finance"], "value": {"approved": True}}
        good = http.post(f"/v1/questions/{path_of(questions['good'])}/answer", json=answer)
        assert good.status_code == 200, good.text


READABLE: Final = (
    "an attachment that runs",
    "an option without a label",
    "a form that is not one",
    "a schema that leads nowhere",
)
"""What a page shows as far as it can."""


def _link_says_so(http: httpx.Client, name: str, path: str) -> None:
    for response in (
        http.get(path),
        http.head(path),
        http.post(path, data={"decision": "approve", "digest": "x"}),
        http.get(path, headers={"accept": "application/problem+json"}),
    ):
        assert response.status_code in (409, 503) or (name in READABLE and response.status_code < 500), (
            f"{name}: {response.status_code} {response.text[:300]}"
        )
        assert "Traceback" not in response.text
        assert 'href="javascript:' not in response.text


@pytest.mark.parametrize("name", UNREADABLE)
@in_asyncio
async def test_a_click_in_slack_on_an_unreadable_question_is_refused_with_a_reason(name: str) -> None:
    async with slack_stage.stage() as on:
        value = await slack_stage.asked(on)
        store: Any = on.scene.store
        assert isinstance(store, MemoryStore)
        promises: Any = store.model.tables.promises
        key = next(key for key, each in promises.items() if each.id == "q")
        promises[key] = replace(promises[key], data=UNREADABLE[name])
        clicked = await on.click(value)
        assert clicked.status_code == 200
        replies = json.dumps(await on.told())
        assert "Traceback" not in replies
        assert await on.state() == "pending"
