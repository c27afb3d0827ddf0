"""Rule: Studio shows what Resonate's workers execute as trees, and operators settle what waits for anybody."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from signoff.server import Server
from signoff.testing import VirtualClock
from tests.server.conftest import app_in, serving, start
from tests.server.proxied import PROXY
from tests.server.resonate.call_trees import call, coded, grow, tags
from tests.server.resonate.speaker import TARGET, Speaker
from tests.studio.patience import patient
from tests.support import OnThread

Windows = Callable[..., Page]

HTML = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("promises"))
    with OnThread(lambda: serving(app, proxy=PROXY, resonate_port=0)) as server:
        yield server


@pytest.fixture(scope="module")
def speaker(served: Server) -> Iterator[Speaker]:
    """Speaks the protocol as a program with a key does."""
    people = {PROXY.user_header: "root", PROXY.roles_header or "": "admin"}
    key = httpx.post(
        f"{served.url}/v1/keys", json={"name": "bot", "roles": ["operator"]}, headers=people, trust_env=False
    ).json()
    app = app_in  # only its server is asked
    with Speaker(served, app, VirtualClock(), key["secret"]) as speaker:  # pyright: ignore[reportArgumentType]
        yield speaker


@pytest.fixture
def window(browser: Browser, served: Server) -> Iterator[Windows]:
    """Opens a page as a user with a role. No script may fail, and none that is not Studio's may run."""
    contexts: list[BrowserContext] = []
    trouble: list[str] = []

    def opened(address: str, role: str = "operator", **options: object) -> Page:
        said = {PROXY.user_header: "ana", PROXY.roles_header or "": role}
        context = browser.new_context(base_url=served.url, extra_http_headers=said, **options)  # type: ignore[arg-type]
        patient(context)
        contexts.append(context)
        context.on("weberror", lambda error: trouble.append(str(error.error)))
        page = context.new_page()
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []


def place(id: str) -> str:
    return f"/promises/{quote(id, safe='')}"


def test_an_invocation_leads_to_its_tree_whose_plain_promise_an_operator_resolves(
    window: Windows, speaker: Speaker, name: str
) -> None:
    grow(speaker, name)
    page = window("/promises")
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text('order("o-1", cents=7)')
    expect(row).to_contain_text("acquired by p")
    row.get_by_role("link", name=name, exact=True).click()
    tree = page.get_by_role("list", name=f"Calls of {name}")
    expect(tree.get_by_role("listitem")).to_have_count(6)
    expect(tree.get_by_role("listitem").nth(0)).to_contain_text(f"{name}:1resolvedlocal call")
    expect(tree.get_by_role("listitem").nth(1)).to_contain_text(f"{name}:1.1")
    expect(tree.get_by_role("link", name="in the inbox")).to_have_attribute(
        "href", f"/inbox/{quote(f'{name}:4', safe='')}"
    )
    expect(tree.get_by_role("button", name="Resolve")).to_have_count(1)
    waiting = tree.get_by_role("listitem").filter(has_text=f"{name}:5")
    waiting.get_by_role("button", name="Resolve").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Value, as JSON").fill('{"cents": ')
    form.get_by_role("button", name="Resolve").click()
    expect(form.get_by_role("alert")).to_contain_text("not JSON")
    form.get_by_label("Value, as JSON").fill('{"cents": 12345678901234567890}')
    form.get_by_label("Note").fill("paid in cash")
    form.get_by_role("button", name="Resolve").click()
    expect(form).to_be_hidden()
    expect(waiting).to_contain_text("resolved")
    expect(tree.get_by_role("button", name="Resolve")).to_have_count(0)
    value = speaker.ask("promise.get", {"id": f"{name}:5"})["promise"]["value"]
    assert base64.b64decode(value["data"]) == b'{"cents":12345678901234567890}'
    page.goto(place(f"{name}:5"))
    expect(page.get_by_text("by ana: paid in cash")).to_be_visible()


def test_a_tree_follows_its_program_and_opens_remote_calls(
    window: Windows, speaker: Speaker, name: str
) -> None:
    grow(speaker, name)
    inner = f"{name}:2.1"
    speaker.create(inner, tags=tags(inner, f"{name}:2", f"{name}:2", scope="local"))
    page = window(place(name))
    page.get_by_role("button", name=f"Calls of {name}:2").click()
    expect(page.get_by_role("list", name=f"Calls of {name}:2")).to_contain_text(inner)
    speaker.settle(inner, data=coded("hello"))
    expect(page.get_by_role("list", name=f"Calls of {name}:2")).to_contain_text('"hello"')
    page.get_by_role("link", name=f"{name}:2", exact=True).click()
    expect(page.get_by_text("pay(7)")).to_be_visible()
    page.get_by_role("button", name="Cancel promise").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel promise").click()
    expect(page.get_by_text("cancelled")).to_be_visible()
    assert speaker.task(f"{name}:2")["state"] == "fulfilled"


