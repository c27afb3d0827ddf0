"""Studio's plain pages: actions work, refusals are shown, and roles see what they may."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from signoff.records import AuditKind, WorkerInfo
from signoff.server import Server
from signoff.stores.remote.store import RemoteStore
from tests.cli.commands import until
from tests.server.conftest import asked, path_of, start
from tests.server.proxied import through
from tests.studio.patience import patient
from tests.studio.pictures import take_picture
from tests.studio.places import furnished, serving_rooms
from tests.support import OnThread

Windows = Callable[..., Page]


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with furnished(tmp_path_factory.mktemp("rooms")) as server:
        yield server


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on which nothing has happened."""
    with OnThread(lambda: serving_rooms(tmp_path_factory.mktemp("bare"))) as server:
        yield server


@pytest.fixture
def http(rooms: Server) -> Iterator[httpx.Client]:
    with through(rooms, "root", roles="admin") as client:
        yield client


@pytest.fixture
def window(browser: Browser, rooms: Server) -> Iterator[Windows]:
    """Opens a page as a user with a role."""
    contexts = []

    def opened(address: str, role: str = "operator", user: str = "ana") -> Page:
        said = {"X-Forwarded-User": user, "X-Forwarded-Roles": role}
        context = browser.new_context(
            base_url=rooms.url, extra_http_headers=said, permissions=["clipboard-read", "clipboard-write"]
        )
        patient(context)
        contexts.append(context)
        page = context.new_page()
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()


def row(page: Page, text: str):
    return page.get_by_role("row").filter(has_text=text)


# Who may


@pytest.mark.parametrize(
    ("role", "places"),
    [
        ("responder", ["Inbox", "Rules"]),
        (
            "viewer",
            ["Inbox", "Runs", "Promises", "Sessions", "Schedules", "Workers", "Rules", "Audit", "Deliveries"],
        ),
    ],
)
def test_the_navigation_has_what_a_role_allows(window: Windows, role: str, places: list[str]) -> None:
    page = window("/inbox", role)
    navigation = page.get_by_role("navigation", name="Studio")
    expect(navigation.get_by_text("ana")).to_be_visible()
    expect(navigation.get_by_role("link")).to_have_text(places)


@pytest.mark.parametrize(
    "address", ["/keys", "/schedules", "/workers", "/audit", "/deliveries", "/sessions/x"]
)
def test_an_address_that_a_role_does_not_open_says_why(window: Windows, address: str) -> None:
    page = window(address, "responder")
    expect(page.get_by_role("alert").filter(has_text="needs a role with access").first).to_be_visible()


@pytest.mark.parametrize("address", ["/schedules", "/workers", "/deliveries", "/rules?ended=true"])
def test_who_only_looks_is_offered_nothing_that_would_be_refused(window: Windows, address: str) -> None:
    page = window(address, "viewer")
    expect(page.get_by_role("row").nth(1)).to_be_visible()
    for name in ("Pause", "Resume", "Delete", "Limit", "Revoke", "Send again", "New schedule"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)


@pytest.mark.parametrize(
    ("address", "title", "command"),
    [
        ("/keys", "Keys need an authenticated caller", "signoff keys list"),
        ("/audit", "The audit trail needs an authenticated caller", "signoff audit list"),
        ("/audit?question=none", "The audit trail needs an authenticated caller", "signoff audit list"),
    ],
)
def test_pages_closed_without_keys_show_how_to_read_them_and_make_a_key(
    page: Page, address: str, title: str, command: str
) -> None:
    page.goto(address)
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.get_by_text(command)).to_be_visible()
    expect(page.get_by_text("signoff keys create NAME --role admin")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("link", name="API keys")).to_have_count(0)
    expect(page.get_by_role("link", name="Export all")).to_have_count(0)


@pytest.mark.parametrize(
    ("address", "taught"),
    [
        ("/promises", "signoff server --resonate"),
        ("/promises?view=open", "signoff resolve payment-o-1"),
        ("/sessions", "signoff start chat --session"),
        ("/schedules", "signoff schedules create nightly"),
        ("/rules", "for a day at most"),
        ("/audit", "signoff audit verify"),
        ("/deliveries", "signoff server --channels"),
        ("/keys", "sends a key with each request"),
        ("/keys?kind=worker", "authenticates with a key"),
    ],
)
def test_a_page_that_has_nothing_to_show_teaches_what_it_would_show(
    browser: Browser, bare: Server, address: str, taught: str
) -> None:
    said = {"X-Forwarded-User": "ana", "X-Forwarded-Roles": "admin"}
    context = browser.new_context(base_url=bare.url, extra_http_headers=said)
    page = context.new_page()
    page.goto(address)
    expect(page.get_by_role("main").get_by_text(taught)).to_be_visible()
    take_picture(page, f"empty {address.strip('/')}")
    context.close()


