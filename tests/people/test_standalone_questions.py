"""Questions of no run: `client.ask` on every store and over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import signoff
from signoff import (
    Action,
    Alike,
    Answer,
    AsyncClient,
    BusinessHours,
    Escalation,
    IdConflict,
    QuestionCancelled,
    Quorum,
    SignalTimeout,
    Signoff,
    WrongAnswer,
)
from signoff.errors import AlreadySettled, InvalidValue, NotAllowed, NotFound, RegistrationError
from signoff.people.questions.standalone_questions import QuestionTerms, StandaloneQuestion
from tests.places import NewStore, front_door, new_store
from tests.support import comes, in_asyncio

__all__ = ["new_store"]


CHRISTMAS = date(2026, 12, 24)


class Refund(BaseModel):
    cents: int
    to: str = "bob"
    share: Decimal = Decimal("0.50")


class Euros(BaseModel):
    """Its validator changes its own result."""

    cents: int

    @field_validator("cents")
    @classmethod
    def _to_cents(cls, value: int) -> int:
        return value * 100


@asynccontextmanager
async def clients(new_store: NewStore, door: str) -> AsyncIterator[tuple[AsyncClient, AsyncClient]]:
    """A client that asks, and one of another process that answers: both on stores, or both over HTTP."""
    stores = [new_store(), new_store()]
    for store in stores:
        await store.open()
    try:
        if door == "store":
            async with AsyncClient(Signoff(stores[0])) as asks, AsyncClient(Signoff(stores[1])) as answers:
                yield asks, answers
        else:
            async with front_door(stores[0]) as url, AsyncClient(url) as asks, AsyncClient(url) as answers:
                yield asks, answers
    finally:
        for store in stores:
            await store.close()


@pytest.fixture(params=["store", pytest.param("http", marks=pytest.mark.long)])
def door(request: pytest.FixtureRequest) -> str:
    return request.param


@in_asyncio
async def test_an_answer_reaches_the_program_that_waits(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):
        question = await asks.ask("refund-1", "Refund?", assignees=["group:finance"])
        waiting = asyncio.create_task(question.answer())
        await asyncio.sleep(0)
        assert [each.id for each in (await answers.questions(user_id="ana", groups=["finance"])).items] == [
            "refund-1"
        ]
        with pytest.raises(NotAllowed):
            await answers.answer("refund-1", True, user_id="eve")
        with pytest.raises(WrongAnswer):
            await answers.answer("refund-1", "banana", user_id="ana", groups=["finance"])
        await answers.answer("refund-1", True, user_id="ana", groups=["finance"], note="ok")
        answer = await waiting
        assert (answer.approved, answer.user_id, answer.note) == (True, "ana", "ok")
        with pytest.raises(AlreadySettled, match="ana"):
            await answers.answer("refund-1", False, user_id="ana", groups=["finance"])
        assert await answers.question("refund-1").answer(timeout=5) == answer


@in_asyncio
async def test_the_same_question_is_asked_once(new_store: NewStore, door: str) -> None:
    terms: QuestionTerms = {
        "assignees": ["group:finance"],
        "quorum": Quorum(2, of=3),
        "timeout_seconds": 3600,
        "escalations": [Escalation(60, ["group:heads"])],
        "hours": BusinessHours("Europe/Berlin", days=["mon", "tue"], hours=[("09:00", "12:00")]),
        "proposal": Refund(cents=7000),
        "proposal_type": Refund,
        "action": Action("refund", {"cents": 7000, "to": "bob", "share": "0.50"}, about="refunds"),
    }
    async with clients(new_store, door) as (asks, answers):
        first = await (await asks.ask("q", "Refund?", **terms)).read()
        again = await (await answers.ask("q", "Refund?", **{**terms, "help": "by Friday"})).read()
        assert again == first
        assert len((await asks.questions()).items) == 1
        others: list[QuestionTerms] = [
            {**terms, "assignees": ["user:eve"]},
            {**terms, "quorum": 1},
            {**terms, "timeout_seconds": 90},
            {**terms, "hours": BusinessHours("Europe/Berlin")},
            {**terms, "action": None, "proposal": Refund(cents=7)},
            {
                **terms,
                "action": Action("pay", {"cents": 7000, "to": "bob", "share": "0.50"}, about="refunds"),
            },
            {},
        ]
        for other in others:
            with pytest.raises(IdConflict):
                await answers.ask("q", "Refund?", **other)
        with pytest.raises(IdConflict):
            await answers.ask("q", "Pay?", **terms)
        await asks.promises.create("plain")
        with pytest.raises(IdConflict):
            await asks.ask("plain", "Refund?")


@in_asyncio
async def test_a_question_asked_over_http_is_that_of_the_store(new_store: NewStore) -> None:
    store = new_store()
    await store.open()
    terms: QuestionTerms = {"proposal": Refund(cents=7), "proposal_type": Refund}
    async with front_door(store) as url, AsyncClient(url) as over_http, AsyncClient(Signoff(store)) as asks:
        await asks.ask("q", "Refund?", timeout_seconds=60, **terms)
        await over_http.ask("q", "Refund?", timeout_seconds=60.0, **terms)
        assert len((await asks.questions()).items) == 1
    await store.close()


@in_asyncio
async def test_each_kind_of_form_comes_back_as_declared(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):

        async def asked(id: str, value: Any, **terms: Any) -> Answer:
            question = await asks.ask(id, "Which?", **terms)
            await answers.answer(id, value, user_id="ana")
            return await question.answer()

        form = await asked("form", {"cents": 5}, input_type="form", answer_type=Refund)
        assert form.value == Refund(cents=5)
        again = await answers.question("form", returns=Refund).answer()
        assert again.value == Refund(cents=5)
        assert (await answers.question("form").answer()).value == {"cents": 5}
        assert (await asked("text", "Hello", input_type="text", max_length=5)).value == "Hello"
        chosen = await asked(
            "many", ["a", {"other": "d"}], input_type="multiselect", options={"b", "a"}, other="else"
        )
        assert (chosen.value, chosen.others) == (["a", "d"], ("d",))
        assert (await asked("skip", None, input_type="text", skippable=True)).skipped
        proposed = await asked("as it is", True, proposal=Euros(cents=5), proposal_type=Euros)
        assert proposed.proposal == Euros.model_construct(cents=500)
        edited = await asked(
            "edited", {"approved": True, "edited": {"cents": 7, "to": "eve", "share": "0.1"}},
            proposal=Refund(cents=5), proposal_type=Refund,
        )  # fmt: skip
        assert (edited.proposal, len(edited.edits)) == (Refund(cents=7, to="eve", share=Decimal("0.1")), 3)


@in_asyncio
async def test_a_deadline_passes_without_worker_or_server(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):
        late = await asks.ask("late", "Refund?", timeout_seconds=0.2)
        with pytest.raises(TimeoutError) as own:
            await late.answer(timeout=0.01)
        assert not isinstance(own.value, SignalTimeout)
        with pytest.raises(SignalTimeout):
            await late.answer()
        with pytest.raises(AlreadySettled):
            await answers.answer("late", True, user_id="ana")
        default = await asks.ask("default", "Refund?", timeout_seconds=0.2, timeout_answer=False)
        answer = await default.answer()
        assert (answer.approved, answer.timed_out, answer.user_id) == (False, True, None)
        skipped = await asks.ask("none", "Refund?", timeout_seconds=0.2, timeout_answer=None, skippable=True)
        assert (await skipped.answer()).skipped


@in_asyncio
async def test_a_withdrawn_question_is_no_answer(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):
        question = await asks.ask("q", "Refund?")
        waiting = asyncio.create_task(question.answer())
        await asyncio.sleep(0)
        await answers.question("q").cancel(by="ana", reason="gone")
        with pytest.raises(QuestionCancelled, match="gone"):
            await waiting
        with pytest.raises(NotFound):
            await asks.question("unknown").answer()


@in_asyncio
async def test_one_of_many_racing_answers_wins(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):
        question = await asks.ask("q", "Refund?")
        waiting = [asyncio.create_task(question.answer()) for _ in range(5)]
        tried = await asyncio.gather(
            *(each.answer("q", n % 2 == 0, user_id=f"u{n}") for n in range(8) for each in (asks, answers)),
            return_exceptions=True,
        )
        won = [each for each in tried if not isinstance(each, BaseException)]
        assert len({each.settled_by for each in won}) == 1
        assert all(isinstance(each, AlreadySettled) for each in tried if isinstance(each, BaseException))
        assert {(await each).user_id for each in waiting} == {won[0].settled_by}


@in_asyncio
async def test_four_eyes_need_a_requester_who_may_not_answer(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):
        with pytest.raises((RegistrationError, InvalidValue), match="requester"):
            await asks.ask("q", "Refund?", exclude_requester=True)
        await asks.ask("q", "Refund?", exclude_requester=True, requester="ana")
        with pytest.raises(NotAllowed):
            await answers.answer("q", True, user_id="Ana")
        await answers.answer("q", True, user_id="bob")


@pytest.mark.parametrize(
    "terms",
    [
        {"hours": {"timezone": "Mars/Base"}},
        {"hours": {"days": "mon"}},
        {"hours": {"timezone": "UTC", "holidays": ["today"]}},
        {"hours": {"timezone": "UTC", "hours": []}},
        {"action": {"tool": 1, "arguments": {}}},
        {"action": "pay"},
        {"escalations": [{"after_seconds": -1, "to": ["user:a"]}]},
        {"escalations": [{"to": 1}]},
        {"quorum": {"approvals": 3, "of": 2}},
        {"assignees": ["ana"]},
        {"timeout_seconds": -1},
        {"timeout_answer": True},
        {"input_type": "select"},
        {"input_type": "external"},
        {"input_type": "form"},
        {"input_type": "form", "answer_schema": {"$ref": "https://example.com/x"}},
        {"proposal": 1, "proposal_schema": {"type": "string"}},
        {"proposal_schema": {}},
        {"attachments": [{"name": "x", "url": "javascript:alert(1)"}]},
        {"exclude_requester": True},
        {"text": " "},
        {"text": "\0"},
        {"metadata": []},
        {"colour": "red"},
        {"id": ""},
        {"id": "x" * 10_000},
    ],
)
def test_bad_terms_are_refused_by_name_over_http(http_url: str, terms: dict[str, Any]) -> None:
    import httpx

    body = {"id": "bad", "text": "Refund?", **terms}
    reply = httpx.post(f"{http_url}/v1/questions", json=body, trust_env=False, timeout=60)
    assert reply.status_code == 422, reply.text
    assert reply.json()["fields"]
    assert httpx.get(f"{http_url}/v1/questions/bad", trust_env=False, timeout=60).status_code == 404


@pytest.fixture(scope="module")
def http_url(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from signoff.server import Server
    from signoff.stores.sqlite.store import SqliteStore
    from tests.support import OnThread

    with OnThread(
        lambda: Server(SqliteStore(tmp_path_factory.mktemp("asked") / "signoff.db"), port=0)
    ) as server:
        yield server.url


# Decisions on tool calls


REFUND = Action("refund", {"cents": 7000, "to": "bob"})
SCHEMA = {
    "type": "object",
    "properties": {"cents": {"type": "integer", "maximum": 9000}, "to": {"type": "string"}},
    "required": ["cents", "to"],
    "additionalProperties": False,
}


@in_asyncio
async def test_a_person_decides_on_a_call(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):

        async def decided(id: str, value: Any, **options: Any) -> signoff.CallDecision:
            waiting = asyncio.create_task(asks.approve_call(id, REFUND, arguments_schema=SCHEMA, **options))
            assert await comes(lambda: _is_open(answers, id))
            await answers.answer(id, value, user_id="ana", note="n")
            return await waiting

        yes = await decided("yes", True)
        assert (yes.approved, yes.arguments, yes.reason, yes.by) == (
            True,
            REFUND.arguments,
            "person",
            "ana",
        )
        assert yes.covers(REFUND)
        assert not yes.covers(Action("refund", {"cents": 7000.5, "to": "bob"}))
        assert not yes.covers(Action("pay", REFUND.arguments))
        no = await decided("no", False)
        assert (no.approved, no.covers(REFUND), no.note) == (False, False, "n")
        edited = await decided("edited", {"approved": True, "edited": {"cents": 50, "to": "bob"}})
        assert (edited.arguments, edited.is_edited) == ({"cents": 50, "to": "bob"}, True)
        assert not edited.covers(REFUND)
        await asks.ask("more", "Run refund?", action=REFUND, proposal=REFUND.arguments, proposal_type=SCHEMA)
        too_much = {"approved": True, "edited": {"cents": 9001, "to": "bob"}}
        with pytest.raises(WrongAnswer):
            await answers.answer("more", too_much, user_id="ana")
        assert not (await asks.approve_call("late", REFUND, timeout_seconds=0.1)).approved
        await asks.ask("gone", "Run refund?", action=REFUND)
        await asks.question("gone").cancel()
        gone = await asks.approve_call("gone", REFUND)
        assert (gone.approved, gone.reason) == (False, "cancelled")


@in_asyncio
async def test_an_edited_call_never_runs_with_a_placeholder(tmp_path: Path) -> None:
    """A server that hides a part of the call does not change it: the part is the caller's own, or the call fails."""
    from signoff.server import Server
    from signoff.stores.sqlite.store import SqliteStore

    schema = {"type": "object", "properties": {"to": {}, "cents": {}}}
    async with (
        Server(SqliteStore(tmp_path / "signoff.db"), port=0, redact=["to"]) as server,
        AsyncClient(server.url) as client,
    ):

        async def decided(id: str, **edited: Any) -> signoff.CallDecision:
            waiting = asyncio.create_task(client.approve_call(id, REFUND, arguments_schema=schema))
            assert await comes(lambda: _is_open(client, id))
            await client.answer(id, {"approved": True, "edited": edited}, user_id="ana")
            return await waiting

        decision = await decided("other", to="[redacted /to]", cents=50)
        assert (decision.arguments, decision.is_edited) == ({"to": "bob", "cents": 50}, True)
        with pytest.raises(InvalidValue, match="redact"):
            await decided("hidden", to="eve", cents=50)


