"""docs/http-api.md describes refusals and repetitions correctly."""

from __future__ import annotations

import re
from pathlib import Path

from signoff.codec import MAX_BYTES
from signoff.server.auth.roles import RIGHTS
from signoff.server.feeds import inbox_feed
from signoff.server.http import request_bodies
from signoff.server.http.problems import status_of
from signoff.server.http.request_bodies import LIMIT
from signoff.server.limits import headers as heads
from signoff.server.limits import requests, streams
from signoff.server.openapi.examples import PROBLEMS
from signoff.server.routes.questions import MANY_NAMES
from signoff.server.routes.standalone_questions import MOST_ASKED
from signoff.stores.contract.wire import PATH
from signoff.stores.shared import listed_payloads
from tests.server.described import description, operations

DOCS = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text()


def test_every_problem_is_documented_with_its_status() -> None:
    documented = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", DOCS, re.MULTILINE)
    assert sorted(documented) == sorted((str(status_of(kind)), kind.__name__) for kind in PROBLEMS)


def test_of_every_write_it_is_documented_what_a_repetition_is_known_by() -> None:
    documented = dict(re.findall(r"^\| `POST (\S+)` \| (.*) \|$", DOCS, re.MULTILINE))
    assert set(documented) == {path for method, path in RIGHTS if method == "POST" and path != PATH}
    for method, path, operation in operations(description()):
        if method == "POST":
            headers = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "header"}
            assert ("Idempotency-Key" in headers) == ("`Idempotency-Key`" in documented[path]), path


def test_the_limits_are_those_of_the_code() -> None:
    assert (MAX_BYTES, LIMIT - MAX_BYTES) == (1024 * 1024, 64 * 1024)
    assert (heads.LONGEST_URL, heads.LONGEST_HEADERS, heads.MOST_HEADERS) == (32 * 1024, 64 * 1024, 100)
    assert (MANY_NAMES, MOST_ASKED, requests.LONGEST_WAIT_SECONDS) == (200, 30_000, 60)
    assert (inbox_feed.KEPT, inbox_feed.KEPT_BYTES, inbox_feed.RESUMED) == (1000, 4 * 1024 * 1024, 200)
    assert (listed_payloads.LISTED_BYTES, listed_payloads.PAGE_BYTES) == (64 * 1024, 4 * 1024 * 1024)
    assert request_bodies.SNAPSHOT_LIMIT == 6 * 1024 * 1024
    assert streams.MOST == {
        "journal": 200,
        "inbox": 1000,
        "changes": 2000,
        "wait": 1000,
        "poll": 2000,
        "mcp": 200,
    }
