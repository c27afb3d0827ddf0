"""Resume tokens over HTTP: their rights, and their users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from signoff.people.questions.bulk_answers import MOST_ANSWERS
from signoff.server import Role, Server
from tests.server.conftest import app_in, asked, ended, fields, kind, serving, start
from tests.server.keyed import Keyed, keyed
from tests.server.proxied import PROXY, refusals, through
from tests.support import OnThread

pytestmark = pytest.mark.usefixtures("open_trail")


def turn(http: httpx.Client, name: str, **policy: Any) -> str:
    """Start a run of a session that asks, and return its question."""
    start(http, "approve", name, kwargs=policy, session_id=f"{name}-session")
    return asked(http, name)


def create(http: httpx.Client, name: str, *questions: str, **more: Any) -> httpx.Response:
    body = {"session_id": f"{name}-session", "questions": list(questions), **more}
    return http.post(f"/v1/runs/{name}/resume-tokens", json=body)


def token_of(http: httpx.Client, name: str, *questions: str) -> str:
    made = create(http, name, *questions)
    assert made.status_code == 201, made.text
    return made.json()["resume_token"]


def do(http: httpx.Client, verb: str, name: str, token: str, *answers: Any, **who: Any) -> httpx.Response:
    body = {"session_id": f"{name}-session", "resume_token": token, **who}
    if verb != "read":
        body["answers"] = [{"question_id": id, "value": value} for id, value in answers]
    return http.post(f"/v1/resume-tokens/{verb}", json=body)


def state_of(http: httpx.Client, question: str) -> str:
    return http.get(f"/v1/questions/{question}").json()["state"]


def test_a_token_is_read_and_checked_without_effect_and_answers_once(http: httpx.Client, name: str) -> None:
    question = turn(http, name)
    token = token_of(http, name, question)
    for verb in ("read", "check"):
        good = do(http, verb, name, token, (question, True)).json()
        assert (good["run_id"], list(good["questions"])) == (name, [question])
    assert state_of(http, question) == "pending"
    answered = do(http, "answer", name, token, (question, {"approved": False}))
    assert (answered.status_code, answered.json()) == (200, good)
    assert ended(http, name)["result"]["approved"] is False
    for verb in ("read", "check", "answer"):
        again = do(http, verb, name, token, (question, {"approved": False}))
        assert (again.status_code, kind(again), again.json()["reason"]) == (403, "ResumeRefused", "used")
        assert token not in again.text


@pytest.mark.parametrize("verb", ["check", "answer"])
def test_a_wrong_answer_names_its_field_and_changes_nothing(http: httpx.Client, name: str, verb: str) -> None:
    question = turn(http, name)
    token = token_of(http, name, question)
    for wrong in ("banana", None, {"approved": "yes"}, {"approved": None}):
        refused = do(http, verb, name, token, (question, wrong), user_id="ana")
        assert (refused.status_code, kind(refused)) == (422, "WrongAnswer")
        assert fields(refused)
    assert refusals(http, question) == [("ana", "WrongAnswer")] * 4
    assert state_of(http, question) == "pending"
    assert do(http, "answer", name, token, (question, True)).status_code == 200


def test_what_a_token_is_not_for_is_refused(http: httpx.Client, name: str) -> None:
    question, other = turn(http, name), turn(http, f"{name}-other")
    token = token_of(http, name, question)
    for session, answers, reason in (
        (f"{name}-other", [(other, True)], "foreign"),
        (name, [(other, True)], "question"),
        (name, [(question, True), ("none", True)], "question"),
    ):
        refused = do(http, "answer", session, token, *answers)
        assert (refused.status_code, refused.json()["reason"]) == (403, reason)
    twice = do(http, "answer", name, token, (question, True), (question, False))
    assert (twice.status_code, list(fields(twice))) == (422, ["answers"])
    assert {state_of(http, each) for each in (question, other)} == {"pending"}


@pytest.mark.parametrize("verb", ["check", "answer"])
def test_a_token_answers_all_its_open_questions_or_none(http: httpx.Client, name: str, verb: str) -> None:
    first, second = turn(http, name), turn(http, f"{name}-other")
    token = token_of(http, name, first, second)
    refused = do(http, verb, name, token, (first, True), user_id="ana")
    assert (refused.status_code, kind(refused)) == (403, "ResumeRefused")
    assert (refused.json()["reason"], refused.json()["questions"]) == ("missing", [second])
    assert second in refused.json()["detail"]
    assert [state_of(http, each) for each in (first, second)] == ["pending", "pending"]
    assert refusals(http, second) == [("ana", "ResumeRefused")]
    assert do(http, "answer", name, token, (first, True), (second, False)).status_code == 200
    assert [ended(http, each)["result"]["approved"] for each in (name, f"{name}-other")] == [True, False]


def test_what_was_answered_by_its_id_needs_no_answer_by_the_token(http: httpx.Client, name: str) -> None:
    first, second = turn(http, name), turn(http, f"{name}-other")
    token = token_of(http, name, first, second)
    http.post(f"/v1/questions/{second}/answer", json={"value": False}).raise_for_status()
    assert do(http, "answer", name, token, (first, True)).status_code == 200
    assert [ended(http, each)["result"]["approved"] for each in (name, f"{name}-other")] == [True, False]


def test_a_token_may_be_for_more_questions_than_are_answered_in_bulk(http: httpx.Client, name: str) -> None:
    question = turn(http, name)
    token = token_of(http, name, question)
    others = [f"{name}-{n}" for n in range(MOST_ANSWERS)]
    refused = do(http, "check", name, token, (question, True), *((each, True) for each in others))
    assert (refused.json()["reason"], refused.json()["questions"]) == ("question", others)


@pytest.mark.parametrize(
    ("change", "status", "wrong"),
    [
        ({"session_id": "another"}, 422, "InvalidValue"),
        ({"questions": []}, 422, "InvalidValue"),
        ({"questions": ["none"]}, 404, "NotFound"),
        ({"lifetime_seconds": 0}, 422, "InvalidValue"),
        ({"lifetime_seconds": -1}, 422, "InvalidValue"),
    ],
    ids=str,
)
def test_a_token_needs_a_turn_of_its_session_and_existing_questions(
    http: httpx.Client, name: str, change: dict[str, Any], status: int, wrong: str
) -> None:
    refused = create(http, name, turn(http, name), **change)
    assert (refused.status_code, kind(refused)) == (status, wrong)


def test_no_token_is_made_for_a_run_that_is_none(http: httpx.Client, name: str) -> None:
    refused = create(http, name, "q")
    assert (refused.status_code, kind(refused)) == (404, "NotFound")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("proxied"))
    with OnThread(lambda: serving(app, proxy=PROXY)) as served:
        yield served


@pytest.mark.parametrize("verb", ["check", "answer"])
def test_another_persons_token_is_useless_to_a_non_assignee(proxied: Server, name: str, verb: str) -> None:
    with (
        through(proxied, "op", roles="operator") as op,
        through(proxied, "eve", roles="responder") as eve,
        through(proxied, "ana", groups="finance", roles="responder") as ana,
    ):
        question = turn(op, name, assignees=["group:finance"])
        token = token_of(op, name, question)
        for http, said in ((eve, {}), (eve, {"user_id": "ana"}), (eve, {"groups": ["finance"]}), (op, {})):
            refused = do(http, verb, name, token, (question, True), **said)
            assert (refused.status_code, kind(refused)) in [(403, "NotAllowed"), (403, "AccessDenied")]
        assert [who for who, _ in refusals(op, question)] == ["eve", "eve", "eve", "op"]
        assert create(ana, name, question).status_code == 403
        assert do(ana, "answer", name, token, (question, True)).status_code == 200
        assert op.get(f"/v1/questions/{question}").json()["settled_by"] == "ana"


def test_who_is_only_asked_gives_no_context_with_an_answer(proxied: Server, name: str) -> None:
    with (
        through(proxied, "op", roles="operator") as op,
        through(proxied, "ana", roles="responder") as ana,
    ):
        question = turn(op, name, assignees=["user:ana", "user:op"])
        token = token_of(op, name, question)
        refused = do(ana, "answer", name, token, (question, True), context={"tenant": "t2"})
        assert (refused.status_code, kind(refused)) == (403, "AccessDenied")
        assert state_of(op, question) == "pending"
        for wrong in ("t2", ["t2"]):
            assert do(op, "answer", name, token, (question, True), context=wrong).status_code == 422
        answered = do(op, "answer", name, token, (question, True), context={"tenant": "t2"})
        assert answered.status_code == 200
        ended(op, name)
        told = op.get(f"/v1/runs/{name}/journal").json()["items"]
        assert [each["value"] for each in told if each.get("name") == "signoff.context"] == [{"tenant": "t2"}]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("keyed"))) as here:
        yield here


def test_a_service_uses_a_token_only_for_people_it_may_act_for(keys: Keyed, name: str) -> None:
    with (
        keys.service("plain", [Role.OPERATOR]) as plain,
        keys.service("front", [Role.OPERATOR], act_as=True) as front,
    ):
        question = turn(plain, name)
        token = token_of(plain, name, question)
        refused = do(plain, "answer", name, token, (question, True), user_id="ana")
        assert (refused.status_code, kind(refused)) == (403, "AccessDenied")
        assert do(plain, "answer", name, token, (question, True)).status_code == 403
        assert do(front, "answer", name, token, (question, True), user_id="ana").status_code == 200
        assert front.get(f"/v1/questions/{question}").json()["settled_by"] == "ana"


def test_a_token_that_is_too_old_is_refused(keys: Keyed, name: str) -> None:
    with keys.service("front", [Role.OPERATOR], act_as=True) as http:
        question = turn(http, name)
        token = create(http, name, question, lifetime_seconds=60).json()["resume_token"]
        keys.clock.advance(61)
        refused = do(http, "answer", name, token, (question, True), user_id="ana")
        assert (refused.status_code, refused.json()["reason"]) == (403, "expired")
        assert state_of(http, question) == "pending"