async def _is_open(client: AsyncClient, id: str) -> bool:
    return any(each.id == id for each in (await client.questions()).items)


@in_asyncio
async def test_a_policy_that_cannot_decide_asks(new_store: NewStore) -> None:
    async with clients(new_store, "store") as (asks, answers):

        def fails(action: Action) -> Any:
            raise KeyError("cents")

        def changes(action: Action) -> Any:
            action.arguments["cents"] = 1  # type: ignore[index]
            return "approve"

        async def denies(action: Action) -> Any:
            return "deny" if action.arguments["cents"] > 100 else "approve"

        odd: list[Any] = [fails, lambda _: True, lambda _: None, lambda _: "yes", lambda _: ["approve"]]
        for n, policy in enumerate(odd):
            with pytest.raises(TimeoutError):
                await asks.approve_call(f"odd-{n}", REFUND, decide=policy, timeout=0.05)
        assert len((await answers.questions()).items) == len(odd)
        assert not (await asks.approve_call("denied", REFUND, decide=denies)).approved
        run = await asks.approve_call("changed", REFUND, decide=changes)
        assert (run.approved, run.arguments) == (True, {"cents": 7000, "to": "bob"})
        # A person was asked: what the policy says by now does not count.
        await answers.answer("odd-0", False, user_id="ana")
        assert not (await asks.approve_call("odd-0", REFUND, decide=lambda _: "approve")).approved
        with pytest.raises(IdConflict):
            await asks.approve_call("odd-1", Action("refund", {"cents": 1, "to": "bob"}))


