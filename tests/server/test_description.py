"""The API's description is complete, and its examples are valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from signoff.errors import SignoffError
from signoff.records import (
    AuditEvent,
    Entry,
    Group,
    Promise,
    Rule,
    Run,
    Schedule,
    Session,
    Token,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery
from signoff.records.failed_items import SetAsideItem
from signoff.records.invocations import InvocationInfo
from signoff.records.timeline import TimelineChange
from signoff.server.http.problems import STATUS, status_of
from signoff.server.openapi.document import TAGS
from signoff.server.openapi.examples import PROBLEMS, RECORDS
from signoff.wire.records import from_problem, from_wire, to_problem, to_wire
from tests.server.described import bodies, examples, operations
from tests.server.proxied import PROXY
from tests.server.schema_checks import BEHIND_PROXY, LAPTOP, check

OPERATIONS = {f"{method} {path}": operation for method, path, operation in operations(LAPTOP)}


def replies(operation: dict[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for status, reply in operation["responses"].items():
        for media_type, content in reply.get("content", {}).items():
            yield int(status), media_type, content


@pytest.mark.parametrize("route", OPERATIONS)
def test_each_route_says_what_it_replies_with_by_an_example(route: str) -> None:
    good = [content for status, _, content in replies(OPERATIONS[route]) if status < 300]
    assert good, f"{route}: say what it gives: @router.get(..., responses=gives(Run, NotFound))"
    for content in good:
        assert content.get("schema"), f"{route}: say what it gives: responses=gives(Run, NotFound)"
        assert examples(content), f"{route}: what it gives needs an example: json_schema_extra=example(...)"


@pytest.mark.parametrize(
    "route", [route for route, operation in OPERATIONS.items() if "requestBody" in operation]
)
def test_each_body_has_an_example_that_its_schema_allows(route: str) -> None:
    found = bodies(LAPTOP, OPERATIONS[route])
    assert found, f"{route}: its body needs an example: class Put(Body, json_schema_extra=example(...))"
    for schema, example in found:
        check(LAPTOP, schema, example)


@pytest.mark.parametrize("described", [LAPTOP, BEHIND_PROXY], ids=["laptop", "proxy"])
def test_each_example_of_a_reply_is_what_its_schema_says(described: dict[str, Any]) -> None:
    checked = 0
    for _, _, operation in operations(described):
        for status, media_type, content in replies(operation):
            assert (media_type == "application/problem+json") == (status >= 400)
            for example in examples(content):
                check(described, content["schema"], example)
                checked += 1
                assert status < 400 or example["status"] == status
    assert checked > 300


@pytest.mark.parametrize("route", OPERATIONS)
def test_each_route_has_a_name_a_summary_and_a_known_tag(route: str) -> None:
    operation = OPERATIONS[route]
    assert operation["summary"]
    assert operation["description"]
    assert set(operation["tags"]) <= {tag["name"] for tag in TAGS}, (
        "describe a new tag in server/openapi/document.py"
    )


def test_no_two_operations_have_one_name() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    assert "follow_journal" in names  # and not with its path


def test_each_parameter_in_a_path_has_an_example() -> None:
    for operation in OPERATIONS.values():
        for parameter in operation.get("parameters", ()):
            is_there = parameter["in"] != "path" or parameter["example"]
            assert is_there, f"add {parameter['name']} to PATH_EXAMPLES in server/openapi/examples.py"


def test_every_error_with_a_status_has_an_example_that_is_read_back() -> None:
    described_elsewhere = {kind for kind in STATUS if kind not in PROBLEMS}
    assert {kind.__name__ for kind in described_elsewhere} <= {"LeaseLost", "TaskConflict"}, (
        "add it to server/openapi/examples.py"
    )
    for kind, error in PROBLEMS.items():
        again = from_problem(to_problem(error))
        assert type(again) is kind
        assert str(again) == str(error)
        assert status_of(kind) in range(400, 600)


def test_every_record_has_an_example_that_is_read_back() -> None:
    kinds = (
        Run,
        Promise,
        Entry,
        AuditEvent,
        Group,
        WorkerInfo,
        WorkflowInfo,
        Schedule,
        Token,
        Delivery,
        Rule,
        Session,
        SetAsideItem,
        TimelineChange,
        InvocationInfo,
    )
    assert set(kinds) == set(RECORDS)
    for kind in kinds:
        written = to_wire(RECORDS[kind])
        assert to_wire(from_wire(kind, written)) == written


def test_what_stores_and_servers_say_to_each_other_is_not_described() -> None:
    assert not [path for path in LAPTOP["paths"] if path.startswith("/v1/store")]


def test_behind_a_proxy_every_route_for_people_needs_a_user() -> None:
    scheme = BEHIND_PROXY["components"]["securitySchemes"]["person"]
    assert scheme["name"] == PROXY.user_header
    for _, path, operation in operations(BEHIND_PROXY):
        needs = path.startswith("/v1/")
        assert (operation.get("security") == [{"key": []}, {"person": []}]) == needs
        assert ("401" in operation["responses"]) == needs


def test_on_a_laptop_a_key_may_be_given_and_need_not() -> None:
    assert set(LAPTOP["components"]["securitySchemes"]) == {"key"}
    for _, path, operation in operations(LAPTOP):
        needs = path.startswith("/v1/")
        assert (operation.get("security") == [{"key": []}, {}]) == needs
        assert ("401" in operation["responses"]) == needs  # an invalid key


def test_an_error_of_ours_without_a_status_is_a_500() -> None:
    assert status_of(type("Surprise", (SignoffError,), {})) == 500
