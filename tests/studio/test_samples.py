"""The samples of ``make demo``, with real processes: all questions are answered in Studio, and all runs end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from playwright.sync_api import Page, expect

from examples.shop.samples import samples, start_samples
from examples.website_summary.processes import Site
from signoff import AsyncClient
from tests.server.conftest import ended
from tests.studio.axe import serious
from tests.studio.patience import UNDO_MILLISECONDS, install_clock

HURRY = 0.02


class Served:
    """Where a site's Studio is."""

    def __init__(self, site: Site) -> None:
        self.url = site.server_url


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Site(tmp_path_factory.mktemp("samples")) as site:
        site.start("server", "shop")
        # On a thread: the browser's event loop runs on this one.
        with ThreadPoolExecutor() as threads:
            threads.submit(lambda: asyncio.run(start(site.server_url))).result()
        yield Served(site)


async def start(url: str) -> None:
    async with AsyncClient(url) as client:
        await start_samples(client, HURRY)


def opened(page: Page, text: str) -> Page:
    """Choose a question as soon as it is asked."""
    page.get_by_role("link", name=text).click()
    expect(page.get_by_role("article").get_by_role("heading", name=text)).to_be_visible()
    return page


def press(page: Page, button: str) -> None:
    """Decide, and let the time pass in which it could be taken back."""
    page.get_by_role("article").get_by_role("button", name=button, exact=True).click()
    page.clock.fast_forward(UNDO_MILLISECONDS)


def test_all_that_the_samples_ask_is_answered_until_nothing_is_open(page: Page, http: httpx.Client) -> None:
    install_clock(page)
    page.goto("/")

    press(opened(page, "Refund €124.50 to Mara Lindqvist?"), "Approve")

    opened(page, "No decision in time: refund €89.00 to Priya Nair?")
    page.get_by_role("textbox", name="Note").fill("it came on the promised day")
    press(page, "Reject")

    opened(page, "Give Tomas Havel a voucher of €40.00?")
    expect(page.get_by_text("Order o-1050 came two weeks late!")).to_be_visible()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Cents").fill("1500")
    press(page, "Approve as edited")

    opened(page, "Send this reply to Mara Lindqvist?")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_role("textbox", name="Text").fill("Dear Mara, a new lamp is on its way.")
    press(page, "Approve as edited")

    opened(page, "Complete the record of Alpenholz")
    expect(page.get_by_label("Registered name")).to_have_value("Alpenholz GmbH")
    page.get_by_label("Days to pay").fill("14")
    press(page, "Answer")

    opened(page, "Spring sale: how large is the discount?")
    page.get_by_role("radio", name="20%").check()
    press(page, "Answer")
    opened(page, "Spring sale: what does the headline say?")
    page.get_by_role("textbox", name="Answer").fill("Let there be light")
    press(page, "Answer")
    opened(page, "Spring sale: where does it run?")
    page.get_by_role("checkbox", name="Posters").check()
    page.get_by_role("checkbox", name="Radio").check()
    press(page, "Answer")

    press(opened(page, "Put version 4.2 of the shop online?"), "Approve")

    opened(page, "o-1043 weighs 34.5 kg: which carrier?")
    page.get_by_role("radio", name="Freight company").check()
    press(page, "Answer")

    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    results = {sample.id: ended(http, sample.id) for sample in samples()}
    unreadable = results.pop("stock-nordwind")
    assert unreadable["error"]["type"] == "examples.shop.services:FeedUnreadable"
    assert {id: run["result"] for id, run in results.items()} == {
        "refund-o-1038": {"status": "paid", "amount": "€19.90", "receipt": "R-refund-o-1038.2"},
        "refund-o-1042": {"status": "paid", "amount": "€124.50", "receipt": "R-refund-o-1042.3"},
        "refund-o-1044": {"status": "rejected", "by": "me", "reason": "it came on the promised day"},
        "reply-tomas": {
            "reply": "Dear Tomas, we are sorry. Here is a voucher: V-1500-Tomas",
            "written by": "a script: set SIGNOFF_DEMO_MODEL for a model",
        },
        "complaint-mara": {"status": "sent", "delivery": "<complaint-mara.3@shop.example>", "edited": "text"},
        "supplier-alpenholz": {
            "name": "Alpenholz GmbH",
            "country": "Austria",
            "vat_id": "ATU62348907",
            "payment_days": 14,
            "is_sustainable": False,
        },
        "campaign-spring": {
            "discount": "20%",
            "headline": "Let there be light",
            "booked": ["Posters: Let there be light", "Radio: Let there be light"],
        },
        "release-4.2": {
            "status": "online",
            "at": "https://shop.example/?v=4.2",
            "votes": {"ana": "yes", "me": "yes"},
        },
        "order-o-1043": {
            "status": "shipped",
            "payment": "PAY-order-o-1043-provider.2",
            "tracking": "Freight-o-1043",
        },
        "stock-lumen": {"articles": 3, "pieces": 188},
    }
    assert http.get("/v1/questions").json()["items"] == []

    page.goto("/runs/reply-tomas")
    talk = page.get_by_role("list", name="Conversation")
    expect(talk.get_by_text("assistant calls look_up")).to_be_visible()
    expect(talk.get_by_text("a garden table, two weeks late")).to_be_visible()
    expect(talk.get_by_text("by me")).to_be_visible()
    expect(talk.get_by_text("V-1500-Tomas", exact=True)).to_be_visible()
    expect(talk.get_by_text("Dear Tomas, we are sorry. Here is a voucher: V-1500-Tomas")).to_be_visible()
    assert serious(page) == []
