"""The shop's workflows, each to its end, with scripted people and virtual time."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta

import pytest

from examples.shop.__main__ import main
from examples.shop.assistant import answer_customer
from examples.shop.campaign import campaign
from examples.shop.complaint import complaint
from examples.shop.order import order
from examples.shop.refund import refund
from examples.shop.release import release
from examples.shop.samples import samples, start_samples
from examples.shop.services import FeedUnreadable
from examples.shop.shipping import ship
from examples.shop.stock import import_stock
from examples.shop.supplier import Supplier, new_supplier
from examples.shop.worker import app
from examples.website_summary.processes import REPOSITORY
from signoff import NotAllowed
from signoff.records import EntryKind
from signoff.testing import after_step, environment
from tests.support import in_asyncio

HOUR = timedelta(hours=1)
ALPENHOLZ = {
    "name": "Alpenholz GmbH",
    "country": "Austria",
    "vat_id": "ATU12345678",
    "payment_days": 30,
    "is_sustainable": True,
}


@in_asyncio
async def test_a_small_refund_asks_no_question() -> None:
    async with environment(app) as env:
        assert await env.run(refund, "o-1038", 4_999, "wrong size", id="r") == {
            "status": "paid",
            "amount": "€49.99",
            "receipt": "R-r.2",
        }


@in_asyncio
async def test_a_refund_not_decided_in_time_notifies_the_team_and_asks_again() -> None:
    async with environment(app) as env:
        env.people.stay_silent("Refund*")
        env.people.answer("No decision in time*", approved=True, after=5 * HOUR)
        run = await env.start(refund, "o-1042", 7_000, "broken")
        assert (await run.result())["status"] == "paid"
        names = [entry.name for entry in await run.journal() if entry.kind is EntryKind.COMPLETED]
        assert names[1:] == [names[1], "tell_team", names[3], "pay_back"]


@in_asyncio
async def test_a_refund_is_not_paid_against_a_no() -> None:
    async with environment(app) as env:
        env.people.answer("Refund*", approved=False, note="not ours", by="user:ana")
        run = await env.start(refund, "o-1042", 5_000, "broken")
        assert await run.result() == {"status": "rejected", "by": "user:ana", "reason": "not ours"}
        assert "pay_back" not in [entry.name for entry in await run.journal()]


@in_asyncio
async def test_whether_money_has_moved_is_asked_where_a_worker_died_beside_it() -> None:
    async with environment(app) as env:
        env.people.answer("Refund*", approved=True)
        env.people.answer("*was interrupted*", {"action": "done", "result": "R-by-hand"})
        env.crash(at=after_step("pay_back"))
        assert (await env.run(refund, "o-1042", 5_000, "broken"))["receipt"] == "R-by-hand"
        assert env.pending_crashes == []


@pytest.mark.parametrize(
    ("approved", "reply"), [(True, "Here is a voucher: V-4000-Tomas"), (False, "came so late")]
)
@in_asyncio
async def test_the_assistant_gives_nothing_away_without_approval(approved: bool, reply: str) -> None:
    async with environment(app) as env:
        env.people.answer("Give Tomas Havel a voucher of €40.00?", approved=approved)
        result = await env.run(answer_customer, "It came too late")
    assert reply in result["reply"]
    assert "script" in result["written by"], "the script is not mistaken for a model"


@in_asyncio
async def test_the_reply_that_is_sent_is_the_one_that_was_approved() -> None:
    async with environment(app) as env:
        edited = {"to": "mara@example.com", "subject": "Your lamp", "text": "A new one is on its way."}
        env.people.answer("Send this reply*", {"approved": True, "edited": edited})
        run = await env.start(complaint, "Mara Lindqvist", "lamp", "It is broken!", id="c")
        assert await run.result() == {
            "status": "sent",
            "delivery": "<c.3@shop.example>",
            "edited": "text",
        }


@in_asyncio
async def test_a_reply_that_is_rejected_is_not_sent() -> None:
    async with environment(app) as env:
        env.people.answer("Send this reply*", approved=False, note="I call her")
        result = await env.run(complaint, "Mara Lindqvist", "lamp", "It is broken!")
        assert result == {"status": "not sent", "reason": "I call her"}


@pytest.mark.parametrize(("company", "known"), [("Alpenholz", "Alpenholz GmbH"), ("Nobody", None)])
@in_asyncio
async def test_the_form_begins_with_what_is_known_and_its_record_is_the_result(
    company: str, known: str | None
) -> None:
    async with environment(app) as env:
        run = await env.start(new_supplier, company)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert (json.loads(question.data or "").get("default") or {}).get("name") == known
        env.people.answer("Complete the record*", ALPENHOLZ)
        assert await run.result() == Supplier.model_validate(ALPENHOLZ)


@in_asyncio
async def test_three_questions_are_open_at_once_and_answered_in_any_order() -> None:
    async with environment(app) as env:
        run = await env.start(campaign, "Spring sale")
        await env.idle()
        assert len((await env.client.questions()).items) == 3
        env.people.answer("*where*", ["Radio", "Posters"])
        env.people.answer("*headline*", "Light!", after=2 * HOUR)
        env.people.answer("*discount*", {"other": "12%"}, after=HOUR)
        assert await run.result() == {
            "discount": "12%",
            "headline": "Light!",
            "booked": ["Radio: Light!", "Posters: Light!"],
        }


@in_asyncio
async def test_a_feed_that_is_down_is_fetched_again_until_it_is_up() -> None:
    async with environment(app) as env:
        run = await env.start(import_stock, "Lumen")
        assert await run.result() == {"articles": 3, "pieces": 188}
        failed = [entry for entry in await run.journal() if entry.kind is EntryKind.ATTEMPT_FAILED]
        assert len(failed) == 2


@in_asyncio
async def test_a_feed_that_is_broken_is_not_fetched_again() -> None:
    async with environment(app) as env:
        run = await env.start(import_stock, "Nordwind")
        with pytest.raises(FeedUnreadable, match="line 212"):
            await run.result()
        assert not any(entry.kind is EntryKind.ATTEMPT_FAILED for entry in await run.journal())


@in_asyncio
async def test_an_order_is_shipped_when_its_payment_has_come() -> None:
    async with environment(app) as env:
        env.people.call_back("Payment of*", {"cents": 900, "reference": "p-1"}, after=HOUR)
        env.people.answer("*which carrier?", "Courier")
        result = await env.run(order, "o-1", 900, 31.0, 1e6)
        assert result == {"status": "shipped", "payment": "p-1", "tracking": "Courier-o-1"}


@in_asyncio
async def test_an_unpaid_order_is_not_shipped() -> None:
    async with environment(app) as env:
        assert await env.run(order, "o-1", 900, 31.0, 1e6) == {"status": "not paid"}


@in_asyncio
async def test_a_light_parcel_asks_no_question() -> None:
    async with environment(app) as env:
        assert await env.run(ship, "o-1", 30.0) == "Post-o-1"


@pytest.mark.parametrize(("second", "status"), [(True, "online"), (False, "kept back")])
@in_asyncio
async def test_a_release_takes_two_of_three_and_not_who_asks_for_it(second: bool, status: str) -> None:
    async with environment(app) as env:
        run = await env.start(release, "4.2", ["a change"], started_by="user:dora")
        await env.idle()
        (question,) = (await env.client.questions()).items
        with pytest.raises(NotAllowed):
            await env.client.answer(question.id, True, user_id="dora")
        for name, vote in (("ana", True), ("ben", False), ("cleo", second)):
            await env.client.answer(question.id, vote, user_id=name)
        votes = {"ana": "yes", "ben": "no", "cleo": "yes" if second else "no"}
        result = await run.result()
        assert (result["status"], result["votes"]) == (status, votes)


@in_asyncio
async def test_samples_that_are_started_again_are_joined_as_they_are() -> None:
    async with environment(app) as env:
        first = await start_samples(env.client)
        assert len((await env.client.questions()).items) == sum(each.asks for each in samples())
        env.people.answer("Put version*", approved=True, by="ben")
        await env.idle()
        again = await start_samples(env.client)
        assert [run.id for run in again] == [run.id for run in first]
        ended = next(run for run in again if run.id.startswith("release"))
        assert (await ended.result())["votes"] == {"ana": "yes", "ben": "yes"}


def test_the_worker_has_all_samples_whatever_else_is_imported() -> None:
    code = "from examples.shop.worker import app; print(*app.registry.names())"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    started = {each.id: each.workflow.__name__ for each in samples()}
    assert set(started.values()) <= set(done.stdout.split())
    assert started["reply-tomas"] == "answer_customer", "an agent is among them"


def test_an_invalid_server_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, code in (["http://127.0.0.1:1"], 1), (["nonsense"], 1), (["http://a", "http://b"], 2):
        assert main(wrong) == code
        assert capsys.readouterr().err.count("\n") == 1