# What is done


def test_a_session_leads_to_its_chain_of_runs(window: Windows) -> None:
    page = window("/sessions")
    page.get_by_role("link", name="talk-1").click()
    expect(page.get_by_role("heading", name="talk-1")).to_be_visible()
    expect(page.get_by_text("2 runs")).to_be_visible()
    page.get_by_role("link", name="talk-1-b").click()
    expect(page.get_by_role("heading", name="talk-1-b")).to_be_visible()


def test_a_schedule_is_made_paused_resumed_and_deleted(
    window: Windows, http: httpx.Client, name: str
) -> None:
    page = window("/schedules")
    page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Workflow").fill("echo")
    form.get_by_label("Arguments").fill('{"value": [1, "ü"')
    form.get_by_role("textbox", name="Times").fill("0 25 * * *")
    form.get_by_label("Time zone").fill("Europe/Vienna")
    form.get_by_role("button", name="New schedule").click()
    expect(form.get_by_role("alert")).to_contain_text("not JSON")
    form.get_by_label("Arguments").fill('{"value": [12345678901234567890, "ü"]}')
    form.get_by_role("button", name="New schedule").click()
    expect(form.get_by_role("alert")).to_contain_text("cron")
    expect(form.get_by_label("Name", exact=True)).to_have_value(name)
    form.get_by_role("textbox", name="Times").fill("0 5 * * *")
    form.get_by_role("button", name="New schedule").click()
    expect(form).to_be_hidden()
    made = http.get(f"/v1/schedules/{name}").json()
    assert (made["arguments"], made["timezone"]) == (
        {"args": [], "kwargs": {"value": [12345678901234567890, "ü"]}},
        "Europe/Vienna",
    )
    page.get_by_role("button", name=f"Pause {name}").click()
    expect(row(page, name)).to_contain_text("not while paused")
    page.get_by_role("button", name=f"Resume {name}").click()
    expect(row(page, name)).to_contain_text("in ")
    expect(page.get_by_role("button", name=f"Pause {name}")).to_be_visible()
    row(page, name).get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row(page, name)).to_have_count(0)
    assert http.get(f"/v1/schedules/{name}").status_code == 404


def test_a_schedule_is_edited_in_place_and_keeps_what_is_not_edited(
    window: Windows, http: httpx.Client, name: str
) -> None:
    first = {
        "id": name,
        "workflow": "echo",
        "kwargs": {"value": 12345678901234567890, "more": 1},
        "args": [],
        "cron": "0 3 * * *",
        "priority": 7,
        "concurrency_key": "one",
        "concurrency_limit": 1,
    }
    http.post("/v1/schedules", json=first).raise_for_status()
    page = window("/schedules")
    row(page, name).get_by_role("button", name="Edit").click()
    form = page.get_by_role("dialog")
    expect(form.get_by_label("Arguments")).to_have_value('{"more":1,"value":12345678901234567890}')
    form.get_by_role("textbox", name="Times").fill("0 99 * * *")
    form.get_by_label("Paused").check()
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("cron")
    assert http.get(f"/v1/schedules/{name}").json()["is_paused"] is False
    form.get_by_role("textbox", name="Times").fill("30 4 * * MON")
    form.get_by_label("Time zone").fill("Europe/Vienna")
    form.get_by_label("Missed times").select_option("none")
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    expect(row(page, name)).to_contain_text("30 4 * * MON")
    expect(row(page, name)).to_contain_text("not while paused")
    kept = http.get(f"/v1/schedules/{name}").json()
    assert (kept["timezone"], kept["catch_up"], kept["is_paused"]) == ("Europe/Vienna", "skip", True)
    assert kept["arguments"]["kwargs"] == first["kwargs"]
    assert (kept["priority"], kept["concurrency_key"], kept["concurrency_limit"]) == (7, "one", 1)
    row(page, name).get_by_role("button", name="Edit").click()
    expect(form.get_by_label("Paused")).to_be_checked()
    form.get_by_label("Paused").uncheck()
    form.get_by_label("Arguments").fill('{"args": [1], "kwargs": {"more": 2}}')
    form.get_by_role("button", name="Save").click()
    expect(form).to_be_hidden()
    kept = http.get(f"/v1/schedules/{name}").json()
    assert (kept["arguments"], kept["is_paused"]) == ({"args": [1], "kwargs": {"more": 2}}, False)


