"""A child run: a light parcel ships automatically; for a heavy one a person chooses the carrier."""

from __future__ import annotations

from examples.shop.app import app
from examples.shop.services import hand_over
from signoff import Context

HEAVY_KILOGRAMS = 30


@app.workflow
async def ship(ctx: Context, order_id: str, kilograms: float) -> str:
    carrier = "Post"
    if kilograms > HEAVY_KILOGRAMS:
        answer = await ctx.wait_for_user(
            f"{order_id} weighs {kilograms:g} kg: which carrier?",
            input_type="select",
            options=[
                {"value": "Freight", "label": "Freight company", "help": "€64, in four days"},
                {"value": "Courier", "help": "€118, tomorrow"},
                {"value": "Split", "label": "Two parcels by post", "help": "€24, if it can be taken apart"},
            ],
            metadata={"weight": f"{kilograms:g} kg", "promised": "within five days"},
        )
        carrier = answer.value
    return await ctx.step(hand_over, order_id, carrier)
