"""Admins that state another person's name, group or role, at each route that takes one: refused, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from signoff.server import Role, create_server_app
from signoff.testing import MemoryStore
from tests.server.conftest import asked, path_of, start
from tests.server.keyed import keyed
from tests.server.namespace_bodies import BODIES
from tests.server.proxied import PROXY, through
from tests.support import OnThread

OTHERS: dict[str, Any] = {
    "user_id": "ana",
    "by": "ana",
    "started_by": "user:ana",
    "groups": ["board"],
    "roles": ["chief"],
}
SUBJECTS = {  # what these routes make, not who sends the request
    "/v1/questions/{question_id}/links": {"user_id", "groups", "roles"},
    "/v1/keys": {"groups", "roles"},
}


def fields_of(path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """The fields of a body that say who sends it."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    named = [each.get("$ref") for each in (schema, *schema.get("anyOf", ())) if "$ref" in each]
    found = {field for ref in named for field in schemas[ref.rpartition("/")[2]]["properties"]}
    return sorted(found & OTHERS.keys() - SUBJECTS.get(path, set()))


def routes() -> list[tuple[str, str]]:
    description = create_server_app(MemoryStore()).openapi()
    schemas = description["components"]["schemas"]
    return [
        (path, field)
        for path, operations in description["paths"].items()
        for field in fields_of(path, operations.get("post", {}), schemas)
    ]


ROUTES = routes()


class Place:
    """A server with one of everything, and an admin who comes to it."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        start(http, "sign", "r", ["user:boss", "user:service:boss", "user:carl"], session_id="c")
        self.question = asked(http, "r")
        start(http, "mail", "m", "bob", "Hello", ["user:boss", "user:service:boss"])
        mail = asked(http, "m")
        said = {"value": True, "alike": {"seconds": 60}}
        assert http.post(f"/v1/questions/{path_of(mail)}/answer", json=said).status_code == 200
        assert http.post("/v1/promises", json={"id": "p"}).status_code == 201
        asks = {"session_id": "c", "questions": [self.question]}
        token = http.post("/v1/runs/r/resume-tokens", json=asks).json()["resume_token"]
        answers = {"answers": [{"question_id": self.question, "value": True}]}
        resumes = {"session_id": "c", "resume_token": token, **answers}
        self.bodies = {
            **BODIES,
            "/v1/questions/answers": answers,
            "/v1/resume-tokens/check": resumes,
            "/v1/resume-tokens/answer": resumes,
        }
        [rule] = http.get("/v1/rules").json()["items"]
        self.names = {"run_id": "r", "question_id": path_of(self.question), "promise_id": "p"}
        self.names |= {"rule_id": rule["id"], "link_id": "none"}

    def state(self) -> list[Any]:
        paths = ("/v1/runs", "/v1/rules", "/v1/promises", f"/v1/questions/{path_of(self.question)}")
        return [self.http.get(path).json() for path in paths]


@pytest.fixture(scope="module", params=["proxy", "key"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("names"), proxy=PROXY)) as here:
        if request.param == "proxy":
            with through(here.server, "boss", roles="admin", groups="staff") as http:
                yield Place(http)
        else:
            with here.service("boss", [Role.ADMIN]) as http:
                yield Place(http)


def test_each_route_that_takes_a_name_is_tried() -> None:
    assert len({path for path, _ in ROUTES}) > 20
    assert {field for _, field in ROUTES} == OTHERS.keys()


@pytest.mark.parametrize(("path", "field"), ROUTES)
def test_no_route_takes_another_persons_name(place: Place, path: str, field: str) -> None:
    before = place.state()
    body = {**place.bodies[path], field: OTHERS[field]}
    refused = place.http.post(path.format_map(place.names), json=body)
    problem = refused.json()
    if path == "/v1/questions/answers":
        [one] = problem["items"]
        problem = one["problem"]
    assert (problem["status"], problem["type"]) == (403, "urn:signoff:AccessDenied"), refused.text
    assert place.state() == before
