"""A mail server gets nothing before the required TLS with a trusted certificate."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import trustme
from aiosmtpd.smtp import AuthResult, LoginPassword

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.channel import Channel, Retry
from signoff.people.notifications.channels.config_file import channels_of
from signoff.people.notifications.channels.mail import MailSender, MailServer
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.testing import MemoryStore, VirtualClock
from tests.notifications.asking import ask, carry_out, deliveries, dispatching
from tests.notifications.receivers import Mails, mails
from tests.stores.scene import Scene
from tests.support import in_asyncio

Security = Literal["starttls", "tls", "none"]
SECURE: list[Security] = ["starttls", "tls"]
PASSWORD = "s3cret"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(file)
    return file


def shows(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    return context


def served(security: Security, context: ssl.SSLContext, **options: Any) -> dict[str, Any]:
    """Return how a server does so."""
    if security == "starttls":
        return {"tls_context": context, "require_starttls": True, **options}
    return {"tls": context, "auth_require_tls": False, **options}  # aiosmtpd sees only TLS that it has begun


class Doorkeeper:
    """Knows its users, and records its input."""

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def __call__(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.told.append(data.password)
        is_right = (data.login, data.password) == (b"bot", PASSWORD.encode())
        return AuthResult(success=is_right, handled=is_right)  # the server says so to who is not


async def send(
    scene: Scene, server: Mails, security: Security, *, host: str = "localhost", **more: Any
) -> Delivery:
    """Have a question asked, and return what became of its mail."""
    sender = MailSender(MailServer(host, server.port, security, **more), "signoff@example.org")
    channel = Channel("mail", sender, to=("desk@example.org",), retry=Retry(give_up_seconds=60))
    async with dispatching(scene, channel) as dispatcher:
        await ask(scene)
        await carry_out(scene, dispatcher)
        [delivery] = await deliveries(scene.store)
        return delivery


def new_scene() -> Scene:
    clock = VirtualClock(time.time())
    return Scene(MemoryStore(clock=clock), clock, VirtualClock())


ONLY_ITS_OWN_TLS = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")


@ONLY_ITS_OWN_TLS
@pytest.mark.parametrize("security", SECURE)
@in_asyncio
async def test_a_mail_goes_through_tls_to_a_server_of_a_private_authority(
    authority: trustme.CA, ca_file: Path, security: Security
) -> None:
    door = Doorkeeper()
    context = shows(authority.issue_cert("localhost"))
    options = served(security, context, authenticator=door, auth_required=True)
    async with mails(**options) as server:
        delivery = await send(
            new_scene(), server, security, username="bot", password=PASSWORD, ca_file=ca_file
        )
    assert delivery.state is DeliveryState.DELIVERED, delivery.error
    assert [mail["subject"] for mail in server.got] == ["Question: Pay 70?"]
    assert door.told == [PASSWORD.encode()]


@ONLY_ITS_OWN_TLS
@in_asyncio
async def test_a_server_without_starttls_gets_neither_password_nor_mail() -> None:
    door = Doorkeeper()
    async with mails(authenticator=door, auth_required=True, auth_require_tls=False) as server:
        delivery = await send(new_scene(), server, "starttls", username="bot", password=PASSWORD)
    assert delivery.state is DeliveryState.PENDING, "it is tried again: the server may be mended"
    assert "STARTTLS" in str(delivery.error)
    assert (door.told, server.got) == ([], [])


@in_asyncio
async def test_a_server_without_tls_gets_nothing_where_tls_is_required() -> None:
    scene = new_scene()
    async with mails() as server:
        delivery = await send(scene, server, "tls")
    assert delivery.state is DeliveryState.PENDING
    assert "no TLS with the mail server" in str(delivery.error)
    assert server.got == []


@pytest.mark.parametrize("security", SECURE)
@pytest.mark.parametrize(
    ("certificate", "trusts", "why"),
    [
        (lambda _: trustme.CA().issue_cert("localhost"), True, "unable to get local issuer"),
        (lambda authority: authority.issue_cert("localhost"), False, "unable to get local issuer"),
        (lambda authority: authority.issue_cert("mail.example.org"), True, "Hostname mismatch"),
    ],
    ids=["of another authority", "of one that the machine does not know", "for another name"],
)
@in_asyncio
async def test_an_untrusted_certificate_gets_nothing_and_the_mail_dies_in_time(
    authority: trustme.CA,
    ca_file: Path,
    security: Security,
    certificate: Callable[[trustme.CA], trustme.LeafCert],
    trusts: bool,
    why: str,
) -> None:
    scene, door = new_scene(), Doorkeeper()
    options = served(security, shows(certificate(authority)), authenticator=door)
    trusted = {"ca_file": ca_file} if trusts else {}
    async with mails(**options) as server:
        delivery = await send(scene, server, security, username="bot", password=PASSWORD, **trusted)
        assert delivery.state is DeliveryState.PENDING
        assert "certificate of the mail server is not trusted" in str(delivery.error)
        assert why in str(delivery.error)
        scene.clock.advance(61)
        sender = MailSender(MailServer("localhost", server.port, security, **trusted), "signoff@example.org")
        channel = Channel("mail", sender, to=("desk@example.org",), retry=Retry(give_up_seconds=60))
        async with dispatching(scene, channel) as dispatcher:
            await carry_out(scene, dispatcher)
        [delivery] = await deliveries(scene.store)
    assert (delivery.state, delivery.attempts) == (DeliveryState.DEAD, 2)
    assert "not trusted" in str(delivery.error)
    assert (door.told, server.got) == ([], [])


@ONLY_ITS_OWN_TLS
@pytest.mark.parametrize("security", SECURE)
@in_asyncio
async def test_a_password_that_the_server_refuses_is_said_so_and_is_not_kept(
    authority: trustme.CA, ca_file: Path, security: Security
) -> None:
    door = Doorkeeper()
    context = shows(authority.issue_cert("localhost"))
    async with mails(**served(security, context, authenticator=door, auth_required=True)) as server:
        delivery = await send(
            new_scene(), server, security, username="bot", password="wr0ng", ca_file=ca_file
        )
    assert delivery.state is DeliveryState.PENDING
    assert delivery.error == "the server answers 535 (SMTPAuthenticationError)"
    assert b"wr0ng" in door.told
    assert server.got == []


@in_asyncio
async def test_a_server_without_auth_gets_no_mail_if_a_login_is_required() -> None:
    async with mails() as server:
        delivery = await send(new_scene(), server, "none", username="bot", password=PASSWORD)
    assert delivery.state is DeliveryState.PENDING
    assert "AUTH" in str(delivery.error)
    assert server.got == []


def test_a_file_says_whom_to_trust_and_how_to_log_in(ca_file: Path, tmp_path: Path) -> None:
    mail = {"name": "a", "kind": "email", "host": "h", "from": "a@example.org"}
    channels_of({"channels": [{**mail, "ca_file": str(ca_file)}]})
    empty = tmp_path / "empty.pem"
    empty.touch()
    for wrong, path in (
        ({"ca_file": str(tmp_path / "none.pem")}, "ca_file"),
        ({"ca_file": str(empty)}, "ca_file"),
        ({"ca_file": str(tmp_path)}, "ca_file"),
        ({"ca_file": ""}, "ca_file"),
        ({"ca_file": str(ca_file), "security": "none"}, "ca_file"),
        ({"username": "bot"}, "password"),
        ({"password": "$PASSWORD"}, "password"),
    ):
        with pytest.raises(InvalidValue, match=path):
            channels_of({"channels": [{**mail, **wrong}]}, {"PASSWORD": PASSWORD})
