"""A form: known facts about a company are filled in, a person completes it, and the workflow gets a typed value."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, Field

from examples.shop.app import app
from examples.shop.services import look_up_company
from signoff import Context

USUAL_PAYMENT_DAYS = 30


class Country(StrEnum):
    AUSTRIA = "Austria"
    FRANCE = "France"
    GERMANY = "Germany"
    ITALY = "Italy"
    POLAND = "Poland"


class Supplier(BaseModel):
    name: str = Field(title="Registered name", min_length=1)
    country: Country = Field(title="Country")
    vat_id: str = Field(
        title="VAT number", pattern="^[A-Z]{2}[0-9A-Z]{8,12}$", description="Such as DE811907980"
    )
    payment_days: int = Field(title="Days to pay", ge=0, le=90)
    is_sustainable: bool = Field(title="Audited for sustainability", default=False)


@app.workflow
async def new_supplier(ctx: Context, company: str) -> Supplier:
    found = await ctx.step(look_up_company, company)
    known = None if found is None else Supplier(**found, payment_days=USUAL_PAYMENT_DAYS)
    answer = await ctx.wait_for_user(
        f"Complete the record of {company}",
        input_type="form",
        answer_type=Supplier,
        default=known,
        help="Facts from the public register are filled in. Their offer says when they want to be paid.",
    )
    return answer.value
