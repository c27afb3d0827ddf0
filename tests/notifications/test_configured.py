"""The file of channels: its settings, its secrets, and refusals."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.channel import CALLS
from signoff.people.notifications.channels.config_file import channels_of, read_channels
from signoff.records import AuditKind
from tests.notifications.asking import SECRET

SECRETS = {
    "HOOK": SECRET,
    "PASSWORD": "pa$$word",
    "TOKEN": "xoxb-1",
    "SIGNING": "s",
    "PLACE": "https://hooks.slack.com/services/T/B/X",
    "EMPTY": " ",
}

EXAMPLE = """
public_url = "https://signoff.example.org"

[[channels]]
name = "audit"
kind = "webhook"
url = "https://example.org/hook"
secrets = ["$HOOK"]

[[channels]]
name = "mail"
kind = "email"
host = "smtp.example.org"
username = "bot"
password = "env:PASSWORD"
from = "signoff@example.org"
to = ["desk@example.org"]
assignees = ["group:finance"]
events = ["asked", "resolved"]
public_url = "https://inside.example.org"
retry = { first_seconds = 1, max_attempts = 3 }
begin = "open"

[channels.recipients]
"group:finance" = "finance@example.org"

[[channels]]
name = "chat"
kind = "slack"
token = "$TOKEN"
signing_secret = "$SIGNING"
team = "T024BE7LD"
to = ["C1"]

[channels.users]
U1 = { user = "ana", groups = ["finance"] }