def test_an_edit_does_not_undo_another_persons_change(window: Windows, http: httpx.Client, name: str) -> None:
    made = {"id": name, "workflow": "echo", "cron": "0 3 * * *"}
    http.post("/v1/schedules", json=made).raise_for_status()
    page = window("/schedules")
    row(page, name).get_by_role("button", name="Edit").click()
    form = page.get_by_role("dialog")
    form.get_by_role("textbox", name="Times").fill("0 4 * * *")
    http.post("/v1/schedules", json=made | {"timezone": "Asia/Tokyo"}).raise_for_status()
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("It was changed meanwhile")
    assert http.get(f"/v1/schedules/{name}").json()["cron"] == "0 3 * * *"
    form.get_by_role("button", name="Cancel").click()
    row(page, name).get_by_role("button", name="Edit").click()
    expect(form.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    http.post(f"/v1/schedules/{name}/delete").raise_for_status()
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_be_visible()
    assert http.get(f"/v1/schedules/{name}").status_code == 404


def test_a_new_schedule_does_not_change_the_one_that_has_the_name(
    window: Windows, http: httpx.Client
) -> None:
    page = window("/schedules")
    page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("nightly")
    form.get_by_label("Workflow").fill("explode")
    form.get_by_role("textbox", name="Times").fill("* * * * *")
    form.get_by_role("button", name="New schedule").click()
    expect(form.get_by_role("alert")).to_contain_text("already")
    assert http.get("/v1/schedules/nightly").json()["workflow"] == "echo"


def held_by(rooms: Server, key: str, group: str, id: str) -> None:
    """Have a worker of a group hold its one run, and be heard of no more."""

    async def hold(store: RemoteStore) -> None:
        await store.enlist(WorkerInfo(id, "host", 7, time.time(), group))
        [claim] = await store.claim(id, group, ["echo"], 1)
        assert claim.run.group == group

    with_store(rooms, key, hold)


def with_store(rooms: Server, key: str, do: Callable[[RemoteStore], Awaitable[None]]) -> None:
    """Do what a remote worker does."""

    async def play() -> None:
        store = RemoteStore(rooms.url, key=key)
        await store.open()
        await do(store)
        await store.close()

    # this thread has the browser's event loop
    thread = threading.Thread(target=asyncio.run, args=(play(),))
    thread.start()
    thread.join()


def test_a_group_shows_what_waits_who_works_and_what_each_holds(
    window: Windows, http: httpx.Client, rooms: Server, name: str
) -> None:
    start(http, "echo", f"{name}-held", group=name)
    made = http.post("/v1/keys", json={"name": name, "kind": "worker", "groups": [name]}).json()
    held_by(rooms, made["secret"], name, f"worker-{name}")
    start(http, "echo", f"{name}-waits", "Hello", group=name)
    page = window("/workers")
    worker = page.get_by_role("table", name="Workers").get_by_role("row").filter(has_text=f"worker-{name}")
    worker.get_by_text("1 run").click()
    expect(worker.get_by_role("link", name=f"{name}-held")).to_be_visible()
    worker.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.get_by_text("1 running")).to_be_visible()
    running = page.get_by_role("table", name="Running")
    expect(running.get_by_role("row").filter(has_text=f"{name}-held")).to_contain_text(f"worker-{name}")
    waiting = page.get_by_role("table", name="Waiting for a worker")
    expect(waiting.get_by_role("row").filter(has_text=f"{name}-waits")).to_contain_text('echo("Hello")')
    page.get_by_role("button", name=f"Pause {name}").click()
    expect(page.get_by_text("no worker takes its runs")).to_be_visible()
    page.get_by_role("button", name=f"Resume {name}").click()
    expect(page.get_by_text("no worker takes its runs")).to_be_hidden()
    page.get_by_role("button", name="Limit").click()
    page.get_by_role("dialog").get_by_label("Runs at once").fill("3")
    page.get_by_role("dialog").get_by_role("button", name="Limit").click()
    expect(page.get_by_text("3 at once")).to_be_visible()


