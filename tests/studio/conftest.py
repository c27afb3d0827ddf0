"""Studio in a real browser, in front of a real server and worker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from signoff.server import Server
from tests.chromium import ARGUMENTS, CHROMIUM
from tests.server.conftest import app_in, open_trail, serving
from tests.support import OnThread

__all__ = ["open_trail"]

WALKS: Final = {
    "test_places": None,  # its own marks leave each page once
    "test_inbox": None,
    "test_all_like": ("test_what_is_said_before_is_what_is_approved_afterwards",),
    "test_answer_links": ("test_axe_finds_nothing_serious_on_a_links_page[dark phone-approval]",),
    "test_badge": (),
    "test_bulk": ("test_all_that_are_shown_are_rejected_with_one_reason_by_keys",),
    "test_crowded_inbox": (),
    "test_deciding": (
        "test_a_question_is_claimed_and_released_by_a_key",
        "test_a_question_is_delegated_by_keys_and_a_refusal_keeps_the_input",
        "test_of_several_who_decide_each_sees_who_has_voted",
        "test_on_a_phone_nothing_is_wider_than_the_page",
    ),
    "test_forms": (
        "test_a_form_is_filled_by_keyboard_and_reports_errors_at_once",
        "test_changes_of_a_proposal_are_shown_while_typing_and_reach_the_run",
    ),
    "test_graph": ("test_a_waiting_chunk_links_to_its_question_and_updates_live",),
    "test_groups_said": (),
    "test_hostile_questions": (
        "test_a_pattern_too_slow_for_the_browser_is_checked_by_the_server[slow pattern]",
        "test_what_is_too_much_for_a_form_is_answered_as_json[many values]",
        "test_of_many_options_those_with_the_words_typed_are_shown[some of many]",
        "test_a_proposal_of_many_rows_is_edited_as_json",
    ),
    "test_live": None,
    "test_many_tabs": ("test_where_a_browser_has_no_locks_each_tab_has_its_own_stream",),
    "test_origins": ("test_a_questions_page_says_from_where_it_was_answered_and_claimed",),
    "test_palette": ("test_it_goes_to_a_question_approves_it_and_goes_to_its_run",),
    "test_plain_pages": (
        "test_the_navigation_has_what_a_role_allows[responder-places0]",
        "test_a_schedule_is_made_paused_resumed_and_deleted",
        "test_a_group_is_paused_resumed_and_limited",
        "test_a_failing_item_is_shown_to_operators_until_it_is_repaired",
        "test_a_keys_secret_is_shown_once_and_opens_what_was_chosen",
    ),
    "test_prefix": ("test_events_are_shown_and_decisions_arrive_under_a_prefix[taken off]",),
    "test_runs": (
        "test_a_runs_timeline_grows_while_one_looks",
        "test_a_run_is_cancelled_by_who_looks_at_it",
        "test_a_failure_is_shown_with_its_traceback",
    ),
    "test_promises": (
        "test_an_invocation_leads_to_its_tree_whose_plain_promise_an_operator_resolves",
        "test_hostile_names_missing_makers_and_cycles_are_shown",
    ),
    "test_samples": (),
    "test_start": ("test_a_run_gets_what_was_typed",),
    "test_views": ("test_the_search_is_reached_by_a_key_and_finds_words_in_any_order",),
}
"""A walk through what a person does on each page, by file; None: all of it. The other tests of these files are long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in filter(_is_here, items):
        walks = WALKS.get(item.path.stem)
        if walks is not None and not {item.name, item.name.partition("[")[0]} & {*walks}:
            item.add_marker(pytest.mark.long)
        if CHROMIUM is None:
            item.add_marker(pytest.mark.skip(reason="Chromium is not installed; .ci/packages installs it"))


def _is_here(item: pytest.Item) -> bool:
    return "/studio/" in item.path.as_posix()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the tests of a file: lists have what they have put there, and no more."""
    with OnThread(lambda: serving(app_in(tmp_path_factory.mktemp("studio")))) as server:
        yield server


@pytest.fixture
def http(served: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as client:
        yield client


@pytest.fixture
def name() -> str:
    """An id that no other test uses."""
    return f"run-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")  # no longer: its event loop runs on this thread
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def expected_message() -> str | None:
    """What the browser says of the faults of a test, which gives another value by ``parametrize``."""
    return None


@pytest.fixture
def page(browser: Browser, served: Server, expected_message: str | None) -> Iterator[Page]:
    """A new window without a user name, in which no script may fail and nothing is loaded from elsewhere."""
    context = browser.new_context(base_url=served.url)
    trouble: list[str] = []

    def told(message: ConsoleMessage) -> None:
        refused = (
            "the server responded with a status of 4" in message.text
        )  # said by the browser, not by the page
        if expected_message is not None and expected_message in message.text:
            return
        if message.type in ("error", "warning") and not refused:
            trouble.append(message.text)

    context.on("console", told)
    context.on("weberror", lambda error: trouble.append(str(error.error)))
    context.on(
        "request", lambda request: request.url.startswith(served.url) or trouble.append(f"asks {request.url}")
    )
    yield context.new_page()
    context.close()
    assert trouble == []
