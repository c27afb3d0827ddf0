"""Runs in Studio: their history, live, and the actions on them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.conftest import asked, ended, path_of, start
from tests.studio.patience import patient


def timeline(page: Page) -> Locator:
    return page.get_by_role("list", name="Timeline")


def test_a_runs_timeline_grows_while_one_looks(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name, f"Pay {name}?")
    id = asked(http, name)
    page.goto(f"/runs/{name}")
    expect(timeline(page).get_by_text("Waits for an answer")).to_be_visible()
    answer = {"value": False, "user_id": "bob", "note": "no money"}
    http.post(f"/v1/questions/{path_of(id)}/answer", json=answer).raise_for_status()
    expect(timeline(page).get_by_text(re.compile("by bob.*: no money"))).to_be_visible()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    expect(page.get_by_text('by: "bob"')).to_be_visible()


HOLDS_THE_RUN_BACK = """
const ask = window.fetch;
window.fetch = async (...what) => {
  const answer = await ask(...what);
  const url = new URL(what[0].url ?? what[0], location.href);
  if (window.held === undefined && /^.v1.runs.[^/]+$/.test(url.pathname)) {
    window.held = true;
    await new Promise((go) => { window.letGo = go; });
  }
  return answer;
};
window.EventSource = class extends EventSource {
  constructor(...what) {
    super(...what);
    this.addEventListener("end", () => { window.hasEnded = true; });
  }
};
"""


def test_a_run_that_ended_before_its_first_look_came_is_looked_at_again(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "ask", name, f"Pay {name}?")
    id = asked(http, name)
    page.add_init_script(HOLDS_THE_RUN_BACK)
    page.goto(f"/runs/{name}")
    page.wait_for_function("() => window.held")
    answer = {"value": True, "user_id": "bob"}
    http.post(f"/v1/questions/{path_of(id)}/answer", json=answer).raise_for_status()
    page.wait_for_function("() => window.hasEnded")
    page.evaluate("window.letGo()")
    expect(page.get_by_role("heading", name="Result")).to_be_visible()


def test_a_question_leads_to_its_run_and_back(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name, f"Pay {name}?")
    id = asked(http, name)
    page.goto(f"/inbox/{path_of(id)}")
    page.get_by_role("article").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.get_by_role("link", name="Waits for an answer").click()
    expect(page.get_by_role("heading", name=f"Pay {name}?")).to_be_focused()


def test_a_failure_is_shown_with_its_traceback(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "explode", name)
    ended(http, name)
    page.goto(f"/runs/{name}")
    expect(page.get_by_role("heading", name="Error")).to_be_visible()
    page.get_by_text("Traceback", exact=True).last.click()
    expect(page.get_by_text("Traceback (most recent call last)").last).to_be_visible()


def test_each_failed_attempt_of_a_step_is_shown(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "flaky", name, 2)
    ended(http, name)
    page.goto(f"/runs/{name}")
    step = timeline(page).get_by_role("listitem").filter(has_text="pay")
    expect(step.get_by_text('"paid"')).to_be_visible()
    step.get_by_text("2 failed attempts").click()
    expect(step.get_by_text("ConnectionError the bank is away")).to_have_count(2)


def test_steps_of_a_loop_are_folded(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "count", name, 30)
    ended(http, name)
    page.goto(f"/runs/{name}")
    steps = timeline(page).get_by_role("listitem").filter(has_text=re.compile("^step"))
    expect(steps).to_have_count(10)
    page.get_by_role("button", name="20 more: step count").click()
    expect(steps).to_have_count(30)
    expect(timeline(page).get_by_text('{"steps":30}')).to_be_visible()


def test_children_of_children_are_reached(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "family", name, 2)
    page.goto(f"/runs/{name}")
    tree = page.get_by_role("list", name="Child runs", exact=True)
    tree.get_by_role("button", name=f"Child runs of {name}.1").click()
    tree.get_by_role("link", name=f"{name}.1.1").click()
    expect(page.get_by_role("heading", name=f"{name}.1.1")).to_be_visible()
    page.get_by_role("link", name=f"{name}.1", exact=True).click()
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def test_a_signal_is_sent_to_who_waits_for_it(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "listen", name, "paid")
    page.goto(f"/runs/{name}")
    expect(timeline(page).get_by_text("paid")).to_be_visible()
    page.get_by_role("button", name="Signal").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("paid")
    page.get_by_label("Value, as JSON").fill("{cents: 7}")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("The value is not JSON")
    page.get_by_label("Value, as JSON").fill('{"cents": 12345678901234567890}')
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert ended(http, name)["result"] == {"cents": 12345678901234567890}
    expect(page.get_by_text("cents: 12345678901234567890").first).to_be_visible()


def test_a_run_is_cancelled_by_who_looks_at_it(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    asked(http, name)
    page.goto(f"/runs/{name}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("by user:me")).to_be_visible()
    assert ended(http, name)["state"] == "cancelled"


AWKWARD: dict[str, Any] = {
    "quotes": 'it\'s "so" $HOME `id` \\ \n',
    "lambda": [1.0, 12345678901234567890, None, True, 1e-7],
    "ключ é😀": {"deep": [[]], "": {}},
}


@pytest.mark.parametrize("kwargs", [AWKWARD, {"group": AWKWARD}], ids=["any names", "names of options"])
@pytest.mark.parametrize("language", ["curl", "Python"])
def test_what_is_copied_starts_the_same_run(
    page: Page, http: httpx.Client, name: str, language: str, kwargs: dict[str, Any]
) -> None:
    start(http, "echo", name, AWKWARD, kwargs=kwargs)
    first = ended(http, name)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    patient(page)
    page.goto(f"/runs/{name}")
    page.get_by_role("button", name=f"Copy as {language}").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied: str = page.evaluate("navigator.clipboard.readText()")
    if language == "curl":
        id = json.loads(printed(["sh", "-c", copied]))["id"]
    else:
        id = printed([sys.executable, "-c", copied]).strip()
    again = ended(http, id)
    assert id != name
    assert exactly(again["arguments"]) == exactly(first["arguments"])
    assert exactly(again["result"]) == exactly(first["result"])


def printed(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def exactly(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # tells 1.0 from 1


def test_a_run_is_started_again_with_an_input_that_was_changed(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "echo", name, {"n": 1.0})
    ended(http, name)
    page.goto(f"/runs/{name}")
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_label("Arguments, as JSON")).to_have_value(re.compile(r'"n": 1\.0'))
    page.get_by_label("Arguments, as JSON").fill('{"args": [2]}')
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Arguments are written as")
    page.get_by_label("Arguments, as JSON").fill('{"args": [2], "kwargs": {}}')
    page.get_by_label("Id of the new run").fill(name)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("with other arguments")
    page.get_by_label("Id of the new run").fill(f"{name}-2")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", name=f"{name}-2")).to_be_visible()
    assert ended(http, f"{name}-2")["result"] == 2


def test_a_run_that_waits_for_its_session_says_so(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name, session_id=name)
    start(http, "ask", f"{name}-2", session_id=name)
    page.goto(f"/runs/{name}-2")
    expect(page.get_by_text("awaits its turn")).to_be_visible()
    page.get_by_role("link", name=f"2 of session {name}").click()
    expect(page.get_by_role("list", name="Runs").get_by_role("link")).to_have_count(2)


def test_runs_are_filtered_by_state_and_workflow_in_the_address(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "ask", name)
    asked(http, name)
    page.goto("/runs?workflow=ask")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.get_by_label("State").select_option("succeeded")
    expect(page.get_by_role("link", name=name)).to_be_hidden()
    expect(page).to_have_url(re.compile(r"workflow=ask.*state=succeeded"))
    page.reload()
    expect(page.get_by_label("State")).to_have_value("succeeded")


def test_runs_come_and_change_while_one_looks(page: Page, http: httpx.Client, name: str) -> None:
    page.goto(f"/runs?session={name}")
    expect(page.get_by_role("heading", name="No such runs")).to_be_visible()
    start(http, "ask", name, session_id=name)
    id = asked(http, name)
    row = page.get_by_role("link", name=name)
    expect(row.get_by_text("paused")).to_be_visible()
    http.post(f"/v1/questions/{path_of(id)}/answer", json={"value": True}).raise_for_status()
    expect(row.get_by_text("succeeded")).to_be_visible()


def test_a_run_is_found_by_what_it_was_given(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "echo", f"{name}-a", f"order-{name}")
    start(http, "echo", f"{name}-b", "other")
    page.goto("/runs")
    page.get_by_label("Find by id or arguments").fill(f"order-{name}")
    expect(page.get_by_role("link", name=f"{name}-a")).to_be_visible()
    expect(page.get_by_role("link", name=f"{name}-b")).to_be_hidden()
    page.get_by_label("Find by id or arguments").fill(f"{name}-b")
    page.get_by_role("link", name="Open the run with the id").click()
    expect(page.get_by_role("heading", name=f"{name}-b")).to_be_visible()


def test_an_id_with_any_characters_has_an_address(page: Page, http: httpx.Client, name: str) -> None:
    id = f"{name}/ü?#% <b>"
    start(http, "echo", id, 1)
    ended(http, id)
    page.goto("/runs")
    page.get_by_role("link", name=id).click()
    expect(page.get_by_role("heading", name=id)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name=id)).to_be_visible()


def test_nothing_that_a_run_was_given_is_invisible(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "echo", name, "pay \u202e001 to\u200b bob")
    ended(http, name)
    page.goto(f"/runs/{name}")
    expect(page.get_by_text("pay \\u202e001 to\\u200b bob").first).to_be_visible()
    assert "\u202e" not in page.inner_text("body")
