"""E-mail, through an SMTP server."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from pathlib import Path
from typing import Final, Literal

import aiosmtplib

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.channel import Undelivered
from signoff.people.notifications.notices import LONGEST_TITLE, Notice, shown

_OF_THE_MAIL: Final = (
    aiosmtplib.SMTPSenderRefused,
    aiosmtplib.SMTPRecipientRefused,
    aiosmtplib.SMTPDataError,
)
"""Refusals of this particular mail. Other refusals, such as of a login, may be resolved later."""


@dataclass(frozen=True)
class MailServer:
    """How to reach an SMTP server.

    Attributes:
        host: Its host name.
        port: Its port; None: 587, 465 with ``tls``, 25 with ``none``.
        security: ``starttls``, ``tls`` from the first byte on, or ``none`` for a server on this machine.
        username: User name of the login, if the server requires one.
        password: Password of the login.
        ca_file: Certificates (PEM) of trusted authorities; None: those that this machine trusts.

    Raises:
        InvalidValue: There is a user name without a password or the reverse, or a ``ca_file`` without TLS.
    """

    host: str
    port: int | None = None
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password: str | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        if (self.username is None) != (self.password is None):
            raise InvalidValue("password", "a login needs both username and password")
        if self.ca_file is not None and self.security == "none":
            raise InvalidValue("ca_file", "has no effect without TLS")

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None without TLS. Raises InvalidValue."""
        if self.security == "none":
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:  # an invalid certificate raises SSLError, an OSError
            raise InvalidValue("ca_file", f"{self.ca_file} has no readable certificates: {error}") from None


class MailSender:
    """Sends a mail to each recipient.

    Args:
        server: The SMTP server.
        sender: The sender's address: ``signoff@example.org``.

    Raises:
        InvalidValue: The sender is not a mail address, or the file of authorities cannot be read.
    """

    is_shared = False
    is_record = False
    is_mailbox = True

    def __init__(self, server: MailServer, sender: str) -> None:
        self._server = server
        self._tls = server.tls_context()
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
        try:
            message = self._message(notice)
        except (InvalidValue, MessageError, ValueError) as error:  # would fail at every attempt
            raise Undelivered(f"cannot be written as a mail: {type(error).__name__}", is_final=True) from None
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
                # Without STARTTLS support at the server this is an error, and nothing is sent.
                start_tls=server.security == "starttls",
                tls_context=self._tls,
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
            is_final = refused.code >= 500 and isinstance(refused, _OF_THE_MAIL)
            raise Undelivered(
                f"the server answers {refused.code} ({type(refused).__name__})", is_final=is_final
            ) from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise Undelivered(_trouble(error)) from None

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
        message["References"] = f"<{thread.hexdigest()[:32]}@{domain}>"  # one thread per question
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
        raise InvalidValue(path, f"{address[:200]!r} is not a mail address such as ana@example.org")
    return parsed


def _trouble(error: Exception) -> str:
    """Describe why the connection to a mail server failed."""
    causes = [each for each in (error, error.__cause__) if isinstance(each, ssl.SSLError)]
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate of the mail server is not trusted: {cause.verify_message}"
        return f"no TLS with the mail server: {cause.reason}"
    if type(error) is aiosmtplib.SMTPException:  # the library's message: a feature the server lacks
        return f"the mail server lacks a required feature: {error}"
    return f"no response from the mail server: {type(error).__name__}"


def _plain(notice: Notice) -> str:
    parts = [f"{label}:\n{text}" if label else text for label, text in notice.parts]
    if notice.answer_url is not None:
        parts.append(f"Answer: {notice.answer_url}")
        parts.append(_caution(notice))
    elif notice.url is not None:
        parts.append(f"Look and answer: {notice.url}")
    return "\n\n".join(parts) + "\n"


def _html(notice: Notice) -> str:
    parts: list[str] = []
    for label, text in notice.parts:
        head = f"<b>{escape(label)}</b><br>" if label else ""
        parts.append(f'<p style="white-space: pre-wrap">{head}{escape(text)}</p>')
    if notice.answer_url is not None:
        parts.append(f'<p><a href="{escape(notice.answer_url)}">Answer</a></p>')
        parts.append(f"<p>{escape(_caution(notice))}</p>")
    elif notice.url is not None:
        parts.append(f'<p><a href="{escape(notice.url)}">Look and answer</a></p>')
    return f'<!doctype html><html><body style="font-family: sans-serif">{"".join(parts)}</body></html>'


def _caution(notice: Notice) -> str:
    name = shown(notice.delivery.recipient.removeprefix("user:"), LONGEST_TITLE)
    return f"Anyone with this link can answer as {name}, once and without signing in. Do not pass it on."
