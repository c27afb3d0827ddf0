"""Steps of ``effect="once"``: never run twice without a person's decision."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import signoff
from signoff import AsyncClient, Context, Signoff, StepFailed, WrongAnswer
from signoff.errors import InvalidValue, NotAllowed, NotSerializable, RegistrationError
from signoff.records import EntryKind, Promise
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Store
from signoff.stores.sqlite.store import SqliteStore
from tests.support import asked, doomed_worker, in_asyncio, journaled, new_app, opened, pauses, running


class _Charge:
    """A payment whose worker dies in the middle of it, ``deaths`` times."""

    def __init__(self, folder: Path, *, deaths: int = 1) -> None:
        self.app = new_app(folder)
        self.begun = asyncio.Event()
        self.keys: list[str] = []
        self._deaths = deaths

        @self.app.workflow
        async def flow(ctx: Context) -> dict[str, Any]:
            receipt = await ctx.step("charge", self.charge, effect="once")
            return {"receipt": receipt, "shipped": await ctx.step("ship", lambda: True)}

        self.flow = flow

    async def charge(self) -> str:
        self.keys.append(signoff.current_step().idempotency_key)
        self.begun.set()
        if len(self.keys) <= self._deaths:
            await asyncio.Event().wait()
        return f"receipt {len(self.keys)}"

    async def die_inside(self) -> None:
        self.begun.clear()
        async with doomed_worker(self.app):
            await asyncio.wait_for(self.begun.wait(), 60)


async def _question(app: Signoff, client: AsyncClient) -> Promise:
    await pauses(app, "r")
    (question,) = await asked(client, "r")
    return question


@in_asyncio
async def test_its_start_is_journaled_and_it_runs_once(tmp_path: Path) -> None:
    charge = _Charge(tmp_path, deaths=0)
    async with running(charge.app) as client:
        run = await client.start(charge.flow, id="r")
        assert await run.result(60) == {"receipt": "receipt 1", "shipped": True}
        assert len(await journaled(charge.app, "r", EntryKind.STEP_STARTED)) == 1
        assert charge.keys == ["r.1"]


class _GatedStore:
    """A store that writes the start of a step only when its gate is open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, write: Write) -> None:
        if any(entry.kind is EntryKind.STEP_STARTED for entry in write.entries):
            self.asked.set()
            await self.gate.wait()
        await self._store.append(write)


@in_asyncio
async def test_it_does_not_begin_before_its_start_is_durable(tmp_path: Path) -> None:
    store = _GatedStore(SqliteStore(tmp_path / "signoff.db"))
    app = Signoff(store)
    begun: list[bool] = []

    async def charge() -> None:
        begun.append(store.gate.is_set())

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(charge, effect="once")

    async with running(app) as client:
        run = await client.start(flow)
        await asyncio.wait_for(store.asked.wait(), 60)
        await client.list()  # some turns of the loop, in which it could have begun
        store.gate.set()
        await run.result(60)
    assert begun == [True]


@pytest.mark.parametrize(
    ("answer", "receipt", "charges"),
    [
        ({"action": "retry"}, "receipt 2", ["r.1", "r.1"]),
        ({"action": "done", "result": "found by hand"}, "found by hand", ["r.1"]),
    ],
)
@in_asyncio
async def test_after_an_unclear_death_a_person_says_what_became_of_it(
    tmp_path: Path, answer: dict[str, Any], receipt: str, charges: list[str]
) -> None:
    charge = _Charge(tmp_path)
    async with opened(charge.app) as client:
        run = await client.start(charge.flow, id="r")
        await charge.die_inside()
        async with charge.app.worker():
            question = await _question(charge.app, client)
            assert "charge" in json.loads(question.data or "")["text"]
            await client.answer(question.id, answer, user_id="ana")
            assert await run.result(60) == {"receipt": receipt, "shipped": True}
        assert charge.keys == charges


