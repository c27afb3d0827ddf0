"""The rights of each role: the documented table is the one that the server applies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from signoff.server import Server, create_server_app
from signoff.server.auth.role_refusals import ATTEMPTS
from signoff.server.auth.roles import RIGHTS, Role, rights_on
from signoff.stores.sqlite.store import SqliteStore
from tests.server.conftest import app_in, asked, kind, path_of, serving, start
from tests.server.proxied import PROXY, through
from tests.support import OnThread, in_asyncio

DOCS = Path(__file__).parents[2] / "docs" / "security.md"
ROLES = ("viewer", "responder", "operator", "admin")
DOCUMENTED: dict[tuple[str, str], tuple[str, ...]] = {
    (method, path): tuple(cell.strip() for cell in cells.split("|"))
    for method, path, cells in re.findall(
        r"^\| `(GET|POST) (\S+)` \| (.*) \|$", DOCS.read_text(), re.MULTILINE
    )
}
LACKING = [
    (path.rpartition("/")[2], role.value)
    for (method, path), rights in RIGHTS.items()
    for role in Role
    if method == "POST" and "{question_id}" in path and role not in (rights or {})
]
OPEN = {route for route, rights in RIGHTS.items() if rights is None}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("rights"))
    proxy = type(PROXY)(PROXY.user_header, PROXY.groups_header, PROXY.roles_header, default_role=None)
    with OnThread(lambda: serving(app, proxy=proxy)) as served:
        yield served


def routes(folder: Path) -> set[tuple[str, str]]:
    """All routes that there are."""
    api = create_server_app(SqliteStore(folder / "signoff.db"))
    return {
        (method, route.path or "")
        for route in iter_route_contexts(api.routes)
        for method in (route.methods or {"?"}) - {"HEAD"}
    }


def test_each_route_is_in_the_table_and_the_table_has_no_others(tmp_path: Path) -> None:
    assert len(RIGHTS) > 40
    assert routes(tmp_path) == set(RIGHTS)


def test_each_route_but_the_open_ones_is_documented() -> None:
    assert set(DOCUMENTED) == set(RIGHTS) - OPEN


def test_open_routes_reveal_nothing_or_need_a_secret_or_sign_people_in() -> None:
    assert {path for _, path in OPEN} == {
        *("/health", "/ready", "/metrics"),
        *("/v1/store", "/v1/store/changes"),
        *("/login", "/login/callback", "/logout"),
        *(f"/.well-known/oauth-protected-resource{path}" for path in ("", "/mcp")),
        *("/v1/slack/{channel}/actions", "/l/{secret}", "/c/{secret}"),
        "/assets/{asset}",
    }


def test_each_route_has_its_own_row_and_matches_no_other_routes_requests() -> None:
    assert rights_on("GET", "/v1/groups/x/pause") == {}
    for method, path in RIGHTS:
        assert rights_on(method, re.sub(r"\{\w+\}", "x%2Fy", path)) is RIGHTS[method, path]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path"), sorted(DOCUMENTED))
def test_a_role_opens_what_the_documentation_says(server: Server, method: str, path: str, role: str) -> None:
    may = DOCUMENTED[method, path][ROLES.index(role)]
    assert may in ("yes", "asked", "-")
    with through(server, "ana", roles=role) as http:
        # `asked` needs a question, and this one does not exist
        url, params = re.sub(r"\{\w+\}", "none", path), {"question_id": "none"}
        with http.stream(method, url, params=params) as answer:  # some have no end
            if may == "-":
                answer.read()
                assert (answer.status_code, kind(answer)) == (403, "AccessDenied")
            else:
                refused = {401, 403, 405, 500} - ({405} if (method, path) == ("GET", "/mcp") else set())
                assert answer.status_code not in refused


@pytest.mark.parametrize(("method", "path"), sorted(DOCUMENTED))
def test_no_role_opens_nothing(server: Server, method: str, path: str) -> None:
    with through(server, "ana", roles="approver, Admin, operators") as http:
        answer = http.request(method, path)
    assert (answer.status_code, kind(answer)) == (403, "AccessDenied")


@pytest.mark.parametrize(("method", "path"), sorted(DOCUMENTED))
def test_an_unauthenticated_caller_gets_nothing(server: Server, method: str, path: str) -> None:
    with through(server) as http:
        answer = http.request(method, path)
    assert (answer.status_code, kind(answer)) == (401, "NotAuthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"  # a key would help


@pytest.mark.parametrize(("what", "role"), LACKING)
def test_a_refusal_for_a_missing_role_is_recorded_with_its_question(
    server: Server, what: str, role: str
) -> None:
    id = f"{what}-{role}/1"
    with through(server, "boss", roles="operator") as boss, through(server, "eve", roles=role) as eve:
        start(boss, "ask", id)
        question = asked(boss, id)
        for each in (question, f"{id}.2", "\0"):
            assert eve.post(f"/v1/questions/{path_of(each)}/{what}", json={}).status_code == 403
        trail = boss.get("/v1/audit", params={"question_id": question}).json()["items"]
        assert [event["kind"] for event in trail] == ["asked", "refused"]
        assert (trail[1]["by"], trail[1]["origin"]["way"]) == ("eve", "proxy")
        assert trail[1]["details"]["error"] == "AccessDenied"
        assert trail[1]["details"].get("attempt") == ATTEMPTS[what]


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_probes_need_no_caller(server: Server, path: str) -> None:
    with through(server) as http:
        assert http.get(path).status_code == 200


def test_two_roles_open_what_either_does(server: Server) -> None:
    with through(server, "ana", roles="responder,viewer") as http:
        assert http.get("/v1/runs").status_code == 200
        assert http.post("/v1/questions/none/answer", json={"value": True}).status_code == 404
        assert http.post("/v1/prune", json={"older_than_seconds": 1}).status_code == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/secret"), ("DELETE", "/v1/runs/x"), ("OPTIONS", "/v1/runs"), ("GET", "/v2")],
)
def test_what_is_not_in_the_table_is_refused_to_the_admin(server: Server, method: str, path: str) -> None:
    with through(server, "ana", roles="admin") as http:
        assert kind(http.request(method, path)) == "AccessDenied"


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_another_method_of_an_open_route_is_no_question_of_rights(server: Server, path: str) -> None:
    with through(server) as http:
        refused = http.delete(path)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


@in_asyncio
async def test_a_route_missing_from_the_table_is_refused(tmp_path: Path) -> None:
    api = create_server_app(SqliteStore(tmp_path / "signoff.db"), proxy=PROXY)
    api.add_api_route("/v1/secret", lambda: "secret")
    headers = {"X-Forwarded-User": "ana", "X-Forwarded-Roles": "admin"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(api), base_url="http://localhost", headers=headers
    ) as http:
        assert (await http.get("/v1/secret")).status_code == 403
        assert (await http.get("/docs")).status_code == 200