def test_workers_show_their_builds_and_a_group_with_mixed_ones_is_named(
    window: Windows, http: httpx.Client, rooms: Server, name: str
) -> None:
    made = http.post("/v1/keys", json={"name": name, "kind": "worker", "groups": [name]}).json()
    new = WorkerInfo(f"new-{name}", "host", 7, time.time(), name, build="8f3a9c1", python_version="3.13.1")
    with_store(rooms, made["secret"], lambda store: store.enlist(new))
    page = window(f"/groups/{name}")
    workers = page.get_by_role("table", name="Workers")
    expect(workers.get_by_role("row").filter(has_text=new.id)).to_contain_text("8f3a9c1")
    expect(workers.get_by_role("row").filter(has_text=new.id)).to_contain_text("Python 3.13.1")
    expect(page.get_by_role("note")).to_be_hidden()
    old = WorkerInfo(f"old-{name}", "host", 8, time.time(), name)
    with_store(rooms, made["secret"], lambda store: store.enlist(old))
    page = window(f"/groups/{name}")
    expect(workers.get_by_role("row").filter(has_text=old.id)).to_contain_text("unknown")
    said = f"Workers of {name} differ: 1 of build 8f3a9c1, Python 3.13.1; 1 of an unknown version."
    expect(page.get_by_role("note")).to_have_text(said)


def test_a_worker_whose_threads_are_all_taken_says_how_many_steps_wait(
    window: Windows, http: httpx.Client, rooms: Server, name: str
) -> None:
    made = http.post("/v1/keys", json={"name": name, "kind": "worker", "groups": [name]}).json()
    full = WorkerInfo(
        f"full-{name}", "host", 7, time.time(), name, threads=2, threads_busy=2, threads_waiting=3
    )
    with_store(rooms, made["secret"], lambda store: store.enlist(full))
    worker = window(f"/groups/{name}").get_by_role("row").filter(has_text=full.id)
    expect(worker).to_contain_text("2 of 2")
    expect(worker).to_contain_text("full: 3 steps wait")


def test_who_may_not_operate_only_looks_at_a_group(window: Windows) -> None:
    page = window("/groups/gpu", "viewer")
    expect(page.get_by_text("no worker takes its runs")).to_be_visible()
    expect(page.get_by_text("2 at once")).to_be_visible()
    expect(page.get_by_text("signoff worker myapp:app --group gpu")).to_be_visible()
    expect(page.get_by_role("button", name="Resume gpu")).to_be_hidden()


def test_a_group_is_paused_resumed_and_limited(window: Windows, http: httpx.Client, name: str) -> None:
    http.post(f"/v1/groups/{name}/pause").raise_for_status()
    page = window("/workers")
    group = row(page, name)
    page.get_by_role("button", name=f"Resume {name}").click()
    page.get_by_role("button", name=f"Pause {name}").click()
    expect(page.get_by_role("button", name=f"Resume {name}")).to_be_visible()
    group.get_by_role("button", name="Limit").click()
    page.get_by_label("Runs at once").fill("3")
    page.get_by_label("Starts").fill("10")
    page.get_by_role("dialog").get_by_role("button", name="Limit").click()
    expect(page.get_by_role("alert")).to_contain_text("both the number of starts and the seconds")
    page.get_by_label("Starts").fill("")
    page.get_by_role("dialog").get_by_role("button", name="Limit").click()
    expect(group).to_contain_text("3 at once")
    expect(page.get_by_role("row").filter(has_text="pid").filter(has_text="default")).to_contain_text(
        "default"
    )


def test_a_failing_item_is_shown_to_operators_until_it_is_repaired(browser: Browser, tmp_path: Path) -> None:
    with (
        OnThread(lambda: serving_rooms(tmp_path)) as server,
        closing(sqlite3.connect(tmp_path / "signoff.db", isolation_level=None)) as database,
        through(server, "root", roles="admin") as http,
    ):
        database.execute(
            "CREATE TRIGGER poison BEFORE UPDATE ON promises BEGIN SELECT RAISE(ABORT, 'budget is spent'); END"
        )
        body = {"id": "payment-o-1", "timeout_seconds": 0.01}
        http.post("/v1/promises", json=body).raise_for_status()
        until(lambda: http.get("/v1/set-aside").json()["items"])
        pages: list[Page] = []
        for role in ("viewer", "operator"):
            said = {"X-Forwarded-User": "ana", "X-Forwarded-Roles": role}
            context = browser.new_context(base_url=server.url, extra_http_headers=said)
            patient(context)
            pages.append(context.new_page())
            pages[-1].goto("/workers")
        viewer, operator = pages
        item = operator.get_by_role("table", name="Failing items").get_by_role("row").nth(1)
        for part in ("promise", "payment-o-1", "budget is spent"):
            expect(item).to_contain_text(part)
        take_picture(operator, "failing items")
        expect(viewer.get_by_role("table", name="Workers")).to_be_visible()
        expect(viewer.get_by_role("heading", name="Failing items")).to_be_hidden()
        database.execute("DROP TRIGGER poison")
        expect(operator.get_by_role("heading", name="Failing items")).to_be_hidden()
        for page in pages:
            page.context.close()