[[channels]]
name = "room"
kind = "slack"
webhook_url = "$PLACE"
"""


def test_a_file_says_what_channels_there_are(tmp_path: Path) -> None:
    path = tmp_path / "channels.toml"
    path.write_text(EXAMPLE)
    audit, mail, chat, room = read_channels(path, SECRETS)
    assert audit.events == frozenset(AuditKind)
    assert (audit.public_url, mail.public_url) == (
        "https://signoff.example.org",
        "https://inside.example.org",
    )
    assert mail.events == {AuditKind.ASKED, AuditKind.RESOLVED}
    assert (audit.begin, mail.begin) == ("now", "open")
    assert (mail.retry.first_seconds, mail.retry.max_attempts, mail.retry.max_seconds) == (1.0, 3, 3600.0)
    assert mail.recipients_of(["user:ana"]) == []
    assert mail.recipients_of(["group:finance", "user:bob@example.org"]) == [
        "desk@example.org",
        "group:finance",
        "user:bob@example.org",
    ]
    assert chat.events == room.events == CALLS
    assert (room.recipients_of([]), chat.recipients_of(["user:ana"])) == ([""], ["C1"])
    assert chat.sender.answering.team == "T024BE7LD"  # type: ignore[attr-defined]
    assert chat.sender.answering.users["U1"].names == {"user:ana", "group:finance"}  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
def test_the_example_of_the_documentation_is_one() -> None:
    docs = Path(__file__).parents[2] / "docs" / "notifications.md"
    [example] = re.findall(r"```toml\n(.*?)```", docs.read_text(), re.DOTALL)
    names = ("HOOK_SECRET", "SMTP_PASSWORD", "SLACK_TOKEN", "SLACK_SIGNING_SECRET")
    environ = {**dict.fromkeys(names, SECRET), "APPRISE_URL": "json://localhost"}
    channels = channels_of(tomllib.loads(example), environ)
    assert [channel.name for channel in channels] == ["audit", "mail", "chat", "phone"]
    assert channels[1].recipients_of(["user:ana", "user:bob"]) == ["user:ana"]


HOOK = {"name": "a", "kind": "webhook", "url": "https://example.org", "secrets": ["$HOOK"]}
MAIL = {"name": "a", "kind": "email", "host": "h", "from": "a@example.org"}
SLACK = {"name": "a", "kind": "slack", "webhook_url": "$PLACE"}


def test_the_smallest_channels_are_enough() -> None:
    for channel in (HOOK, MAIL, SLACK):
        assert len(channels_of({"channels": [channel]}, SECRETS)) == 1
    assert channels_of({}, SECRETS) == []


@pytest.mark.parametrize(
    "channel",
    [
        {**HOOK, "kind": "pigeon"},
        {**HOOK, "name": "A b"},
        {**HOOK, "name": ""},
        {**HOOK, "colour": "red"},
        {**HOOK, "url": "ftp://example.org"},
        {**HOOK, "secrets": []},
        {**HOOK, "secrets": [SECRET]},
        {**HOOK, "secrets": ["$PASSWORD"]},
        {**HOOK, "secrets": ["$MISSING"]},
        {**HOOK, "secrets": ["$EMPTY"]},
        {**HOOK, "events": []},
        {**HOOK, "begin": "yesterday"},
        {**HOOK, "begin": "open", "events": ["resolved"]},
        {**HOOK, "events": ["sneezed"]},
        {**HOOK, "assignees": ["ana"]},
        {**HOOK, "recipients": {"user:ana": "x"}},
        {**HOOK, "concurrency": 0},
        {**HOOK, "timeout_seconds": 0},
        {**HOOK, "timeout_seconds": float("inf")},
        {**HOOK, "retry": {"max_attempts": 0}},
        {**HOOK, "public_url": "example.org"},
        {**MAIL, "from": "a@example.org\nBcc: eve@example.org"},
        {**MAIL, "to": ["nobody"]},
        {**MAIL, "recipients": {"user:ana": "nobody"}},
        {**MAIL, "recipients": {"ana": "ana@example.org"}},
        {**MAIL, "password": "plain"},
        {**MAIL, "answer_links": True},
        {**MAIL, "answer_links": "yes"},
        {**MAIL, "answer_link_seconds": 0},
        {**HOOK, "answer_links": True},
        {**SLACK, "answer_links": True},
        {**MAIL, "port": 0},
        {**MAIL, "security": "maybe"},
        {**SLACK, "token": "$TOKEN"},
        {**SLACK, "to": ["C1"]},
        {**SLACK, "webhook_url": "https://hooks.slack.com/services/T/B/X"},
        {**SLACK, "users": {"U1": {"user": "ana"}}},
        {**SLACK, "team": "T024BE7LD"},
        {**SLACK, "signing_secret": "$SIGNING", "team": "acme"},
        {**SLACK, "signing_secret": "$SIGNING", "team": ""},
        {**SLACK, "signing_secret": "$SIGNING", "users": {"U1": {"user": "signoff:timeout"}}},
        {"name": "a", "kind": "slack"},
        {"name": "a", "kind": "slack", "token": "$TOKEN"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_no_secret_is_said(channel: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as refused:
        channels_of({"channels": [channel]}, SECRETS)
    for secret in ("T/B/X", SECRET, SECRETS["PASSWORD"]):
        assert secret not in str(refused.value)


def test_mails_have_answer_links_only_if_enabled_with_a_public_url() -> None:
    [plain] = channels_of({"public_url": "https://signoff.example", "channels": [MAIL]})
    assert (plain.answer_links, plain.answer_link_seconds) == (False, 7 * 24 * 3600.0)
    linked = {**MAIL, "answer_links": True, "answer_link_seconds": 3600.0}
    [channel] = channels_of({"public_url": "https://signoff.example", "channels": [linked]})
    assert (channel.answer_links, channel.answer_link_seconds) == (True, 3600.0)
    with pytest.raises(InvalidValue, match=r"a\.answer_links.*public_url"):
        channels_of({"channels": [linked]})


def test_two_channels_have_two_names() -> None:
    with pytest.raises(InvalidValue, match="the name 'a'"):
        channels_of({"channels": [HOOK, MAIL]}, SECRETS)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "channels.toml"
    for content in (b"[[channels", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(InvalidValue, match=r"channels\.toml"):
            read_channels(path)
    with pytest.raises(InvalidValue, match=r"none\.toml"):
        read_channels(tmp_path / "none.toml")
