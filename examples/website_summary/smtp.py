"""Sends mails."""

from __future__ import annotations

import smtplib
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from examples.website_summary.settings import settings


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
