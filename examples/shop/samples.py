"""Sample runs that show what the shop, and Studio, can do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from examples.shop.app import app
from examples.shop.assistant import answer_customer
from examples.shop.campaign import campaign
from examples.shop.complaint import complaint
from examples.shop.order import order
from examples.shop.refund import refund
from examples.shop.release import release
from examples.shop.stock import import_stock
from examples.shop.supplier import new_supplier
from signoff import AlreadySettled, AsyncClient, AsyncHandle, Entry
from signoff.records import EntryKind


@dataclass(frozen=True)
class Sample:
    """A run to start.

    Attributes:
        id: The run's id. Starting it again joins the same run.
        workflow: Its workflow.
        arguments: Its arguments.
        asks: The number of questions it opens at first.
        by: The user who starts it.
    """

    id: str
    workflow: Callable[..., Any]
    arguments: tuple[Any, ...]
    asks: int = 0
    by: str = "user:dora"


def samples(pace: float = 1.0) -> list[Sample]:
    """Return the samples. The one that asked first is at the top of the inbox.

    Args:
        pace: The length of a second in seconds, for waits that are not for people.
    """
    changes = ["Search finds what is misspelled", "VAT of gift cards", "Faster pictures"]
    wrote = (
        "The shade was broken and the cable is too short. This is the second time! "
        "I want my money back or a new one, and I will not send the old one anywhere."
    )
    return [
        Sample("refund-o-1038", refund, ("o-1038", 1_990, "wrong size")),
        Sample("stock-nordwind", import_stock, ("Nordwind",), by="user:ben"),
        Sample("release-4.2", release, ("4.2", changes), asks=1),
        Sample("supplier-alpenholz", new_supplier, ("Alpenholz",), asks=1, by="user:ben"),
        Sample("campaign-spring", campaign, ("Spring sale",), asks=3, by="user:ben"),
        Sample("refund-o-1044", refund, ("o-1044", 8_900, "came too late", 30 * pace), asks=1),
        Sample("reply-tomas", answer_customer, ("Order o-1050 came two weeks late! Tomas Havel",), asks=1),
        Sample("complaint-mara", complaint, ("Mara Lindqvist", "desk lamp", wrote), asks=1),
        Sample("order-o-1043", order, ("o-1043", 64_900, 34.5, 40 * pace), asks=1),
        Sample("stock-lumen", import_stock, ("Lumen", 20 * pace), by="user:ben"),
        Sample("refund-o-1042", refund, ("o-1042", 12_450, "broken when it arrived"), asks=1),
    ]


async def start_samples(client: AsyncClient, pace: float = 1.0) -> list[AsyncHandle]:
    """Start all samples, each when the one before has asked. Those that were started before are joined.

    Args:
        client: Its server or store must have a worker of the shop.
        pace: See ``samples``.
    """
    return [await start_sample(client, each) for each in samples(pace)]


async def start_sample(client: AsyncClient, sample: Sample) -> AsyncHandle:
    """Start a sample, and return once it has asked its first questions."""
    run = await client.start(
        sample.workflow, *sample.arguments, id=sample.id, group=app.group, started_by=sample.by
    )
    questions = await opened(run, sample.asks)
    if sample.workflow is release:
        await vote(client, questions[0].fact("id"))
    return run


async def vote(client: AsyncClient, question_id: str) -> None:
    """Have a colleague agree, so that one of two votes is missing. On another run it may already be decided."""
    note = "tried it on the test system"
    with suppress(AlreadySettled):
        await client.answer(question_id, True, user_id="ana", note=note, request_id="samples")


async def opened(run: AsyncHandle, count: int) -> list[Entry]:
    """Wait until a run has opened so many questions, children and timers. Return their journal entries."""
    entries: list[Entry] = []
    if count == 0:
        return entries
    async with aclosing(run.events()) as events:
        async for entry in events:
            if entry.kind is EntryKind.OPENED:
                entries.append(entry)
            if len(entries) == count:
                break
    return entries
