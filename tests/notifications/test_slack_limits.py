"""Every question arrives in Slack: within all limits, and with a link to the whole question."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.slack import Answering, SlackSender
from signoff.people.notifications.channels.slack_buttons import ClickReply, post_reply
from signoff.people.questions.actions import Action
from tests.notifications.asking import ask, carry_out, dispatching
from tests.notifications.receivers import web
from tests.notifications.scenes import new_scene
from tests.notifications.slack_limits import broken_limits, counted
from tests.support import in_asyncio

LETTERS = {
    "plain": "x",
    "ampersand": "&",
    "emoji": "\U0001f600",
    "marks": "e\u0301",
    "rtl": "\u202e",
}


def questions(letter: str) -> dict[str, dict[str, Any]]:
    """Questions that exceed a limit each, made of one letter."""
    many = [f"{n} {letter * 160}" for n in range(300)]
    wide: dict[str, Any] = {
        "type": "object",
        "properties": {f"f{n}": {"title": letter * 160} for n in range(300)},
    }
    return {
        "text": {"text": letter * 20_000},
        "one over a header": {"text": letter * 151},
        "one over a section": {"text": letter * 3_001},
        "help": {"help": letter * 20_000},
        "metadata": {"metadata": {f"key {n}": letter * 160 for n in range(300)}},
        "select": {"input_type": "select", "options": many},
        "labels": {
            "input_type": "select",
            "options": [
                {"value": f"v{n}", "label": f"{n}{letter * 76}", "help": letter * 160} for n in range(101)
            ],
        },
        "multiselect": {"input_type": "multiselect", "options": many},
        "default": {"input_type": "text", "default": letter * 10_000},
        "form": {"input_type": "form", "answer_type": wide},
        "proposal": {"proposal": {"body": letter * 30_000}},
        "action": {"action": Action("send", {"body": letter * 30_000})},
        "attachments": {
            "attachments": [{"name": letter * 150, "url": f"https://example.org/{n}"} for n in range(80)]
        },
        "escalated": {"assignees": [f"user:{n}-{'u' * 200}" for n in range(90)]},
    }


@pytest.mark.parametrize("letter", LETTERS.values(), ids=repr)
@in_asyncio
async def test_every_question_keeps_every_limit_and_has_its_link(letter: str) -> None:
    scene = new_scene()
    async with web() as server:
        sender = SlackSender(webhook_url=server.url, answering=Answering("s"))
        channel = Channel("slack", sender, public_url="https://s.example.org")
        async with dispatching(scene, channel) as dispatcher:
            asked = questions(letter)
            for number, each in enumerate(asked.values()):
                await ask(scene, f"{number}-" + "\u20ac" * 240, **each)
                await carry_out(scene, dispatcher)
        assert len(server.got) == len(asked)
        for name, got in zip(asked, server.got, strict=True):
            assert broken_limits(got.json) == [], name
            links = [
                each["url"]
                for block in got.json["blocks"]
                if block["type"] == "actions"
                for each in block["elements"]
                if "url" in each
            ]
            assert len(links) == 1, name
            assert links[0].startswith("https://s.example.org/")


@pytest.mark.parametrize("letter", LETTERS.values(), ids=repr)
@pytest.mark.parametrize("closes", [True, False])
@in_asyncio
async def test_the_reply_to_a_click_keeps_every_limit(letter: str, closes: bool) -> None:
    async with web() as server:
        sender = SlackSender(webhook_url=server.url, answering=Answering("s"))
        await post_reply(sender, ClickReply(server.url, f"Approved by ana: {letter * 20_000}", closes=closes))
    assert broken_limits(server.got[0].json) == []


@in_asyncio
async def test_a_question_with_an_address_too_long_for_slack_links_the_inbox() -> None:
    scene = new_scene()
    async with web() as server:
        sender = SlackSender(webhook_url=server.url, answering=Answering("s"))
        channel = Channel("slack", sender, public_url="https://s.example.org/".ljust(2_994, "p"))
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, "a", text="Refund?")
            await carry_out(scene, dispatcher)
    assert broken_limits(server.got[0].json) == []
    buttons = server.got[0].json["blocks"][-1]["elements"]
    assert [each.get("url") for each in buttons] == [None, None, f"{channel.public_url}/inbox"]


def _with(path: str, value: Any) -> dict[str, Any]:
    message: dict[str, Any] = {
        "text": "t",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "h"}},
            {"type": "section", "block_id": "b", "text": {"type": "plain_text", "text": "s"}},
            {
                "type": "actions",
                "elements": [
                    {
                        "type": "static_select",
                        "action_id": "a",
                        "options": [{"text": {"type": "plain_text", "text": "o"}, "value": "v"}],
                    },
                    {"type": "button", "action_id": "c", "text": {"type": "plain_text", "text": "b"}},
                ],
            },
        ],
    }
    *steps, last = path.split(".")
    place: Any = message
    for step in steps:
        place = place[int(step) if step.isdecimal() else step]
    place[last] = value
    return message


OPTION = {"text": {"type": "plain_text", "text": "o"}, "value": "v"}
SELECT = "blocks.2.elements.0"


@pytest.mark.parametrize(
    ("path", "fits", "breaks"),
    [
        ("blocks.0.text.text", "h" * 150, "h" * 151),
        ("blocks.1.text.text", "s" * 3_000, "s" * 3_001),
        ("blocks.1.text.text", "&" * 600, "&" * 601),
        ("blocks.1.text.text", "\U0001f600" * 1_500, "\U0001f600" * 1_501),
        ("blocks.1.text.text", ".", " "),
        ("blocks.1.block_id", "b" * 255, "b" * 256),
        (f"{SELECT}.options", [OPTION] * 100, [OPTION] * 101),
        (f"{SELECT}.options.0.text.text", "o" * 75, "o" * 76),
        (f"{SELECT}.options.0.value", "v" * 150, "v" * 151),
        ("blocks.2.elements.1.text.text", "b" * 75, "b" * 76),
        ("blocks.2.elements.1.value", "v" * 2_000, "v" * 2_001),
        ("blocks.2.elements.1.url", "u" * 3_000, "u" * 3_001),
        ("blocks.2.elements.1.action_id", "c", "a"),
        ("blocks", [{"type": "divider"}] * 50, [{"type": "divider"}] * 51),
        ("text", "t" * 40_000, "t" * 40_001),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "",
)
def test_the_table_says_what_breaks_a_limit(path: str, fits: Any, breaks: Any) -> None:
    assert broken_limits(_with(path, copy.deepcopy(fits))) == []
    assert broken_limits(_with(path, copy.deepcopy(breaks)))


def test_slack_counts_escapes_and_code_units() -> None:
    assert [counted(text) for text in ("x", "&", "<", "\U0001f600")] == [1, 5, 4, 2]
