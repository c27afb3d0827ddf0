"""Comments over HTTP: the people who may make them, and those who are notified."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from signoff.server import Server
from tests.server.conftest import app_in, asked, kind, path_of, serving, start
from tests.server.proxied import PROXY, through
from tests.support import OnThread


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("comments"))
    with OnThread(lambda: serving(app, proxy=PROXY)) as served:
        yield served


def put(server: Server, name: str) -> str:
    with through(server, "boss", roles="operator") as http:
        start(http, "sign", name, ["user:ana"])
        return asked(http, name)


@pytest.mark.parametrize(
    ("user", "roles", "refusal"),
    [
        ("ana", "responder", None),
        ("boss", "operator", None),
        ("eve", "responder", "NotAllowed"),
        ("vera", "viewer", "NotAllowed"),
    ],
)
def test_who_sees_a_question_and_may_write_comments_on_it(
    proxied: Server, name: str, user: str, roles: str, refusal: str | None
) -> None:
    path = f"/v1/questions/{path_of(put(proxied, name))}/comments"
    with through(proxied, user, roles=roles) as http:
        said = http.post(path, json={"text": "why?"})
    if refusal is None:
        assert (said.status_code, said.json()["by"], said.json()["details"]["text"]) == (200, user, "why?")
    else:
        assert (said.status_code, kind(said)) == (403, refusal)


def test_no_user_comments_in_anothers_name(proxied: Server, name: str) -> None:
    path = f"/v1/questions/{path_of(put(proxied, name))}/comments"
    with through(proxied, "ana") as http:
        said = http.post(path, json={"text": "why?", "user_id": "bob"})
    assert (said.status_code, kind(said)) == (403, "AccessDenied")


def test_a_comment_is_made_once_for_a_key_and_the_inbox_notified(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    path, said = f"/v1/questions/{path_of(id)}/comments", {"text": "why?", "user_id": "ana"}
    with http.stream("GET", "/v1/questions/events", params={"run_id": name}) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("id: ")
        keyed = {"idempotency-key": "one"}
        made, again = (http.post(path, json=said, headers=keyed).json() for _ in range(2))
        assert again | made == again  # which may be sealed by now
        assert next(line for line in lines if line == "event: changed")
    other = http.post(path, json=said | {"text": "why not?"}, headers=keyed)
    assert (other.status_code, kind(other)) == (409, "RequestConflict")


def test_a_user_comments(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    refused = http.post(f"/v1/questions/{path_of(asked(http, name))}/comments", json={"text": "why?"})
    assert (refused.status_code, kind(refused)) == (403, "NotAllowed")