@in_asyncio
async def test_what_a_person_declares_failed_fails_in_the_workflow(tmp_path: Path) -> None:
    charge = _Charge(tmp_path)
    async with opened(charge.app) as client:
        run = await client.start(charge.flow, id="r")
        await charge.die_inside()
        async with charge.app.worker():
            await client.answer((await _question(charge.app, client)).id, {"action": "fail"})
            with pytest.raises(StepFailed, match="charge"):
                await run.result(60)
        assert charge.keys == ["r.1"]


@in_asyncio
async def test_it_has_failed_if_the_outcome_question_is_withdrawn(tmp_path: Path) -> None:
    charge = _Charge(tmp_path)
    async with opened(charge.app) as client:
        run = await client.start(charge.flow, id="r")
        await charge.die_inside()
        async with charge.app.worker():
            question = await _question(charge.app, client)
            await client.inbox.cancel(question.id, by="olga")
            with pytest.raises(StepFailed, match="declared failed"):
                await run.result(60)


@in_asyncio
async def test_the_answer_holds_across_further_crashes(tmp_path: Path) -> None:
    charge = _Charge(tmp_path)
    async with opened(charge.app) as client:
        run = await client.start(charge.flow, id="r")
        await charge.die_inside()
        for _ in range(2):  # the question is asked once, however often the run is taken up
            async with doomed_worker(charge.app):
                question = await _question(charge.app, client)
            await client.signal("r", "wake")
        await client.answer(question.id, {"action": "done", "result": "by hand"})
        async with charge.app.worker():
            assert (await run.result(60))["receipt"] == "by hand"
        assert charge.keys == ["r.1"]


@in_asyncio
async def test_a_second_death_after_a_retry_asks_again(tmp_path: Path) -> None:
    charge = _Charge(tmp_path, deaths=2)
    async with opened(charge.app) as client:
        run = await client.start(charge.flow, id="r")
        await charge.die_inside()
        async with doomed_worker(charge.app):
            first = await _question(charge.app, client)
        await client.answer(first.id, {"action": "retry"})
        await charge.die_inside()
        assert charge.keys == ["r.1"] * 2
        async with charge.app.worker():
            second = await _question(charge.app, client)
            assert second.id != first.id
            await client.answer(second.id, {"action": "retry"})
            assert (await run.result(60))["receipt"] == "receipt 3"


@in_asyncio
async def test_an_answer_that_is_none_of_the_three_leaves_the_question_open(tmp_path: Path) -> None:
    charge = _Charge(tmp_path)
    async with opened(charge.app) as client:
        await client.start(charge.flow, id="r")
        await charge.die_inside()
        async with charge.app.worker():
            question = await _question(charge.app, client)
            for wrong in (
                {"action": "perhaps"},
                {},
                None,
                True,
                {"action": "done", "result": 7},
                {"action": "done", "result": None},
                {"action": "done"},
            ):
                with pytest.raises(WrongAnswer):
                    await client.answer(question.id, wrong)
            assert [open.id for open in await asked(client, "r")] == [question.id]


class Positive(BaseModel):
    """A type that knows more than its schema says."""

    cents: int

    @field_validator("cents")
    @classmethod
    def _is_positive(cls, cents: int) -> int:
        if cents <= 0:
            raise ValueError("nothing was paid")
        return cents


