"""A webhook and a mail channel that take every notice."""

from __future__ import annotations

from dataclasses import replace

from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.mail import MailSender, MailServer
from signoff.people.notifications.channels.webhook import WebhookSender
from signoff.records import AuditKind
from tests.notifications.asking import SECRET
from tests.notifications.receivers import Web

EVERYTHING = frozenset(AuditKind)


def hook(server: Web, name: str = "hook", **options: object) -> Channel:
    channel = Channel(name, WebhookSender(server.url, [SECRET]), events=EVERYTHING)
    return replace(channel, **options)  # type: ignore[arg-type]


def mail(port: int, **options: object) -> Channel:
    sender = MailSender(MailServer("127.0.0.1", port, "none"), "signoff@example.org")
    channel = Channel("mail", sender, recipients={"user:ana": "ana@example.org"})
    return replace(channel, **options)  # type: ignore[arg-type]
