"""The third step: a mail that asks a person to decide."""

from __future__ import annotations

import smtplib
from email.message import EmailMessage
from email.policy import SMTP
from urllib.parse import unquote, urlencode, urlsplit

from examples.website_summary.files import write_atomically
from examples.website_summary.settings import settings
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


def deliver(mail: EmailMessage) -> None:
    """Hand a mail to the server at SMTP_URL."""
    url = urlsplit(settings().smtp_url)
    kind = smtplib.SMTP_SSL if url.scheme == "smtps" else smtplib.SMTP
    with kind(url.hostname or "localhost", url.port or 0, timeout=30) as server:
        if url.scheme == "smtp" and server.has_extn("starttls"):
            server.starttls()
        if url.username:
            server.login(unquote(url.username), unquote(url.password or ""))
        server.send_message(mail)
