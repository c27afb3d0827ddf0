"""The messages of each kind of channel, and their handling of replies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from standardwebhooks import Webhook
from starlette.responses import JSONResponse, Response

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.apprise import AppriseSender
from signoff.people.notifications.channels.channel import LONGEST_WAIT_SECONDS, Channel, Retry
from signoff.people.notifications.channels.mail import MailSender, MailServer, check_address
from signoff.people.notifications.channels.slack import Answering, SlackSender
from signoff.people.notifications.channels.webhook import Signatures, WebhookSender
from signoff.people.notifications.notices import shown
from signoff.people.questions.actions import Action
from signoff.people.questions.answers import answer
from signoff.records import AuditKind, NewPromise, Origin, OriginWay, PromiseKind
from signoff.records.deliveries import DeliveryState
from signoff.stores.wrappers.origin_stamping import origin_stamped
from tests.notifications.asking import SECRET, approve, ask, carry_out, deliveries, dispatching
from tests.notifications.receivers import mails, web
from tests.notifications.scenes import new_scene
from tests.support import in_asyncio

OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of twenty-four bytes").decode()
EVERYTHING = frozenset(AuditKind)


def mail_channel(port: int, **more: object) -> Channel:
    sender = MailSender(MailServer("127.0.0.1", port, "none", **more), "Signoff@example.org")  # type: ignore[arg-type]
    return Channel("mail", sender, to=("desk@example.org",), public_url="https://signoff.example.org/")


# Webhooks


@in_asyncio
async def test_a_webhook_is_signed_as_standard_webhooks_says() -> None:
    scene = new_scene()
    async with web() as server:
        channel = Channel("hook", WebhookSender(server.url, [SECRET, OTHER_SECRET]))
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, assignees=["user:ana"])
            await carry_out(scene, dispatcher)
        [got] = server.got
    for secret in (SECRET, OTHER_SECRET):
        assert Webhook(secret).verify(got.body, got.headers) == got.json
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f"{got.id}.{got.headers['webhook-timestamp']}.".encode() + got.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"].split(" ")[0] == f"v1,{expected}"
    assert got.json["type"] == "question.asked"
    data = got.json["data"]
    assert (data["question_id"], data["question"]["state"], data["details"]["assignees"]) == (
        "q",
        "pending",
        ["user:ana"],
    )
    assert data["question"]["data"]["text"] == "Pay 70?"


@in_asyncio
async def test_a_webhook_gets_no_address_of_an_actor() -> None:
    scene = new_scene()
    async with web() as server:
        channel = Channel("hook", WebhookSender(server.url, [SECRET]), events=frozenset([AuditKind.RESOLVED]))
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene)
            at = Origin(OriginWay.LINK, "l1", address="203.0.113.7")
            await answer(origin_stamped(scene.store, at), "q", True, user_id="ana")
            await carry_out(scene, dispatcher)
        assert (await scene.store.get_promise("q")).origin == at
        [got] = server.got
    assert (got.json["type"], got.json["data"]["question"]["settled_by"]) == ("question.resolved", "ana")
    assert b"203.0.113.7" not in got.body


def test_the_known_vector_of_the_specification_is_what_we_send() -> None:
    signature = Signatures([SECRET]).headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330.9, b'{"test": 2432232314}'
    )["webhook-signature"]
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("ftp://example.org", [SECRET]),
        ("example.org", [SECRET]),
        ("http://", [SECRET]),
        ("https://example.org", []),
        ("https://example.org", ["whsec_"]),
        ("https://example.org", ["whsec_é"]),
    ],
)
def test_a_webhook_without_a_url_or_a_secret_is_refused(url: str, secrets: list[str]) -> None:
    with pytest.raises(InvalidValue):
        WebhookSender(url, secrets)


@in_asyncio
async def test_a_redirect_is_not_followed() -> None:
    scene = new_scene()
    async with web() as inside:
        away = Response(status_code=307, headers={"location": f"{inside.url}/internal"})
        async with web(away) as server:
            channel = Channel("hook", WebhookSender(server.url, [SECRET]))
            async with dispatching(scene, channel) as dispatcher:
                await ask(scene)
                await carry_out(scene, dispatcher)
                [delivery] = await deliveries(scene.store)
                assert delivery.state is DeliveryState.PENDING
                assert "redirect" in str(delivery.error)
        assert inside.got == []


@in_asyncio
async def test_retry_after_is_taken_as_seconds_and_as_a_date() -> None:
    for header, low, high in (
        ("600", 600, 600),
        (format_datetime(datetime.fromtimestamp(time.time() + 900, UTC), usegmt=True), 850, 910),
        ("soon", 3, 7),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999", 3, 7),
        ("999999999999", LONGEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS),
    ):
        scene = new_scene()
        async with web(Response(status_code=503, headers={"retry-after": header})) as server:
            channel = Channel("hook", WebhookSender(server.url, [SECRET]))
            async with dispatching(scene, channel) as dispatcher:
                await ask(scene)
                await carry_out(scene, dispatcher)
            [delivery] = await deliveries(scene.store)
            assert delivery.due_at is not None
            assert low <= delivery.due_at - scene.clock.now() <= high, header
            assert delivery.error == "HTTP 503"


def test_waits_double_up_to_the_longest_and_end_with_the_time() -> None:
    retry = Retry(first_seconds=10, max_seconds=100, give_up_seconds=1000)
    waits = [retry.next_at(0.0, attempt, 0.0) for attempt in (1, 2, 3, 4, 5, 5000)]
    for wait, middle in zip(waits, (10, 20, 40, 80, 100, 100), strict=True):
        assert wait is not None
        assert middle * 0.75 <= wait <= middle * 1.25
    assert retry.next_at(0.0, 9, 999.0) == 1000.0, "one last attempt, when its time is over"
    assert retry.next_at(0.0, 10, 1000.0) is None


@in_asyncio
async def test_nothing_that_is_logged_or_kept_has_an_address_or_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = new_scene()
    caplog.set_level(logging.DEBUG, "signoff")
    channels = [
        Channel("hook", WebhookSender("http://127.0.0.1:9/T0KEN-in-url", [SECRET]), retry=Retry(max_attempts=1)),
        Channel("slack", SlackSender(webhook_url="http://127.0.0.1:9/T0KEN-in-url")),
        Channel("bot", SlackSender(token="T0KEN-of-bot", api_url="http://127.0.0.1:9"), to=("C1",)),
    ]  # fmt: skip
    async with dispatching(scene, *channels) as dispatcher:
        await ask(scene)
        await carry_out(scene, dispatcher)
        kept = [str(each) for each in await deliveries(scene.store)]
    assert len(kept) == 3
    assert all("ConnectError" in each for each in kept)
    for text in (*kept, caplog.text, *map(repr, channels)):
        assert "T0KEN" not in text
        assert SECRET not in text


# Mail


@in_asyncio
async def test_a_mail_shows_the_question_escaped_and_links_to_it() -> None:
    scene = new_scene(1_700_000_000.0)
    async with mails() as server, dispatching(scene, mail_channel(server.port)) as dispatcher:
        await ask(
            scene,
            "q/1",
            "Pay <b>70</b>?\nNow\u202e\x07",
            help="<script>",
            due_at=1_700_003_600.0,
            proposal={"to": "<ana>"},
        )
        await carry_out(scene, dispatcher)
    [message] = server.got
    [delivery] = await deliveries(scene.store)
    assert message["subject"] == "Question: Pay <b>70</b>? Now\\u202e\\x07"
    assert message["message-id"] == f"<{delivery.id}@example.org>"
    assert (message["from"], message["to"]) == ("Signoff@example.org", "desk@example.org")
    assert message["auto-submitted"] == "auto-generated"
    plain = message.get_body(("plain",))
    html = message.get_body(("html",))
    assert plain is not None
    assert html is not None
    link = "https://signoff.example.org/inbox/q%2F1"
    text = plain.get_content().replace("\r\n", "\n")
    assert "Pay <b>70</b>?\nNow\\u202e\\x07\n" in text
    assert "2023-11-14 23:13 UTC" in text
    assert link in text
    shown_html = html.get_content()
    assert "Pay &lt;b&gt;70&lt;/b&gt;?" in shown_html
    assert "<script" not in shown_html
    assert "&quot;&lt;ana&gt;&quot;" in shown_html
    assert f'<a href="{link}">' in shown_html


@in_asyncio
async def test_no_text_of_a_question_gets_into_the_headers_of_a_mail() -> None:
    scene = new_scene()
    async with mails() as server, dispatching(scene, mail_channel(server.port)) as dispatcher:
        await ask(scene, text="Pay?\r\nBcc: eve@example.org\r\n\r\n" + "ü" * 500)
        await carry_out(scene, dispatcher)
    [message] = server.got
    assert server.to == ["desk@example.org"]
    assert message["bcc"] is None
    assert "Bcc: eve@example.org" in message["subject"]
    assert len(message["subject"]) <= 150


@pytest.mark.parametrize(
    "address",
    ["", "ana", "ana@", "@example.org", "a b@example.org", "ana@x.org\r\nBcc: eve@x.org", "ana@x\0.org"],
)
def test_what_is_no_mail_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidValue):
        check_address("to", address)


@in_asyncio
async def test_a_permanently_refused_recipient_is_given_up_alone() -> None:
    scene = new_scene()
    async with mails() as server, dispatching(scene, mail_channel(server.port)) as dispatcher:
        server.refused = {"eva@example.org": "550 nobody", "ben@example.org": "450 later"}
        await ask(scene, assignees=[f"user:{name}@example.org" for name in ("eva", "ben", "ana")])
        await carry_out(scene, dispatcher)
        states = {each.recipient: each.state for each in await deliveries(scene.store)}
    assert states == {
        "desk@example.org": DeliveryState.DELIVERED,
        "user:eva@example.org": DeliveryState.DEAD,
        "user:ben@example.org": DeliveryState.PENDING,
        "user:ana@example.org": DeliveryState.DELIVERED,
    }


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
@in_asyncio
async def test_a_mail_server_is_logged_in_to() -> None:
    def check(server: object, session: object, envelope: object, mechanism: str, data: object) -> AuthResult:
        assert isinstance(data, LoginPassword)
        is_right = (data.login, data.password) == (b"bot", b"s3cret")
        return AuthResult(success=is_right, handled=is_right)  # the server says so to who is not

    options = {"authenticator": check, "auth_require_tls": False, "auth_required": True}
    for password, state in (("s3cret", DeliveryState.DELIVERED), ("wrong", DeliveryState.PENDING)):
        scene = new_scene()
        async with mails(**options) as server:
            channel = mail_channel(server.port, username="bot", password=password)
            async with dispatching(scene, channel) as dispatcher:
                await ask(scene)
                await carry_out(scene, dispatcher)
            [delivery] = await deliveries(scene.store)
            assert delivery.state is state
            assert password not in str(delivery.error)


@in_asyncio
async def test_one_address_gets_one_mail_of_an_event() -> None:
    scene = new_scene()
    async with mails() as server:
        people = {"group:finance": "ana@example.org", "user:ana": "ana@example.org"}
        sender = MailSender(MailServer("127.0.0.1", server.port, "none"), "signoff@example.org")
        channel = Channel("mail", sender, recipients=people)
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, assignees=["group:finance", "user:ana", "user:bob", "role:boss"])
            await carry_out(scene, dispatcher)
    assert [message["to"] for message in server.got] == ["ana@example.org"]


@in_asyncio
async def test_a_recipient_whose_address_was_removed_is_given_up() -> None:
    scene = new_scene()
    sender = MailSender(MailServer("127.0.0.1", 9, "none"), "signoff@example.org")
    async with dispatching(scene, Channel("mail", sender, to=("old@example.org",))) as dispatcher:
        await ask(scene)
        await carry_out(scene, dispatcher)
    scene.clock.advance(60)
    async with dispatching(scene, Channel("mail", sender)) as dispatcher:
        await carry_out(scene, dispatcher)
    [delivery] = await deliveries(scene.store)
    assert (delivery.state, delivery.error) == (
        DeliveryState.DEAD,
        "no address is configured for old@example.org any more",
    )


# Slack


@in_asyncio
async def test_slack_shows_plain_text_and_buttons_where_a_click_is_enough() -> None:
    scene = new_scene()
    async with web() as server:
        sender = SlackSender(webhook_url=server.url, answering=Answering("s"))
        channel = Channel("slack", sender, public_url="https://s.example.org")
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, "q1", "Pay <!channel>?", help="*bold*")
            await ask(scene, "q2", proposal={"a": 1})
            await ask(scene, "q3", input_type="text")
            await ask(scene, "q4", text="x" * 4000)
            await ask(scene, "q5", text="x" + "\u202e" * 2000)
            await ask(scene, "q6", metadata={"order": "o" * 4000})
            await ask(scene, "q7", action=Action("pay", {"to": "o" * 4000}))
            await carry_out(scene, dispatcher)
    buttons = []
    for got in server.got:
        *texts, actions = got.json["blocks"]
        assert {block["text"]["type"] for block in texts} == {"plain_text"}
        buttons.append([each["action_id"] for each in actions["elements"]])
    assert sorted(buttons) == [["signoff_approve", "signoff_reject", "signoff_open"], *[["signoff_open"]] * 6]
    assert "Question: Pay &lt;!channel&gt;?" in [got.json["text"] for got in server.got]


@in_asyncio
async def test_what_is_approved_in_slack_is_shown_there_with_its_very_arguments() -> None:
    scene = new_scene()
    async with web() as server:
        channel = Channel("slack", SlackSender(webhook_url=server.url, answering=Answering("s")))
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, action=Action("drop_table", {"table": "customers", "rows": 1.0}))
            await carry_out(scene, dispatcher)
    *texts, actions = server.got[0].json["blocks"]
    shown = [block["text"]["text"] for block in texts]
    assert shown[2:] == ["Tool: drop_table", 'Arguments: {\n  "table": "customers",\n  "rows": 1.0\n}']
    assert [each["action_id"] for each in actions["elements"]] == ["signoff_approve", "signoff_reject"]


@in_asyncio
async def test_a_mail_shows_what_is_done_if_it_is_approved() -> None:
    scene = new_scene()
    async with mails() as server, dispatching(scene, mail_channel(server.port)) as dispatcher:
        await ask(scene, "q1", action=Action("drop_table", {"table": "<customers>"}))
        await carry_out(scene, dispatcher)
        await ask(scene, "q2", action=Action("pay", {"cents": 7}), proposal={"cents": 7})
        await carry_out(scene, dispatcher)
    bodies = [message.get_body((kind,)) for message in server.got for kind in ("plain", "html")]
    plain, html, other, _ = (
        "" if each is None else each.get_content().replace("\r\n", "\n") for each in bodies
    )
    assert 'Tool:\ndrop_table\n\nArguments:\n{\n  "table": "<customers>"\n}\n' in plain
    assert "drop_table" in html
    assert "&lt;customers&gt;" in html
    assert 'Tool:\npay\n\nProposed:\n{\n  "cents": 7\n}\n' in other
    assert "Arguments" not in other


@in_asyncio
async def test_a_bot_posts_to_channels_and_people_and_reads_what_slack_says() -> None:
    scene = new_scene()
    said = [
        JSONResponse({"ok": True}),
        JSONResponse({"ok": False, "error": "channel_not_found"}),
        JSONResponse({"ok": False, "error": "invalid_auth"}),
        Response("<html>"),
    ]
    async with web(*said) as server:
        sender = SlackSender(token="xoxb-1", api_url=server.url)
        people = {"user:ana": "U1", "group:finance": "C2", "user:bob": "U3"}
        channel = Channel("slack", sender, to=("C1",), recipients=people, concurrency=1)
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, assignees=list(people))
            await carry_out(scene, dispatcher)
    assert [(got.path, got.json["channel"]) for got in server.got] == [
        ("/chat.postMessage", place) for place in ("C1", "U1", "C2", "U3")
    ]
    assert {got.headers["authorization"] for got in server.got} == {"Bearer xoxb-1"}
    assert "actions" not in {block["type"] for block in server.got[0].json["blocks"]}
    assert [each.state.value for each in await deliveries(scene.store)] == [
        "delivered",
        "dead",
        "pending",
        "pending",
    ]


@in_asyncio
async def test_a_message_shows_all_parts_of_a_question_however_many_there_are() -> None:
    scene = new_scene()
    files = [{"name": f"file {n}", "url": f"https://example.org/{n}"} for n in range(60)]
    async with (
        web() as server,
        dispatching(scene, Channel("slack", SlackSender(webhook_url=server.url))) as dispatcher,
    ):
        await ask(
            scene,
            input_type="select",
            options=[f"option {n}" for n in range(1000)],
            help="Help",
            metadata={"order": "o-1"},
            attachments=files,
        )
        await carry_out(scene, dispatcher)
    texts = [block["text"]["text"] for block in server.got[0].json["blocks"]]
    assert len(texts) < 50, "more blocks are refused by Slack"
    assert max(map(len, texts)) <= 3000
    for part in ("Pay 70?", "Help", '"order": "o-1"', "option 0", "file 59 https://example.org/59"):
        assert any(part in text for text in texts), part


LONG = {
    "emoji": "\U0001f600" * 5000,
    "ampersands": "&<>" * 2000,
    "one character too many": "x" * 2800 + "&" * 50,
    "invisible": "\u202e" * 3000,
    "blank": "?\n" + " " * 5000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
@in_asyncio
async def test_a_message_keeps_the_limits_of_slack_as_slack_counts(text: str) -> None:
    scene = new_scene()
    async with web() as server:
        sender = SlackSender(webhook_url=server.url, answering=Answering("s"))
        channel = Channel("slack", sender, public_url="https://s.example.org")
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, text=text, help=text, metadata={"m": text}, action=Action("pay", {"to": text}))
            await ask(scene, "\u20ac" * 250, text="?", help="  \n ", due_at=scene.clock.now() + 60)
            await carry_out(scene, dispatcher)
        assert len(server.got) == 2
        for got in server.got:
            *sections, actions = got.json["blocks"]
            texts = [block["text"]["text"] for block in sections]
            assert all(1 <= as_slack_counts(each) <= 3000 and each.strip() for each in texts)
            assert sum(map(as_slack_counts, texts)) <= 12_000
            assert len(got.json["text"]) <= 40_000
            assert len(got.json["blocks"]) <= 50
            for button in actions["elements"]:
                assert len(button["text"]["text"]) <= 75
                assert len(button.get("value", "")) <= 2000
                assert len(button.get("url", "")) <= 3000
        assert [block["text"]["text"] for block in server.got[1].json["blocks"][:2]] == ["Question: ?", "?"]


def as_slack_counts(text: str) -> int:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return len(escaped.encode("utf-16-le")) // 2


# What never succeeds, over HTTP and by mail


@pytest.mark.parametrize(
    ("reply", "state", "error"),
    [
        (Response("invalid_blocks", 400), DeliveryState.DEAD, "HTTP 400: invalid_blocks"),
        (Response("no /T0KEN here", 404), DeliveryState.DEAD, "HTTP 404"),
        (Response("a_" + "b" * 100, 413), DeliveryState.DEAD, "HTTP 413"),
        (Response(status_code=422), DeliveryState.DEAD, "HTTP 422"),
        (Response(status_code=410), DeliveryState.DEAD, "HTTP 410: the receiver is permanently gone"),
        (Response(status_code=301), DeliveryState.DEAD, "HTTP 301: redirects are not followed"),
        (Response("invalid_token", 403), DeliveryState.PENDING, "HTTP 403: invalid_token"),
        (Response(status_code=401), DeliveryState.PENDING, "HTTP 401"),
        (Response(status_code=429), DeliveryState.PENDING, "HTTP 429"),
        (Response(status_code=408), DeliveryState.PENDING, "HTTP 408"),
        (Response(status_code=500), DeliveryState.PENDING, "HTTP 500"),
        (
            JSONResponse({"ok": False, "error": "msg_blocks_too_long"}),
            DeliveryState.DEAD,
            "Slack returned: msg_blocks_too_long",
        ),
        (
            JSONResponse({"ok": False, "error": "ratelimited"}),
            DeliveryState.PENDING,
            "Slack returned: ratelimited",
        ),
    ],
    ids=lambda value: str(getattr(value, "status_code", value)),
)
@in_asyncio
async def test_what_can_never_be_delivered_is_given_up_at_once(
    reply: Response, state: DeliveryState, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = new_scene()
    async with web(reply) as server:
        channel = Channel("slack", SlackSender(token="t", api_url=server.url), to=("C1",))
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene)
            await carry_out(scene, dispatcher)
        [delivery] = await deliveries(scene.store)
        assert (delivery.state, delivery.error) == (state, error)
        errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert len(errors) == (state is DeliveryState.DEAD), "an operator's log names what was given up"


@in_asyncio
async def test_a_mail_that_is_refused_for_good_is_given_up_at_once() -> None:
    for replied, state in (
        ("552 too large", DeliveryState.DEAD),
        ("554 spam", DeliveryState.DEAD),
        ("451 later", DeliveryState.PENDING),
    ):
        scene = new_scene()
        async with mails() as server, dispatching(scene, mail_channel(server.port)) as dispatcher:
            server.replies.append(replied)
            await ask(scene)
            await carry_out(scene, dispatcher)
        [delivery] = await deliveries(scene.store)
        assert (delivery.state, delivery.error) == (
            state,
            f"the server answers {replied[:3]} (SMTPDataError)",
        )


@in_asyncio
async def test_a_mail_takes_whatever_text_a_question_has() -> None:
    scene = new_scene()
    texts = [
        "\ud83d half an emoji",
        "\U0001f600" * 3000,
        "a" * 3000,
        "\u202e" * 200,
        "\x85\u2028\r\nBcc: a@b.c",
    ]
    async with mails() as server, dispatching(scene, mail_channel(server.port)) as dispatcher:
        for n, text in enumerate(texts):
            data = json.dumps({"text": text, "input_type": "approval"})
            await scene.store.create_promise(NewPromise(f"q{n}", PromiseKind.QUESTION, data=data))
        await carry_out(scene, dispatcher)
        assert len(server.got) == len(texts)
        for message in server.got:
            assert message["bcc"] is None
            assert 0 < len(message["subject"]) <= 150


# Apprise


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
@in_asyncio
async def test_apprise_sends_to_its_services() -> None:
    scene = new_scene()
    async with web(200, 500) as server:
        channel = Channel("any", AppriseSender(server.url.replace("http", "json", 1)), concurrency=1)
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, "q1")
            await ask(scene, "q2")
            await carry_out(scene, dispatcher)
    assert server.got[0].json["title"] == "Question: Pay 70?"
    assert [each.state.value for each in await deliveries(scene.store)] == ["delivered", "pending"]
    with pytest.raises(InvalidValue):
        AppriseSender("nothing://that-exists")


@in_asyncio
async def test_the_answer_is_sent_where_configured() -> None:
    scene = new_scene()
    async with mails() as server:
        sender = MailSender(MailServer("127.0.0.1", server.port, "none"), "signoff@example.org")
        channel = Channel("mail", sender, events=EVERYTHING, to=("log@example.org",), concurrency=1)
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene)
            await carry_out(scene, dispatcher)
            await approve(scene, note="fine")
            await carry_out(scene, dispatcher)
    body = server.got[-1].get_body(("plain",))
    assert body is not None
    assert server.got[-1]["subject"] == "Answered: Pay 70?"
    assert "approved by ana: fine" in body.get_content()


def test_text_is_shown_without_invisible_characters() -> None:
    assert shown("a\tb\nc\x00\u200b\u202e😀", 100) == "a b\nc\\x00\\u200b\\u202e😀"
    assert shown("a\r\nb\rc", 100) == "a\nb\\rc"
    assert shown("x" * 20, 10) == "x" * 9 + "…"
