"""Three questions at once: each is answered separately, by anyone, and the run continues when all are answered."""

from __future__ import annotations

import asyncio

from examples.shop.app import app
from examples.shop.services import book_channel
from signoff import Context


@app.workflow
async def campaign(ctx: Context, name: str) -> dict[str, object]:
    discount, headline, channels = await asyncio.gather(
        ctx.wait_for_user(
            f"{name}: how large is the discount?",
            input_type="select",
            options=[
                {"value": "10%", "help": "as last year"},
                {"value": "15%"},
                {"value": "20%", "help": "needs 900 orders to pay off"},
            ],
            other="Another discount",
        ),
        ctx.wait_for_user(
            f"{name}: what does the headline say?", input_type="text", min_length=3, max_length=80
        ),
        ctx.wait_for_user(
            f"{name}: where does it run?",
            input_type="multiselect",
            options=["Newsletter", "Home page", "Posters", "Radio"],
            min_choices=1,
        ),
    )
    bookings = await asyncio.gather(
        *(ctx.step(f"book {channel}", book_channel, channel, headline.value) for channel in channels.value)
    )
    return {"discount": discount.value, "headline": headline.value, "booked": bookings}
