"""No secret is in any output, whatever fails: logs at DEBUG, problems, metrics, descriptions."""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.codec.ciphers import Ciphers
from signoff.errors import SignoffError
from signoff.observability.logs import formatter
from signoff.people.notifications.channels.config_file import channels_of
from signoff.server import OpenIdConnect, Role, Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.encrypted import encrypted
from tests.cli.commands import signoff
from tests.notifications.receivers import web
from tests.server.conftest import asked, path_of
from tests.server.provider import CLIENT, PUBLIC, Browser, LocalProvider
from tests.support import OnThread

pytestmark = pytest.mark.usefixtures("open_trail")

CLIENT_SECRET = "oidc-client-S3CR3T"
SMTP_PASSWORD = "smtp-S3CR3T"
SLACK_TOKEN = "xoxb-S3CR3T"
SLACK_SIGNING = "slack-signing-S3CR3T"
WEBHOOK_KEY = base64.b64encode(b"webhook-S3CR3T-" * 2).decode()
URL_SECRET = "url-S3CR3T"
POSTGRES_PASSWORD = "postgres-S3CR3T"
ENCRYPTION = base64.b64encode(b"encryption-S3CR3T-32-bytes-long!").decode()

CLOSED = "127.0.0.1:9"
"""An address without a listener."""


def channels(url: str) -> list[dict[str, Any]]:
    common: dict[str, Any] = {"timeout_seconds": 1.0, "events": ["asked", "resolved"]}
    mail = {"kind": "email", "from": "signoff@example.org", "to": ["ana@example.org"]}
    login = {"username": "signoff", "password": "$SMTP_PASSWORD", "host": "127.0.0.1", "port": 9}
    slack = {
        "kind": "slack",
        "token": "$SLACK_TOKEN",
        "signing_secret": "$SLACK_SIGNING",
        "to": ["C024BE91L"],
    }
    return [
        {**common, "name": "hook", "kind": "webhook", "url": f"{url}/{URL_SECRET}", "secrets": ["$HOOK"]},
        {**common, "name": "dead", "kind": "webhook", "url": f"http://{CLOSED}/{URL_SECRET}", "secrets": ["$HOOK"]},
        {**common, **mail, **login, "name": "mail", "security": "none"},
        {**common, **slack, "name": "chat", "api_url": url},
        {**common, "name": "room", "kind": "slack", "webhook_url": "$ROOM"},
        {**common, "name": "phone", "kind": "apprise", "url": f"json://u:{URL_SECRET}@127.0.0.1:9/{URL_SECRET}"},
    ]  # fmt: skip


async def fails(ctx: Context) -> None:
    raise RuntimeError("no luck")


async def ask(ctx: Context) -> Any:
    return (await ctx.wait_for_user("Go on?")).approved


