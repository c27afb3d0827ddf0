"""A callback's address is a secret: only clients that may answer callbacks read it, wherever a workflow puts it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff import Context, Signoff
from signoff.people.questions.callback_terms import SECRET
from signoff.records.responders import Responder
from signoff.server import Role
from signoff.server.auth.actors import Actor
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.callback_secrets import CallbackSecrets
from signoff.testing import VirtualClock
from tests.server.conftest import ended, events, serving, start
from tests.server.keyed import Keyed
from tests.support import OnThread, in_asyncio, new_app

pytestmark = pytest.mark.usefixtures("open_trail")

SECRETS = re.compile(SECRET.pattern)
READ = (Role.OPERATOR, Role.ADMIN)
CHILD, QUESTION = "pay.4", "pay.5"
ASKED = ["user:ana", "user:service:asked"]


def register(app: Signoff) -> None:
    """Register a workflow that gives its callback's address away at every place that it has."""

    @app.workflow
    async def pay(ctx: Context) -> str:
        paid = await ctx.callback("Payment")
        await ctx.step("tell", lambda: paid.url)
        await ctx.progress(paid.url)
        await ctx.rfc(told, paid.url)
        await ctx.wait_for_user(f"Paid at {paid.url}?", assignees=ASKED, metadata={"at": paid.url})
        return paid.url

    @app.workflow
    async def told(_: Context, url: str) -> str:
        return url


@asynccontextmanager
async def paying(folder: Path) -> AsyncIterator[Keyed]:
    clock = VirtualClock()
    app = new_app(folder, clock=clock, public_url="https://signoff.example")
    register(app)
    async with serving(app, require_auth=True) as server:
        yield Keyed(server, app, clock)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: paying(tmp_path_factory.mktemp("secrets"))) as here:
        with here.service("op", [Role.OPERATOR]) as operator:
            start(operator, "pay", "pay")
            for _, entry in events(operator, "pay"):
                if "Paid at" in (entry.get("name") or ""):
                    assert f"pay.{entry['n']}" == QUESTION
                    break
        yield here


def read(http: httpx.Client) -> dict[str, str]:
    """All that a client may read, by its path."""
    pages = {}
    for path in (
        "/v1/runs",
        "/v1/runs?workflow=told",
        "/v1/runs/pay",
        "/v1/runs/pay/journal",
        f"/v1/runs/{CHILD}",
        f"/v1/runs/{CHILD}/result",
        "/v1/questions",
        f"/v1/questions/{QUESTION}",
        "/v1/audit",
        f"/v1/promises/{QUESTION}",
    ):
        page = http.get(path)
        if page.status_code == 200:
            pages[path] = page.text
    with http.stream("GET", "/v1/runs/pay/events") as response:
        if response.status_code == 200:
            pages["/v1/runs/pay/events"] = _until_asked(response)
    return pages


def _until_asked(response: httpx.Response) -> str:
    text = ""
    for part in response.iter_text():
        text += part
        if "Paid at" in text:
            break
    return text


@pytest.mark.parametrize("role", READ)
def test_clients_that_may_answer_callbacks_read_their_addresses(here: Keyed, role: Role) -> None:
    with here.service(f"reads-{role.value}", [role]) as http:
        pages = read(http)
    assert {path for path, text in pages.items() if "sgc_" in text} >= {
        "/v1/runs?workflow=told",
        f"/v1/runs/{CHILD}/result",
        "/v1/runs/pay/events",
        "/v1/questions",
    }
    assert not any("sgc_*" in text for text in pages.values())


def test_a_viewer_reads_no_address(here: Keyed) -> None:
    with here.service("viewer", [Role.VIEWER]) as http:
        pages = read(http)
    assert {path for path, text in pages.items() if "sgc_*" in text} >= {
        "/v1/runs?workflow=told",
        f"/v1/runs/{CHILD}/result",
        "/v1/runs/pay/events",
        "/v1/questions",
    }
    for path, text in pages.items():
        assert SECRETS.findall(text) == [], path


def test_a_responder_sees_what_is_decided_on_as_it_is(here: Keyed) -> None:
    """Else an edit of what is proposed would write the asterisks."""
    with here.service("asked", [Role.RESPONDER]) as http:
        pages = read(http)
    assert SECRETS.findall(pages["/v1/questions"]) != []
    assert not any("sgc_*" in text for text in pages.values())
    with here.service("both", [Role.RESPONDER, Role.VIEWER]) as http:
        pages = read(http)
    assert SECRETS.findall(pages["/v1/questions"]) != []
    assert SECRETS.findall(pages["/v1/runs?workflow=told"]) == []


def test_the_page_of_an_answer_link_shows_what_is_decided_on_as_it_is(here: Keyed) -> None:
    with here.service("links", [Role.ADMIN], act_as=True) as http:
        made = http.post(f"/v1/questions/{QUESTION}/links", json={"user_id": "ana"})
        assert made.status_code == 201, made.text
        page = httpx.get(here.server.url + made.json()["path"], trust_env=False)
    assert page.status_code == 200
    assert SECRETS.findall(page.text) != []


def test_a_server_without_sign_in_shows_them(tmp_path: Path) -> None:
    app = new_app(tmp_path, public_url="https://signoff.example")
    register(app)
    with (
        OnThread(lambda: serving(app)) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        start(http, "told", "told", "https://signoff.example/c/sgc_" + "A" * 43)
        assert ended(http, "told")["result"].endswith("A" * 43)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 50, 1000])
@in_asyncio
async def test_an_address_that_comes_in_parts_is_hidden(size: int) -> None:
    secrets = ["sgc_" + letter * 43 for letter in "AB-"]
    body = f'{{"s": "{secrets[0]}", "sg": ["{secrets[1]}"], "sgc": "sgc"}}{secrets[2]}'.encode()

    async def parts(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for at in range(0, len(body), size):
            await send({"type": "http.response.body", "body": body[at : at + size], "more_body": True})
        await send({"type": "http.response.body"})

    said = await shown_to_viewer(parts)
    hidden = b"sgc_" + b"*" * 43
    for secret in secrets:
        body = body.replace(secret.encode(), hidden)
    assert said == body


@in_asyncio
async def test_what_looks_like_a_million_secrets_costs_no_more_than_its_length() -> None:
    """A search from each place where a secret may begin would take hours."""
    body = b"sgc_" * 250_000

    async def parts(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(4):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})

    async with asyncio.timeout(60):
        said = await shown_to_viewer(parts)
    assert len(said) == 4 * len(body)
    assert b"sgc_sgc_" not in said[:-50]


async def shown_to_viewer(app: ASGIApp) -> bytes:
    """Return the body of an app's response as a viewer gets it."""
    sent = list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    viewer = Actor(Identity(Responder("vi", roles=frozenset({"viewer"})), "key"))
    scope = {"type": "http", "method": "GET", "path": "/v1/runs", "signoff.actor": viewer}
    await CallbackSecrets(app)(scope, receive, send)
    return b"".join(message.get("body", b"") for message in sent)