@in_asyncio
async def test_a_time_out_never_approves_a_call(new_store: NewStore) -> None:
    async with clients(new_store, "store") as (asks, _):
        given: list[Any] = [
            {"timeout_answer": True, "timeout_seconds": 1},
            {"proposal": {}},
            {"action": REFUND},
        ]
        for terms in given:
            with pytest.raises((RegistrationError, TypeError)):
                await asks.approve_call("q", REFUND, **terms)


@in_asyncio
async def test_a_standing_approval_decides_on_later_calls(new_store: NewStore, door: str) -> None:
    async with clients(new_store, door) as (asks, answers):
        await asks.ask("first", "Run refund?", action=REFUND)
        await answers.answer("first", True, user_id="ana", alike=Alike(3600, everywhere=True, same=["/to"]))
        later = Action("refund", {"cents": 1, "to": "bob"})
        decision = await asks.approve_call("later", later)
        assert (decision.approved, decision.reason, decision.by) == (True, "rule", "ana")
        with pytest.raises(TimeoutError):
            await asks.approve_call("other", Action("refund", {"cents": 1, "to": "eve"}), timeout=0.2)


# signoff.ask


@in_asyncio
async def test_ask_is_a_question_of_the_run_in_workflow_code(new_store: NewStore) -> None:
    store = new_store()
    app = Signoff(store)

    @app.workflow
    async def refunds(ctx: signoff.Context) -> Any:
        return (await signoff.ask("Refund?", assignees=["user:ana"])).plain()

    async with app.worker(), AsyncClient(app) as client:
        run = await client.start(refunds, id="r")
        [question] = (await comes(lambda: _listed(client))).items
        assert question.run_id == "r"
        await client.answer(question.id, True, user_id="ana")
        assert (await run.result())["approved"] is True
    await store.close()


