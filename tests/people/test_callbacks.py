"""Callbacks: questions that another system answers, at an address of their own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from signoff import (
    AlreadySettled,
    AsyncHandle,
    Context,
    NotAllowed,
    QuestionCancelled,
    SignalTimeout,
    Signoff,
    WrongAnswer,
)
from signoff.codec.ciphers import Ciphers, EncryptionKey
from signoff.errors import InvalidValue, LinkEnded, RegistrationError, UnknownLink
from signoff.observability import events
from signoff.observability.events import AnswerGiven
from signoff.people.links.callback_intake import FoundCallback, Incoming, find_callback, receive
from signoff.people.questions.callback_terms import Terms, secret_in
from signoff.people.questions.question import Question
from signoff.records import AuditKind, EntryKind, PromiseState
from signoff.records.paging import AuditFilter
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.tokens import hash_of
from signoff.stores.wrappers.encrypted import encrypted
from signoff.testing import Environment, MemoryStore, VirtualClock, crash_everywhere, environment
from tests.support import fails, in_asyncio, new_app, opens, pauses, running

PUBLIC = "https://signoff.example"
WORLD: list[str] = []  # the addresses that were told, in a scenario


class Payment(BaseModel):
    """What a provider says."""

    amount: int
    reference: str


def shop(folder: Path, **options: Any) -> tuple[Signoff, list[str]]:
    """An app that asks for a payment, and the addresses that the provider got."""
    app, told = new_app(folder, public_url=PUBLIC, **options), list[str]()

    @app.workflow
    async def order(ctx: Context, timeout_seconds: float | None = None) -> Any:
        paid = await ctx.callback("Payment of o-1", answer_type=Payment, timeout_seconds=timeout_seconds)
        await ctx.step("checkout", lambda: told.append(paid.url))
        try:
            answer = await paid
        except (SignalTimeout, QuestionCancelled) as error:
            return type(error).__name__
        return [answer.value.amount, answer.user_id, answer.approved]

    return app, told


async def post(app: Signoff, url: str, value: Any) -> Any:
    found = await find_callback(app.store, secret_in(url))
    body = json.dumps(value).encode()
    return await receive(found, Incoming("POST", "", {"content-type": "application/json"}, body))


@in_asyncio
async def test_what_calls_back_answers_and_the_workflow_gets_an_instance(tmp_path: Path) -> None:
    app, told = shop(tmp_path)
    async with running(app) as client:
        run = await client.start("order", id="r")
        question = await opens(app, "r.1")
        assert question.assignees == ("role:operator", "role:admin")
        await pauses(app, "r")
        assert told[0].startswith(f"{PUBLIC}/c/sgc_")
        settled = await post(app, told[0], {"amount": 7, "reference": "x", "more": 1})
        assert (settled.state, settled.settled_by) == (PromiseState.RESOLVED, "signoff:callback")
        assert await run.result(60) == [7, None, None]


@in_asyncio
async def test_its_address_is_stable_across_attempts_replays_and_crashes(
    tmp_path: Path,
) -> None:
    app, told = shop(tmp_path)
    async with running(app) as client:
        await client.start("order", id="r")
        await pauses(app, "r")
    again, told_again = shop(tmp_path)
    url = told[0]
    async with running(again) as client:
        await post(again, url, {"amount": 7, "reference": "x"})
        run = await client.get("r")
        assert await run.result(60) == [7, None, None]
    assert (told, told_again) == ([url], [])


@in_asyncio
async def test_each_passed_address_survives_its_workers_death_anywhere() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def order(ctx: Context, told: list[str]) -> Any:
        paid = await ctx.callback("Payment", timeout_seconds=3600)
        await ctx.step("checkout", lambda: WORLD.append(paid.url))
        return (await paid).value.json()

    async def scenario(env: Environment) -> Any:
        WORLD.clear()
        env.people.call_back("Payment", {"a": 1}, after=60)
        result = await env.run(order, [])
        assert [said.error for said in env.people.answers] == [None]
        return result, len(set(WORLD))

    assert await crash_everywhere(app, scenario) > 5


@in_asyncio
async def test_a_generator_yields_it_twice() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    def order(ctx: Context) -> Generator[Any, Any, Any]:
        paid = yield ctx.callback("Payment", answer_type=Payment)
        assert paid.url == f"https://signoff.test/c/{paid.state}"
        assert paid.redirect_uri == "https://signoff.test/c/return"
        answer = yield paid
        return answer.value.reference

    async with environment(app) as env:
        env.people.call_back("Payment", {"amount": 1, "reference": "r-1"})
        assert await env.run(order) == "r-1"
    assert app.public_url is None


@in_asyncio
async def test_without_a_public_address_the_run_names_the_setting_and_can_resume(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def order(ctx: Context) -> str:
        paid = await ctx.callback("Payment")
        return paid.redirect_uri

    async with running(app) as client:
        run = await client.start(order, id="r")
        failed = await fails(app, "r")
        assert failed.retryable
        assert "SIGNOFF_PUBLIC_URL" in (failed.error or "")
        app.registry.public_url = PUBLIC
        await client.retry("r")
        assert await run.result(60) == f"{PUBLIC}/c/return"


@in_asyncio
async def test_what_people_were_asked_is_no_callback_of_newer_code(tmp_path: Path) -> None:
    old, new = new_app(tmp_path), new_app(tmp_path, public_url=PUBLIC)

    @old.workflow(name="order")
    async def asks(ctx: Context) -> Any:
        return (await ctx.wait_for_user("Payment", input_type="text")).value

    @new.workflow(name="order")
    async def is_called_back(ctx: Context) -> Any:
        return (await (await ctx.callback("Payment"))).value

    async with running(old) as client:
        await client.start("order", id="r")
        await pauses(old, "r")
    async with running(new) as client:
        await client.answer("r.1", "by hand")
        assert "callback 'Payment'" in ((await fails(new, "r")).error or "")


def test_the_environment_says_the_public_address_where_the_app_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIGNOFF_PUBLIC_URL", "https://signoff.example/")
    assert Signoff(MemoryStore()).public_url == PUBLIC
    assert Signoff(MemoryStore(), public_url="http://localhost:8000").public_url == "http://localhost:8000"
    with pytest.raises(InvalidValue):
        Signoff(MemoryStore(), public_url="signoff.example")


@in_asyncio
async def test_subscribers_get_each_answer_and_refusal(tmp_path: Path) -> None:
    app, told = shop(tmp_path)
    heard: list[AnswerGiven] = []
    stop = events.subscribe(lambda event: heard.append(event) if isinstance(event, AnswerGiven) else None)
    try:
        async with running(app) as client:
            await client.start("order", id="r")
            await pauses(app, "r")
            with pytest.raises(WrongAnswer):
                await post(app, told[0], {})
            await post(app, told[0], {"amount": 7, "reference": "x"})
    finally:
        stop()
    assert [(each.outcome, each.by, each.run_id) for each in heard] == [
        ("WrongAnswer", "signoff:callback", "r"),
        ("accepted", "signoff:callback", "r"),
    ]


@in_asyncio
async def test_an_invalid_request_is_refused_with_fields_and_recorded(
    tmp_path: Path,
) -> None:
    app, told = shop(tmp_path)
    async with running(app) as client:
        await client.start("order", id="r")
        question = await opens(app, "r.1")
        await pauses(app, "r")
        with pytest.raises(WrongAnswer) as refused:
            await post(app, told[0], {"amount": "7.5", "reference": "x"})
        assert [field for field, _ in refused.value.problems] == ["amount"]
        page = await app.store.list_audit(AuditFilter(question.id))
        assert [(event.kind, event.by) for event in page.items][-1] == (AuditKind.REFUSED, "signoff:callback")
        assert (await app.store.get_promise(question.id)).state is PromiseState.PENDING


@in_asyncio
async def test_a_repetition_has_no_effect_and_other_requests_are_refused(
    tmp_path: Path,
) -> None:
    app, told = shop(tmp_path)
    async with running(app) as client:
        run = await client.start("order", id="r")
        await opens(app, "r.1")
        await pauses(app, "r")
        first = await post(app, told[0], {"amount": 7, "reference": "x"})
        assert await post(app, told[0], {"amount": 7, "reference": "x"}) == first
        with pytest.raises(AlreadySettled):
            await post(app, told[0], {"amount": 8, "reference": "x"})
        assert await run.result(60) == [7, None, None]


@in_asyncio
async def test_a_repetition_is_known_by_its_content_and_not_by_how_it_is_signed(tmp_path: Path) -> None:
    app = new_app(tmp_path, public_url=PUBLIC)
    told: list[str] = []

    @app.workflow
    async def order(ctx: Context) -> Any:
        paid = await ctx.callback("Event", headers=("X-Signature", "X-Other"))
        await ctx.step("tell", lambda: told.append(paid.url))
        answer = (await paid).value
        return [answer.headers, answer.raw.hex(), answer.encoding, answer.params, answer.form]

    async with running(app) as client:
        run = await client.start(order, id="r")
        await pauses(app, "r")
        found = await find_callback(app.store, secret_in(told[0]))
        sent = [
            Incoming("POST", "a=1&a=2", {"x-signature": f"t={n}", "cookie": "c"}, b"\xff\x00body")
            for n in (1, 2)
        ]
        settled = await receive(found, sent[0])
        assert (
            await receive(found, sent[1]) == settled
        )  # what is known of the question is old: the store says so
        assert await receive(await find_callback(app.store, secret_in(told[0])), sent[1]) == settled
        assert await run.result(60) == [
            {"X-Signature": "t=1"},
            b"\xff\x00body".hex(),
            "latin-1",
            {"a": ["1", "2"]},
            {},
        ]


@in_asyncio
async def test_an_ended_callback_is_gone_and_an_unknown_one_reveals_nothing(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    shop_app, told = shop(tmp_path, clock=clock)
    async with running(shop_app) as client:
        late = await client.start("order", 60, id="late")
        await pauses(shop_app, "late")
        clock.advance(61)
        with pytest.raises(LinkEnded) as ended:
            await post(shop_app, told[0], {"amount": 7, "reference": "x"})
        assert ended.value.reason == "expired"
        assert await late.result(60) == "SignalTimeout"
        gone = await client.start("order", id="gone")
        question = await opens(shop_app, "gone.1")
        await pauses(shop_app, "gone")
        await client.inbox.cancel(question.id)
        assert await gone.result(60) == "QuestionCancelled"
        with pytest.raises(LinkEnded) as ended:
            await post(shop_app, told[1], {"amount": 7, "reference": "x"})
        assert ended.value.reason == "revoked"
        for unknown in (told[0][:-1] + "_", "sgc_x", "sgl_" + secret_in(told[0])[4:], ""):
            with pytest.raises(UnknownLink):
                await find_callback(shop_app.store, secret_in(unknown))
        await shop_app.store.delete_ended(clock.now() + 1, 10)
        with pytest.raises(UnknownLink):
            await find_callback(shop_app.store, secret_in(told[0]))


@in_asyncio
async def test_it_is_assigned_to_no_one_but_an_operator_may_answer_it(tmp_path: Path) -> None:
    app, told = shop(tmp_path)
    async with running(app) as client:
        run = await client.start("order", id="r")
        question = await opens(app, "r.1")
        await pauses(app, "r")
        value = {"amount": 7, "reference": "by bank"}
        for who in ({}, {"user_id": "ana"}, {"user_id": "ana", "roles": ["responder"]}):
            with pytest.raises(NotAllowed):
                await client.answer(question.id, value, **who)
        with pytest.raises(WrongAnswer):
            await client.answer(question.id, {"amount": 7}, user_id="bob", roles=["operator"])
        await client.answer(question.id, value, user_id="bob", roles=["operator"])
        assert await run.result(60) == [7, "bob", None]
        with pytest.raises(AlreadySettled):
            await post(app, told[0], value)


@in_asyncio
async def test_a_new_generation_ends_the_addresses_of_the_one_before(tmp_path: Path) -> None:
    app, told = new_app(tmp_path, public_url=PUBLIC), list[str]()

    @app.workflow
    async def order(ctx: Context, round: int) -> Any:
        paid = await ctx.callback("Payment")
        await ctx.step("tell", lambda: told.append(paid.url))
        if round == 1:
            ctx.continue_as_new(2)
        return (await paid).value.json()

    async with running(app) as client:
        run = await client.start(order, 1, id="r")
        await pauses(app, "r")
        first, second = told
        with pytest.raises(LinkEnded):
            await post(app, first, 1)
        await post(app, second, 2)
        assert await run.result(60) == 2


@in_asyncio
async def test_its_secret_is_in_the_journal_alone_which_is_shown_without_it(tmp_path: Path) -> None:
    app, told = shop(tmp_path)
    async with running(app) as client:
        run = await client.start("order", id="r")
        question = await opens(app, "r.1")
        await pauses(app, "r")
        secret = secret_in(told[0])
        [opened] = [entry for entry in await app.store.read_journal("r") if secret in str(entry)]
        assert opened.kind is EntryKind.OPENED
        await post(app, told[0], {"amount": 7, "reference": "x"})
        await run.result(60)
        shown = [*await run.journal(), *[entry async for entry in run.events()]]
        shown += [question, *(await app.store.list_audit(AuditFilter(question.id))).items]
        shown += [await app.store.find_token(hash_of(secret))]
        assert secret not in str(shown)
        assert f"{PUBLIC}/c/***" in str(shown)


@in_asyncio
async def test_at_rest_it_is_encrypted(tmp_path: Path) -> None:
    keys = Ciphers([EncryptionKey("one", bytes(32))])
    app = Signoff(encrypted(SqliteStore(tmp_path / "signoff.db"), keys), public_url=PUBLIC)
    told: list[str] = []

    @app.workflow
    async def order(ctx: Context) -> Any:
        paid = await ctx.callback("Payment")
        await ctx.step("tell", lambda: told.append(paid.url))
        return (await paid).value.body

    async with running(app) as client:
        run = await client.start(order, id="r")
        await pauses(app, "r")
        kept = b"".join(file.read_bytes() for file in tmp_path.glob("signoff.db*"))
        assert secret_in(told[0]).encode() not in kept
        found = await find_callback(app.store, secret_in(told[0]))
        await receive(found, Incoming(body=b"hello"))
        assert await run.result(60) == "hello"


@pytest.mark.parametrize(
    "wrong",
    [
        {"methods": ()},
        {"methods": "POST"},
        {"methods": ("PUT",)},
        {"headers": ("X Y",)},
        {"headers": "X-Signature"},
        {"headers": ("Cookie",)},
        {"headers": [f"X-{n}" for n in range(21)]},
        {"headers": ("X-Signature",), "answer_type": Payment},
        {"then": "javascript:alert(1)"},
        {"then": "/paid"},
        {"then": "https://shop.example/\r\nSet-Cookie: a"},
    ],
)
def test_terms_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    said = dict(wrong)
    answer_type = said.pop("answer_type", None)
    terms = Terms(**said, is_whole=answer_type is None)
    with pytest.raises(RegistrationError):
        Question.make("Payment", input_type="external", answer_type=answer_type, callback=terms)


def test_people_are_not_asked_what_is_external() -> None:
    with pytest.raises(RegistrationError, match="ctx.callback"):
        Question.make("Payment", input_type="external")


@asynccontextmanager
async def waiting_for(schema: dict[str, Any]) -> AsyncGenerator[tuple[AsyncHandle, FoundCallback]]:
    """A run that waits for a callback, and its address as a server finds it."""
    app = Signoff(MemoryStore())

    @app.workflow
    async def order(ctx: Context) -> Any:
        return (await (await ctx.callback("Payment", answer_type=schema))).value

    async with environment(app) as env:
        run = await env.start(order, id="r")
        await env.idle()
        [opened] = [entry for entry in await env.store.read_journal("r") if entry.kind is EntryKind.OPENED]
        yield run, await find_callback(env.store, secret_in(opened.fact("url")))


FORM = {"content-type": "application/x-www-form-urlencoded"}
TEXT = {"type": "string"}
FIELDS = {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "array"}, "s": TEXT}}


@pytest.mark.parametrize(
    ("schema", "incoming", "value"),
    [
        (FIELDS, Incoming(headers=FORM, body=b"n=7&s=8&t=1&t=2"), {"n": 7, "s": "8", "t": ["1", "2"]}),
        (FIELDS, Incoming("GET", "n=7&s=true"), {"n": 7, "s": "true"}),
        (FIELDS, Incoming(body=b'{"n": 7}'), {"n": 7}),  # said to be nothing in particular
        (
            FIELDS,
            Incoming(headers={"content-type": "application/x+json; charset=utf-8"}, body=b'{"n": 7}'),
            {"n": 7},
        ),
        (TEXT, Incoming(headers={"content-type": "text/plain"}, body=b"123"), "123"),
        (TEXT, Incoming(body=b"{broken"), "{broken"),
    ],
)
@in_asyncio
async def test_bodies_forms_and_queries_are_read_as_what_they_are_said_to_be(
    schema: dict[str, Any], incoming: Incoming, value: Any
) -> None:
    async with waiting_for(schema) as (run, found):
        await receive(found, incoming)
        assert await run.result() == value


@pytest.mark.parametrize(
    ("schema", "incoming", "field"),
    [
        (FIELDS, Incoming(headers=FORM, body=b"n=x"), "n"),
        (FIELDS, Incoming(headers=FORM, body=b"n=%ff"), ""),
        (FIELDS, Incoming(headers=FORM, body=b"&".join(b"a%d=1" % n for n in range(1001))), ""),
        (FIELDS, Incoming(headers={"content-type": "application/json"}, body=b"{"), ""),
        (FIELDS, Incoming(headers={"content-type": "application/json"}, body=b'{"n": 1, "n": 2}'), ""),
        (FIELDS, Incoming(headers={"content-type": "application/json"}, body=b"[" * 100_000), ""),
        (FIELDS, Incoming(headers={"content-type": "multipart/form-data; boundary=x"}, body=b"--x"), ""),
        (FIELDS, Incoming(headers={"content-type": "application/json"}, body=b"\xff"), ""),
    ],
)
@in_asyncio
async def test_what_cannot_be_read_is_a_wrong_answer(
    schema: dict[str, Any], incoming: Incoming, field: str
) -> None:
    async with waiting_for(schema) as (_, found):
        with pytest.raises(WrongAnswer) as refused:
            await receive(found, incoming)
        assert [each for each, _ in refused.value.problems] == [field]


@in_asyncio
async def test_the_example_of_the_documentation_does_what_it_says() -> None:
    docs = Path(__file__).parents[2] / "docs" / "callbacks.md"
    example = re.findall(r"```python\n(.*?)```", docs.read_text(), re.DOTALL)[0]
    scope: dict[str, Any] = {
        "__name__": "orders",
        "store": MemoryStore(),
        "create_checkout": lambda *told: told,
    }
    exec(example.replace('"sqlite:///signoff.db"', "store"), scope)
    async with environment(scope["app"]) as env:
        env.people.call_back("Payment of o-1", {"amount": 4200, "reference": "r"}, after=3600)
        assert await env.run("order", "o-1") == "paid 4200"
        assert await env.run("order", "o-2") == "not paid"