@in_asyncio
async def test_a_result_that_the_step_cannot_have_returned_is_asked_for_again(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    begun = asyncio.Event()

    async def pay() -> Positive:
        begun.set()
        return await asyncio.Event().wait() and Positive(cents=1)

    @app.workflow
    async def flow(ctx: Context) -> int:
        return (await ctx.step(pay, effect="once")).cents

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await asyncio.wait_for(begun.wait(), 60)
        async with app.worker():
            first = await _question(app, client)
            await client.answer(first.id, {"action": "done", "result": {"cents": -1}})
            second = first
            while second.id == first.id:
                second = await _question(app, client)
            assert "nothing was paid" in json.loads(second.data or "")["metadata"]["last_answer_refused"]
            await client.answer(second.id, {"action": "done", "result": {"cents": 7}})
            assert await run.result(60) == 7


@pytest.mark.parametrize("returns", [type(None), str | None, Any], ids=str)
@in_asyncio
async def test_what_may_have_returned_nothing_needs_no_result(tmp_path: Path, returns: Any) -> None:
    app = new_app(tmp_path)
    begun = asyncio.Event()

    async def send() -> Any:
        begun.set()
        await asyncio.Event().wait()

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.step(send, effect="once", returns=returns)

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await asyncio.wait_for(begun.wait(), 60)
        async with app.worker():
            await client.answer((await _question(app, client)).id, {"action": "done"})
            assert await run.result(60) is None


@pytest.mark.parametrize("operators", [[], ["user:olga"]], ids=["of-the-app", "of-the-step"])
@in_asyncio
async def test_only_operators_are_asked_what_became_of_it(tmp_path: Path, operators: list[str]) -> None:
    app = new_app(tmp_path, operators=["group:ops"])
    begun = asyncio.Event()

    async def pay() -> str:
        begun.set()
        return await asyncio.Event().wait() or "never"

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(
            pay, effect="once", key="order-7", operators=operators, metadata={"order": 7, "step": "mine"}
        )

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await asyncio.wait_for(begun.wait(), 60)
        async with app.worker():
            question = await _question(app, client)
            assert list(question.assignees) == (operators or ["group:ops"])
            shown = json.loads(question.data or "")["metadata"]
            assert shown == {"order": 7, "run_id": "r", "step": "pay", "idempotency_key": "order-7"}
            done = {"action": "done", "result": "receipt"}
            for who in ({}, {"user_id": "mallory"}, {"user_id": "mallory", "groups": ["sales"]}):
                with pytest.raises(NotAllowed):
                    await client.answer(question.id, done, **who)
            await client.answer(question.id, done, user_id="olga", groups=["ops"])
            assert await run.result(60) == "receipt"


@in_asyncio
async def test_operators_are_only_for_steps_with_outcome_questions(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context, *, operators: list[str], once: bool) -> None:
        await ctx.step("pay", print, effect="once" if once else "repeatable", operators=operators)

    async with running(app) as client:
        for operators, once, wrong in (
            (["group:ops"], False, RegistrationError),
            (["ops"], True, InvalidValue),
        ):
            with pytest.raises(wrong, match="operators"):
                await (await client.start(flow, operators=operators, once=once)).result(60)
    with pytest.raises(InvalidValue, match="operators"):
        Signoff(SqliteStore(tmp_path / "other.db"), operators=["ops"])


@pytest.mark.parametrize(
    ("metadata", "once", "wrong"),
    [({"order": 7}, False, RegistrationError), ({"order": object()}, True, NotSerializable)],
    ids=["of a step that is repeated", "no JSON"],
)
@in_asyncio
async def test_a_value_that_cannot_be_shown_is_refused(
    tmp_path: Path, metadata: dict[str, Any], once: bool, wrong: type[Exception]
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("pay", print, effect="once" if once else "repeatable", metadata=metadata)

    async with running(app) as client:
        with pytest.raises(wrong, match="metadata"):
            await (await client.start(flow)).result(60)


@in_asyncio
async def test_an_error_of_its_own_is_an_outcome_and_not_retried(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    ran: list[int] = []

    def fail() -> None:
        ran.append(1)
        raise LookupError("declined")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(fail, effect="once")

    async with running(app) as client:
        with pytest.raises(LookupError, match="declined"):
            await (await client.start(flow)).result(60)
    assert ran == [1]


@in_asyncio
async def test_an_orderly_stop_lets_it_finish_without_a_question(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    async def charge() -> str:
        ran.append(1)
        begun.set()
        await go_on.wait()
        return "receipt"

    @app.workflow
    async def flow(ctx: Context) -> str:
        receipt = await ctx.step(charge, effect="once")
        return await ctx.step("pack", lambda: f"{receipt} packed")

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with app.worker():
            await begun.wait()
            asyncio.get_running_loop().call_soon(go_on.set)
        async with app.worker():
            assert await run.result(60) == "receipt packed"
        assert ran == [1]
        assert not await journaled(app, "r", EntryKind.OPENED)