class Written(logging.Handler):
    """All that is logged on other threads than the test's own, as text and as JSON."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._formatters = [formatter("text"), formatter("json")]
        self._own = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._own:
            self.lines += [each.format(record) for each in self._formatters]


@pytest.fixture
def written() -> Iterator[Written]:
    handler, root = Written(), logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in ("", "signoff")}
    root.addHandler(handler)
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@asynccontextmanager
async def world(folder: Path, told: dict[str, Any]) -> Any:
    keys = Ciphers.parse(f"k1:{ENCRYPTION}")
    app = Signoff(encrypted(SqliteStore(folder / "signoff.db"), keys))
    for workflow in (fails, ask):
        app.workflow(workflow)
    environ = {
        "SMTP_PASSWORD": SMTP_PASSWORD,
        "SLACK_TOKEN": SLACK_TOKEN,
        "SLACK_SIGNING": SLACK_SIGNING,
        "HOOK": f"whsec_{WEBHOOK_KEY}",
        "ROOM": f"http://{CLOSED}/services/{URL_SECRET}",
    }
    async with web(200, 500, otherwise=200) as hooks, LocalProvider(app.store.clock).serving() as provider:
        openid = OpenIdConnect(provider.url, CLIENT, PUBLIC, CLIENT_SECRET)
        made = channels_of({"channels": channels(hooks.url)}, environ)
        async with (
            Server(app, port=0, openid=openid, channels=made, public_url=PUBLIC) as server,
            app.worker(),
        ):
            issued = StoredKeys(app.store)
            told["api_key"], _ = await issued.create_for_service("bot", [Role.ADMIN], act_as=True)
            told["worker_key"], _ = await issued.create_for_worker("gpu")
            told["hooks"] = hooks
            try:
                yield server
            finally:
                try:
                    async with AsyncClient(server.url, key=told["api_key"]) as client:
                        await client.start("ask", id="from-afar")
                    store = RemoteStore(server.url, key=told["worker_key"])
                    await store.open()
                    await store.get_run("from-afar")
                    await store.close()
                    for store in (
                        RemoteStore(server.url, key="swk_wrong-S3CR3T"),
                        PostgresStore(
                            f"postgresql://ana:{POSTGRES_PASSWORD}@{CLOSED}/signoff", patience_seconds=0.2
                        ),
                        encrypted(
                            SqliteStore(folder / "signoff.db"),
                            Ciphers.parse(f"k2:{base64.b64encode(os.urandom(32)).decode()}"),
                        ),
                    ):
                        try:
                            await store.open()
                            await store.get_run("failed")
                        except SignoffError as error:
                            logging.getLogger("signoff.test").exception("it fails")
                            told["errors"] = f"{told.get('errors', '')}\n{error!r} {error}"
                        finally:
                            await store.close()
                except BaseException:
                    told["broken"] = True
                    raise
    await app.store.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what apprise imports
def test_no_secret_is_in_anything_that_is_written(tmp_path: Path, written: Written) -> None:
    told: dict[str, Any] = {}
    said: list[str] = []
    secrets = [CLIENT_SECRET, SMTP_PASSWORD, SLACK_TOKEN, SLACK_SIGNING, WEBHOOK_KEY, URL_SECRET]
    secrets += [POSTGRES_PASSWORD, ENCRYPTION, "S3CR3T"]
    with OnThread(lambda: world(tmp_path, told)) as server, Browser(server) as browser:
        secrets += [told["api_key"], told["worker_key"]]
        bearer = {"authorization": f"Bearer {told['api_key']}"}
        with httpx.Client(
            base_url=server.url, trust_env=False, verify=False, headers=bearer, timeout=60
        ) as http:
            for run, workflow in (("failed", "fails"), ("asked", "ask")):
                said.append(http.post("/v1/runs", json={"workflow": workflow, "id": run}).text)
            id = asked(http, "asked")
            said.append(http.get("/v1/runs/failed/result", params={"wait": 60}).text)
            link = http.post(f"/v1/questions/{path_of(id)}/links", json={"user_id": "ana"}).json()
            secrets.append(link["path"].removeprefix("/l/"))
            for path in (link["path"], f"/l/sgl_{'S3CR3T' * 7}A"):
                http.get(path)
                said.append(http.post(path, data={"decision": "7"}).text)
            said.append(http.get("/v1/runs", headers={"authorization": "Bearer sgk_S3CR3T"}).text)
            said.append(http.get("/v1/runs?after=x", headers={"authorization": "Basic S3CR3T"}).text)
            said.append(http.post("/v1/slack/chat/actions", data={"payload": "x"}).text)
            said.append(http.post("/v1/slack/room/actions", data={"payload": "x"}).text)
            said.append(browser.sign_in().text)
            secrets += list(browser.cookies.values())
            said.append(browser.get("/v1/me").text)
            said.append(browser.get("/login/callback?code=S3CR3T&state=S3CR3T").text)
            said.append(
                http.post(f"/v1/questions/{path_of(id)}/answer", json={"value": True, "user_id": "ana"}).text
            )
            tried: dict[str, str] = {}
            while (
                len(tried) < 6 or len(told["hooks"].got) < 3
            ):  # the question, its answer, and what is tried again
                for each in http.get("/v1/deliveries").json()["items"]:
                    if each["attempts"] and (each.get("error") or each["state"] == "delivered"):
                        tried[each["channel"]] = json.dumps(each)
            said += tried.values()
            for path in (
                "/openapi.json",
                "/metrics",
                "/ready",
                "/health",
                "/v1/keys",
                "/v1/audit",
                "/v1/workers",
                f"/v1/questions/{path_of(id)}/links",
            ):
                said.append(http.get(path).text)
    assert "broken" not in told
    said += [told["errors"], *written.lines]
    found = {secret: text for secret in secrets for text in said if secret in text}
    assert found == {}
    assert "no luck" in "".join(said)


def test_no_secret_is_in_what_commands_write(tmp_path: Path) -> None:
    variables = {
        "SIGNOFF_KEY": "sgk_S3CR3T",
        "SIGNOFF_WORKER_KEY": "swk_S3CR3T",
        "SIGNOFF_WORKER_KEYS": "swk_S3CR3T",
        "SIGNOFF_ENCRYPTION_KEYS": f"k1:{ENCRYPTION}",
        "SIGNOFF_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "SMTP_PASSWORD": SMTP_PASSWORD,
    }
    postgres = f"postgresql://ana:{POSTGRES_PASSWORD}@{CLOSED}/signoff?connect_timeout=1"
    for command in (
        ("doctor", "--store", postgres),
        ("doctor", "--url", f"http://{CLOSED}"),
        ("list", "--store", postgres),
        ("list", "--url", f"http://{CLOSED}"),
        ("migrate", "--store", postgres),
    ):
        ended = signoff(*command, cwd=tmp_path, **variables)
        assert ended.code != 0
        for secret in ("S3CR3T", ENCRYPTION):
            assert secret not in ended.out + ended.err, command
