"""E-mail, through an SMTP server."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from typing import Literal

import aiosmtplib

from signoff.errors import InvalidValue
from signoff.people.channels.channel import Undelivered
from signoff.people.notices import Notice


@dataclass(frozen=True)
class MailServer:
    """How to reach an SMTP server.

    Attributes:
        host: Its name.
        port: Its port; None: 587, 465 with ``tls``, 25 with ``none``.
        security: ``starttls``, ``tls`` from the first byte on, or ``none``: for a server on this machine.
        username: As whom to log in, if one has to.
        password: With what.
    """

    host: str
    port: int | None = None
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password: str | None = None


class MailSender:
    """Sends a mail to each recipient.

    Args:
        server: Through which server.
        sender: From whom: ``signoff@example.org``.

    Raises:
        InvalidValue: The sender is no address.
    """

    is_shared = False
    is_record = False

    def __init__(self, server: MailServer, sender: str) -> None:
        self._server = server
        self._from = check_address("from", sender)

    def address_of(self, assignee: str) -> str | None:
        name = assignee.removeprefix("user:")
        if name == assignee or "@" not in name:
            return None
        try:
            return check_address("user", name).addr_spec
        except InvalidValue:
            return None

    async def send(self, notice: Notice) -> None:
        message = self._message(notice)
        server = self._server
        ports = {"starttls": 587, "tls": 465, "none": 25}
        try:
            await aiosmtplib.send(
                message,
                sender=self._from.addr_spec,
                recipients=[notice.address],
                hostname=server.host,
                port=server.port or ports[server.security],
                use_tls=server.security == "tls",
                start_tls=server.security == "starttls",
                username=server.username,
                password=server.password,
            )
        except aiosmtplib.SMTPRecipientsRefused as refused:
            codes = sorted({each.code for each in refused.recipients})
            raise Undelivered(
                f"the server refuses the recipient ({', '.join(map(str, codes))})",
                is_final=all(code >= 500 for code in codes),
            ) from None
        except aiosmtplib.SMTPResponseException as refused:
            raise Undelivered(f"the server answers {refused.code} ({type(refused).__name__})") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise Undelivered(f"no answer of the mail server: {type(error).__name__}") from None

    async def close(self) -> None:
        pass

    def _message(self, notice: Notice) -> EmailMessage:
        domain = self._from.domain
        thread = hashlib.sha256(f"{notice.event.namespace}\n{notice.event.question_id}".encode())
        message = EmailMessage(policy=SMTP)
        message["From"] = self._from
        message["To"] = check_address("to", notice.address)
        message["Subject"] = notice.title
        message["Date"] = format_datetime(datetime.fromtimestamp(notice.now, UTC))
        message["Message-ID"] = f"<{notice.delivery.id}@{domain}>"
        message["References"] = f"<{thread.hexdigest()[:32]}@{domain}>"  # one thread for a question
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(_plain(notice))
        message.add_alternative(_html(notice), subtype="html")
        return message


def check_address(path: str, address: str) -> Address:
    """Return a mail address, parsed. Raises InvalidValue."""
    try:
        parsed = Address(addr_spec=address)
    except (MessageError, ValueError, IndexError):
        parsed = None
    if parsed is None or not parsed.username or not parsed.domain or not address.isprintable():
        raise InvalidValue(path, f"{address[:200]!r} is no mail address, such as ana@example.org")
    return parsed


def _plain(notice: Notice) -> str:
    parts = [f"{label}:\n{text}" if label else text for label, text in notice.parts]
    if notice.url is not None:
        parts.append(f"Look and answer: {notice.url}")
    return "\n\n".join(parts) + "\n"


def _html(notice: Notice) -> str:
    parts: list[str] = []
    for label, text in notice.parts:
        head = f"<b>{escape(label)}</b><br>" if label else ""
        parts.append(f'<p style="white-space: pre-wrap">{head}{escape(text)}</p>')
    if notice.url is not None:
        parts.append(f'<p><a href="{escape(notice.url)}">Look and answer</a></p>')
    return f'<!doctype html><html><body style="font-family: sans-serif">{"".join(parts)}</body></html>'
