"""Bulk answers: each counts by itself, whatever its author and the results of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AlreadySettled, AsyncClient, GivenAnswer, Promise
from signoff.errors import InvalidValue, NotFound, StoreUnavailable
from signoff.people.questions.bulk_answers import MOST_ANSWERS, answer_each
from signoff.server import Server
from tests.server.conftest import app_in, kind, serving
from tests.server.open_questions import open_question
from tests.server.proxied import PROXY, refusals, through
from tests.support import OnThread, asked, in_asyncio, running


def give(http: httpx.Client, *answers: dict[str, Any], **who: Any) -> list[dict[str, Any]]:
    response = http.post("/v1/questions/answers", json={"answers": list(answers), **who})
    assert response.status_code == 200, response.text
    return response.json()["items"]


def outcomes(items: list[dict[str, Any]]) -> list[str]:
    """``pending``, ``resolved`` or the problem of each."""
    return [
        item["question"]["state"]
        if "question" in item
        else item["problem"]["type"].removeprefix("urn:signoff:")
        for item in items
    ]


def test_each_answer_counts_by_itself_and_in_order(http: httpx.Client, name: str) -> None:
    first, mine, theirs, several = (
        open_question(http, f"{name}-1"),
        open_question(http, f"{name}-2", assignees=["user:ana"]),
        open_question(http, f"{name}-3", assignees=["user:bob"]),
        open_question(http, f"{name}-4", quorum=[2, 3]),
    )
    items = give(
        http,
        {"question_id": first, "value": "banana"},
        {"question_id": first, "value": True, "note": "fine", "request_id": name},
        {"question_id": first, "value": False},
        {"question_id": theirs, "value": True},
        {"question_id": "none", "value": True},
        {"question_id": mine, "value": True, "digest": "another"},
        {"question_id": mine, "value": False},
        {"question_id": several, "value": True},
        {"question_id": first, "value": True, "request_id": name},
        user_id="ana",
    )
    assert outcomes(items) == [
        "WrongAnswer",
        "resolved",
        "AlreadySettled",
        "NotAllowed",
        "NotFound",
        "WrongAnswer",
        "resolved",
        "pending",
        "resolved",
    ]
    assert [item["question_id"] for item in items[:2]] == [first, first]
    assert items[0]["problem"]["fields"][0]["field"] == "approved"
    assert [item["problem"]["status"] for item in items if "problem" in item] == [422, 409, 403, 404, 422]
    assert http.get(f"/v1/questions/{theirs}").json()["state"] == "pending"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"answers": [{"question_id": "q"}]},
        {"answers": [{"question_id": "q", "value": True, "user_id": "ana"}]},
        {"answers": [], "user_id": "signoff:timeout"},
        {"answers": [{"question_id": "q", "value": True}] * (MOST_ANSWERS + 1)},
    ],
    ids=["nothing", "no value", "a person each", "nobody's name", "too many"],
)
def test_what_is_wrong_as_a_whole_answers_nothing(http: httpx.Client, body: dict[str, Any]) -> None:
    refused = http.post("/v1/questions/answers", json=body)
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")


def test_no_answers_are_none(http: httpx.Client) -> None:
    assert give(http) == []


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("bulk"))
    with OnThread(lambda: serving(app, proxy=PROXY)) as served:
        yield served


def test_behind_a_proxy_each_answer_needs_the_right_to_give_it(proxied: Server, name: str) -> None:
    with through(proxied, "olga", roles="operator") as operator, through(proxied, "ana") as ana:
        for n, assignees in enumerate((["user:ana"], ["user:bob"], ["group:desk"])):
            started = operator.post(
                "/v1/runs", json={"workflow": "sign", "id": f"{name}-{n}", "args": [assignees]}
            )
            assert started.status_code == 201
        mine, theirs, desks = (next(questions_of(operator, f"{name}-{n}")) for n in range(3))
        answers = [{"question_id": each, "value": True} for each in (theirs, desks, mine)]
        assert outcomes(give(ana, *answers, user_id="bob")) == ["AccessDenied"] * 3
        assert outcomes(give(ana, *answers, groups=["desk"])) == ["AccessDenied"] * 3
        assert outcomes(give(ana, *answers)) == ["NotAllowed", "NotAllowed", "resolved"]
        assert refusals(operator, theirs) == [("ana", "AccessDenied")] * 2 + [("ana", "NotAllowed")]
        assert ana.get(f"/v1/questions/{mine}").json()["settled_by"] == "ana"


def questions_of(http: httpx.Client, run_id: str) -> Iterator[str]:
    while True:
        for item in http.get("/v1/questions", params={"run_id": run_id}).json()["items"]:
            yield item["id"]


@in_asyncio
async def test_a_client_says_the_same_of_a_store_and_of_a_server(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with running(app) as local, Server(app, port=0) as server, AsyncClient(server.url) as far:
        for client in (local, far):
            handles = [await client.start("ask") for _ in range(2)]
            ids = [await first_question(client, handle.id) for handle in handles]
            said = await client.inbox.answer_all(
                [
                    GivenAnswer(ids[0], True, note="fine"),
                    GivenAnswer(ids[0], False),
                    GivenAnswer(ids[1], False),
                ],
                user_id="ana",
            )
            assert [type(each) for each in said] == [Promise, AlreadySettled, Promise]
            assert await handles[0].result() == {"approved": True, "by": "ana", "note": "fine"}
            assert (await handles[1].result())["approved"] is False
            with pytest.raises(InvalidValue):
                await client.inbox.answer_all([GivenAnswer("q", True)] * (MOST_ANSWERS + 1))


async def first_question(client: AsyncClient, run_id: str) -> str:
    while True:
        if questions := await asked(client, run_id):
            return questions[0].id


@in_asyncio
async def test_once_the_store_is_gone_the_rest_is_not_tried_and_fails_likewise() -> None:
    tried: list[str] = []

    async def answer(given: GivenAnswer) -> Promise:
        tried.append(given.question_id)
        raise NotFound("question", "a") if given.question_id == "a" else StoreUnavailable("db", "it is gone")

    said = await answer_each([GivenAnswer(id, True) for id in "abcd"], answer)
    assert [type(each) for each in said] == [NotFound, *[StoreUnavailable] * 3]
    assert tried == ["a", "b"]