def test_what_workers_settle_is_not_settled_here_even_if_its_data_is_left_out(
    window: Windows, speaker: Speaker, name: str
) -> None:
    grow(speaker, name)
    local, remote = f"{name}:6", f"{name}:7"
    long = call("pay", "x" * 70_000)
    speaker.create(local, param=long, tags=tags(local, name, name, scope="local"))
    speaker.create(remote, param=long, tags={**TARGET, **tags(remote, name, remote, scope="global")})
    page = window(place(name))
    tree = page.get_by_role("list", name=f"Calls of {name}")
    expect(tree).to_contain_text(local)
    expect(tree.get_by_role("button", name="Resolve")).to_have_count(1)
    page.goto("/promises?view=open")
    expect(page.get_by_role("link", name=f"{name}:5", exact=True)).to_be_visible()
    for other in (local, remote):
        expect(page.get_by_role("link", name=other, exact=True)).to_have_count(0)


def test_a_plain_promise_is_rejected_with_a_message_and_keyboard_alone(
    window: Windows, speaker: Speaker, name: str
) -> None:
    speaker.create(name)
    page = window("/promises?view=open")
    page.get_by_role("link", name=name).focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Reject").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_label("Message").fill("no money")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("heading", name="Reason")).to_be_visible()
    record = speaker.ask("promise.get", {"id": name})["promise"]
    error = json.loads(base64.b64decode(record["value"]["data"]))
    assert (record["state"], error) == (
        "rejected",
        {"__type": "error", "name": "Rejected", "message": "no money"},
    )


def test_a_run_leads_to_the_promise_that_it_waits_for(window: Windows, served: Server, name: str) -> None:
    people = {PROXY.user_header: "root", PROXY.roles_header or "": "admin"}
    with httpx.Client(base_url=served.url, headers=people, trust_env=False) as http:
        start(http, "promised", name, f"{name}-paid")
        page = window(f"/runs/{name}")
        page.get_by_role("link", name=f"{name}-paid").click()
        expect(page.get_by_text("awaited by run")).to_be_visible()
        page.get_by_role("button", name="Resolve").click()
        page.get_by_role("dialog").get_by_label("Value, as JSON").fill("7")
        page.get_by_role("dialog").get_by_role("button", name="Resolve").click()
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_text("succeeded").first).to_be_visible()


def test_a_value_that_does_not_fit_is_refused_by_name_and_a_late_one_too(
    window: Windows, served: Server, speaker: Speaker, name: str
) -> None:
    people = {PROXY.user_header: "root", PROXY.roles_header or "": "admin"}
    with httpx.Client(base_url=served.url, headers=people, trust_env=False) as http:
        body = {"id": name, "returns": {"type": "integer"}, "data": {"for": "o-1"}}
        http.post("/v1/promises", json=body).raise_for_status()
        page = window(place(name))
        page.get_by_role("button", name="Resolve").click()
        form = page.get_by_role("dialog")
        form.get_by_label("Value, as JSON").fill('"ten"')
        form.get_by_role("button", name="Resolve").click()
        expect(form.get_by_role("alert")).to_contain_text("value: ")
        http.post(f"/v1/promises/{name}/resolve", json={"value": 10}).raise_for_status()
        expect(page.get_by_text("settled")).to_be_visible()  # the page is read again, and the dialog stays
        form.get_by_label("Value, as JSON").fill("11")
        form.get_by_role("button", name="Resolve").click()
        expect(form.get_by_role("alert")).to_contain_text("already")


def test_a_viewer_only_looks(window: Windows, speaker: Speaker, name: str) -> None:
    grow(speaker, name)
    page = window(place(name), "viewer")
    expect(page.get_by_role("list", name=f"Calls of {name}").get_by_role("listitem")).to_have_count(6)
    for verb in ("Resolve", "Reject", "Cancel promise"):
        expect(page.get_by_role("button", name=verb)).to_have_count(0)


def test_hostile_names_missing_makers_and_cycles_are_shown(
    window: Windows, speaker: Speaker, name: str
) -> None:
    root = f"{HTML}{name}"
    speaker.create(root, tags={**TARGET, **tags(root, root, root)}, param=call(HTML, HTML))
    long = f"{name}{'é' * 340}"
    speaker.create(long, tags=tags(long, "nobody", root))
    for id, maker in (("a", "b"), ("b", "a")):
        speaker.create(f"{name}-{id}", tags=tags(f"{name}-{id}", f"{name}-{maker}", root, scope="local"))
    for depth in range(40):
        id = f"{name}-d{depth}"
        speaker.create(id, tags=tags(id, f"{name}-d{depth - 1}", root, scope="local"))
    page = window(place(root), viewport={"width": 390, "height": 800})
    expect(page.get_by_role("list", name="Calls of").get_by_role("listitem")).to_have_count(43)
    expect(page.get_by_text(f'{HTML}("{HTML}")'.replace('"', '"')).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        "nothing is wider than a phone"
    )
    page.get_by_role("link", name=f"{name}-a", exact=True).click()
    page.get_by_role("link", name=f"{name}-b", exact=True).first.click()
    expect(page.get_by_role("heading", name=f"{name}-b")).to_be_visible()