def test_a_rule_is_revoked_by_its_maker_with_a_reason(
    window: Windows, http: httpx.Client, rooms: Server, name: str
) -> None:
    start(http, "mail", name, f"{name}@example.org")
    id = asked(http, name)
    alike = {"seconds": 3600, "same": ["/to"], "everywhere": True}
    with through(rooms, name, roles="responder") as maker:
        answer = maker.post(f"/v1/questions/{path_of(id)}/answer", json={"value": True, "alike": alike})
        answer.raise_for_status()
    page = window("/rules", "responder", name)
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Revoke").click()
    page.get_by_label("Reason").fill("the shop was told")
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("heading", name="No rule is in force")).to_be_visible()
    page.get_by_role("button", name="All").click()
    expect(row(page, "send_mail")).to_contain_text(f"by {name}")
    trail = http.get("/v1/audit", params={"question_id": id}).json()["items"]
    assert [event["details"]["reason"] for event in trail if event["kind"] == "rule_revoked"] == [
        "the shop was told"
    ]


def test_the_trail_shows_the_newest_first_and_is_filtered_in_the_address(window: Windows) -> None:
    page = window("/audit")
    expect(row(page, "deploy.1")).to_be_visible()
    page.get_by_label("Question").fill("approved.1")
    page.keyboard.press("Enter")
    expect(row(page, "deploy.1")).to_have_count(0)
    expect(row(page, "approved.1").first).to_contain_text("asked")
    page.get_by_label("Kind of event").select_option("resolved")
    expect(row(page, "approved.1")).to_have_count(1)
    page.reload()
    expect(row(page, "approved.1")).to_have_count(1)
    expect(page.get_by_label("Question")).to_have_value("approved.1")


def test_the_trail_is_filtered_by_everything_that_it_records(window: Windows) -> None:
    page = window("/audit")
    expect(row(page, "deploy.1")).to_be_visible()
    kinds = page.get_by_label("Kind of event").locator("option[value]:not([value=''])")
    assert {kind.get_attribute("value") for kind in kinds.all()} == {kind.value for kind in AuditKind}


@pytest.mark.usefixtures("open_trail")
def test_the_whole_trail_is_saved_as_lines(page: Page, served: Server, name: str, tmp_path: Path) -> None:
    with httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as laptop:
        start(laptop, "ask", name)
        id = asked(laptop, name)
        until(lambda: f'"{id}"' in laptop.get("/v1/audit/export").text)  # what is not sealed yet is not in it
    page.goto("/audit")
    expect(row(page, id)).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Export all").click()
    saved.value.save_as(tmp_path / "audit.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert id in [line["event"]["question_id"] for line in lines]


def test_a_delivery_that_was_given_up_is_sent_again(window: Windows, http: httpx.Client) -> None:
    dead = {"question_id": "deploy.1", "state": "dead"}
    [before] = until(lambda: http.get("/v1/deliveries", params=dead).json()["items"])
    page = window("/deliveries?state=dead")
    delivery = row(page, "deploy.1")
    expect(delivery).to_contain_text("the mailbox is full")
    delivery.get_by_role("button", name="Send again").click()

    def sent_again() -> bool:
        [found] = http.get("/v1/deliveries", params={"question_id": "deploy.1"}).json()["items"]
        return found["state"] == "dead" and found["ended_at"] > before["ended_at"]

    until(sent_again)
    expect(delivery).to_be_visible()


def test_a_keys_secret_is_shown_once_and_opens_what_was_chosen(
    window: Windows, rooms: Server, name: str
) -> None:
    page = window("/keys", "admin")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("checkbox", name="operator").uncheck()
    page.get_by_role("checkbox", name="viewer").check()
    page.get_by_role("dialog").get_by_role("button", name="New key").click()
    secret = page.get_by_label("Secret").input_value()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Secret")).to_be_visible()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == secret
    page.get_by_role("button", name="I have saved it").click()
    expect(page.get_by_label("Secret")).to_have_count(0)
    assert secret not in page.content()
    opened = httpx.get(
        f"{rooms.url}/v1/me", headers={"authorization": f"Bearer {secret}"}, trust_env=False, timeout=60
    )
    assert opened.json()["roles"] == ["viewer"]
    row(page, name).get_by_role("button", name="Rotate").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    expect(page.get_by_label("Secret")).not_to_have_value(secret)
    page.get_by_role("button", name="I have saved it").click()
    expect(row(page, name)).to_have_count(2)
    row(page, name).last.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row(page, name).last).to_contain_text("revoked")