async def _listed(client: AsyncClient) -> Any:
    page = await client.questions()
    return page if page.items else None


@in_asyncio
async def test_ask_outside_of_a_workflow_needs_an_id_and_a_client(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with clients(new_store, "http") as (asks, answers):
        with pytest.raises(InvalidValue, match="id"):
            await signoff.ask("Refund?")
        for variable in ("SIGNOFF_URL", "SIGNOFF_STORE"):
            monkeypatch.delenv(variable, raising=False)
        with pytest.raises(InvalidValue, match="client"):
            await signoff.ask("Refund?", id="q")
        http: Any = asks.backend
        monkeypatch.setenv("SIGNOFF_URL", http.url)
        waiting = asyncio.create_task(signoff.ask("Refund?", id="q"))
        assert await comes(lambda: _is_open(answers, "q"))
        await answers.answer("q", True, user_id="ana")
        assert (await waiting).approved
        assert (await signoff.ask("Refund?", id="q", client=answers)).approved


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"input_type": "form", "answer_type": Refund, "default": {"cents": 1}},
        {"input_type": "multiselect", "options": ["a", "b"], "min_choices": 0, "max_choices": 2, "other": "o"},
        {"input_type": "text", "min_length": 3, "skippable": True, "help": "long"},
        {"proposal": {}, "metadata": {"a": [None, 1.5]}},
        {"proposal": Refund(cents=1), "proposal_type": Refund},
        {"quorum": 2, "remind_every": 5.5, "escalations": [Escalation(60.0, ["group:x"], replace=True)]},
        {"exclude_requester": True, "requester": "ana", "timeout_seconds": 5.5, "timeout_answer": False},
        {"skippable": True, "timeout_seconds": 5.5, "timeout_answer": None},
        {"hours": BusinessHours("Asia/Tokyo", "sun-thu", [("00:00", "12:00"), ("13:00", "24:00")], {CHRISTMAS})},
    ],
)  # fmt: skip
def test_terms_survive_the_way_over_http(terms: dict[str, Any]) -> None:
    asked = StandaloneQuestion.make("Refund?", terms)  # type: ignore[arg-type]
    sent = StandaloneQuestion.from_plain(json.loads(json.dumps(asked.to_plain())))
    assert sent.new_promise("q", 1e9) == asked.new_promise("q", 1e9)
