"""A reply is drafted, a person edits and approves it, and the approved text is sent."""

from __future__ import annotations

from pydantic import BaseModel, Field

from examples.shop.app import app
from examples.shop.services import deliver_mail
from signoff import Context


class Mail(BaseModel):
    to: str
    subject: str
    text: str = Field(min_length=1, json_schema_extra={"format": "textarea"})


@app.workflow
async def complaint(ctx: Context, customer: str, about: str, message: str) -> dict[str, str]:
    draft = await ctx.step(draft_reply, customer, about)
    answer = await ctx.wait_for_user(
        f"Send this reply to {customer}?",
        proposal=draft,
        proposal_type=Mail,
        metadata={"they wrote": message},
        help="Edit what needs changing. Exactly what you approve is sent.",
    )
    if not answer.approved:
        return {"status": "not sent", "reason": answer.note or ""}
    mail = answer.proposal
    delivery = await ctx.step(deliver_mail, mail.to, mail.subject, mail.text)
    edited = ", ".join(edit["path"].strip("/") for edit in answer.edits)
    return {"status": "sent", "delivery": delivery, "edited": edited or "nothing"}


def draft_reply(customer: str, about: str) -> Mail:
    """Write a reply as a language model might: polite, and a little too generous."""
    first_name = customer.split()[0]
    return Mail(
        to=f"{first_name.lower()}@example.com",
        subject=f"Your {about}",
        text=(
            f"Dear {first_name},\n\n"
            f"we are sorry that your {about} arrived damaged. We send you a new one today, and you may keep the "
            "old one. As an apology, your next three orders are free.\n\nYour shop"
        ),
    )
