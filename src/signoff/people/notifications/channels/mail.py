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
"""Refusals of this very mail. What a server says of a login or of its greeting may be mended."""


@dataclass(frozen=True)
class MailServer:
    """How to reach an SMTP server.

    Attributes:
        host: Its name.
        port: Its port; None: 587, 465 with ``tls``, 25 with ``none``.
        security: ``starttls``, ``tls`` from the first byte on, or ``none``: for a server on this machine.
        username: As whom to log in, if one has to.
        password: With what.
        ca_file: Certificates (PEM) of the authorities to trust; None: those that this machine trusts.

    Raises:
        InvalidValue: There is a name without a password or the other way round, or a ``ca_file`` and no TLS.
    """

    host: str
    port: int | None = None
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password: str | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        if (self.username is None) != (self.password is None):
            raise InvalidValue("password", "to log in takes a username and a password")
        if self.ca_file is not None and self.security == "none":
            raise InvalidValue("ca_file", "without TLS nobody shows a certificate")

    def tls_context(self) -> ssl.SSLContext | None:
        """Return whom to trust: None without TLS. Raises InvalidValue."""
        if self.security == "none":
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:  # what is no certificate is an SSLError, which is an OSError
            raise InvalidValue("ca_file", f"{self.ca_file} has no certificates to read: {error}") from None


class MailSender:
    """Sends a mail to each recipient.

    Args:
        server: Through which server.
        sender: From whom: ``signoff@example.org``.

    Raises:
        InvalidValue: The sender is no address, or the file of authorities cannot be read.
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
        except (InvalidValue, MessageError, ValueError) as error:  # the same at every attempt
            raise Undelivered(f"no mail can be made of it: {type(error).__name__}", is_final=True) from None
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
                # A server that offers none is an error, and gets nothing.
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


def _trouble(error: Exception) -> str:
    """Say why a mail server was not come to terms with."""
    causes = [each for each in (error, error.__cause__) if isinstance(each, ssl.SSLError)]
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate of the mail server is not trusted: {cause.verify_message}"
        return f"no TLS with the mail server: {cause.reason}"
    if type(error) is aiosmtplib.SMTPException:  # the library's own words: what the server does not offer
        return f"the mail server does not do what it must: {error}"
    return f"no answer of the mail server: {type(error).__name__}"


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
    return f"Whoever has this link answers as {name}, once and without signing in: do not pass it on."
