"""The third step: a mail that asks a person to decide."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from urllib.parse import urlencode

from examples.website_summary.files import write_atomically
from examples.website_summary.settings import settings
from examples.website_summary.smtp import deliver
from examples.website_summary.summarize import Summary
from signoff import Context, current_step


def send_email(ctx: Context, summary: Summary, email: str, promise_id: str) -> None:
    """Write a mail with the decision link into the outbox folder, and send it if there is a mail server.

    A step may run again after a crash, so the mail's id is the same at every attempt: the file is replaced, and mail
    programs show one mail.
    """
    key = current_step().idempotency_key
    link = f"{settings().gateway_url}/confirm?{urlencode({'promise_id': promise_id})}"
    mail = EmailMessage(policy=SMTP)
    mail["Message-ID"] = f"<{key}@signoff.invalid>"
    mail["From"] = settings().sender
    mail["To"] = email
    mail["Subject"] = "A summary for you to accept or reject"
    mail.set_content(f"{summary.text}\n\nMade by {summary.made_by}.\n\nAccept or reject it here:\n{link}\n")
    write_atomically(settings().outbox / f"{key}.eml", mail.as_bytes())
    if settings().smtp_url:
        deliver(mail)
