"""Every page of Studio, on a server with something to show on each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi.routing import APIRoute

from signoff.people.notifications.channels.channel import Channel, Undelivered
from signoff.people.notifications.notices import Notice
from signoff.server import Server, TrustedProxy
from signoff.server.routes import studio
from tests.cli.commands import until
from tests.server.conftest import app_in, asked, ended, path_of, serving, start
from tests.server.proxied import PROXY, through
from tests.studio import agents, flows
from tests.support import OnThread

SOURCES = Path(__file__).parents[2] / "studio" / "src"


@dataclass(frozen=True)
class Place:
    """A page.

    Attributes:
        route: The row of the server's table that its address has.
        address: Where it is on the furnished server.
        sees: A text that is there when it is complete.
    """

    route: str
    address: str
    sees: str


PLACES = {
    "inbox": Place("/inbox", "/inbox?view=all", "Deploy the shop?"),
    "approval": Place("/inbox/{place}", "/inbox/mail.1?view=all", "Send it?"),
    "form": Place("/inbox/{place}", "/inbox/form.1?view=all", "How much?"),
    "options": Place("/inbox/{place}", "/inbox/options.1?view=all", "Which?"),
    "tool call": Place("/inbox/{place}", "/inbox/advise.7?view=all", "It was late indeed"),
    "settled": Place("/inbox/{place}", "/inbox/approved.1?view=all", "Approved by"),
    "no such question": Place("/inbox/{place}", "/inbox/none", "no question"),
    "runs": Place("/runs", "/runs", "failed"),
    "run": Place("/runs/{place}", "/runs/mail", "Waits for an answer"),
    "flow": Place("/runs/{place}", "/runs/order", "waits for a person"),
    "conversation": Place("/runs/{place}", "/runs/advise", "Let me look it up"),
    "failed run": Place("/runs/{place}", "/runs/failed", "Traceback"),
    "start": Place("/start", "/start", "ship"),
    "start of a workflow": Place("/start/{place}", "/start/ship", "Grams"),
    "promises": Place("/promises", "/promises?view=open", "payment-1"),
    "promise": Place("/promises/{place}", "/promises/payment-1", "Resolve"),
    "no such promise": Place("/promises/{place}", "/promises/none", "no promise"),
    "sessions": Place("/sessions", "/sessions", "talk-1"),
    "session": Place("/sessions/{place}", "/sessions/talk-1", "talk-1-b"),
    "no such session": Place("/sessions/{place}", "/sessions/none", "no session"),
    "schedules": Place("/schedules", "/schedules", "nightly"),
    "workers": Place("/workers", "/workers", "10 starts in 60 s"),
    "group": Place("/groups/{place}", "/groups/default", "Announced"),
    "paused group": Place("/groups/{place}", "/groups/gpu", "no worker takes its runs"),
    "rules": Place("/rules", "/rules?ended=true", "send_mail"),
    "audit": Place("/audit", "/audit", "resolved"),
    "audit of a question": Place("/audit", "/audit?question=approved.1", "resolved"),
    "deliveries": Place("/deliveries", "/deliveries", "the mailbox is full"),
    "keys": Place("/keys", "/keys", "shop"),
}
"""By name; each route of the router and of the server is among them."""


def routed() -> set[str]:
    """The pages of Studio's router, as the server writes them."""
    found = re.compile(r'createRoute\(\{[^}]*?\bpath: "([^"]+)"')
    sources = (file.read_text() for file in SOURCES.rglob("*.tsx"))
    return {re.sub(r"\$\w+", "{place}", path) for text in sources for path in found.findall(text)}


def served_pages() -> set[str]:
    """The pages that the server knows."""
    routes = (route for route in studio.router.routes if isinstance(route, APIRoute))
    return {route.path for route in routes if not route.path.startswith("/assets/")}


class FullMailbox:
    """What carries nothing anywhere."""

    is_shared = True
    is_record = False
    is_mailbox = False

    def address_of(self, assignee: str) -> str | None:
        return None

    async def send(self, notice: Notice) -> None:
        raise Undelivered("the mailbox is full", is_final=True)

    async def close(self) -> None:
        pass


@contextmanager
def furnished(folder: Path) -> Iterator[Server]:
    """A server behind a proxy that says who people are, with something on every page."""
    with OnThread(lambda: serving_rooms(folder)) as server:
        furnish(server)
        yield server


def serving_rooms(folder: Path, **options: Any) -> AbstractAsyncContextManager[Server]:
    """The server, before there is anything."""
    channels = [Channel("mail", FullMailbox())]
    proxy = TrustedProxy(PROXY.user_header, PROXY.groups_header, PROXY.roles_header, default_role=None)
    app = app_in(folder)
    flows.register(app)
    agents.register(app)
    return serving(app, proxy=proxy, channels=channels, **options)


def furnish(server: Server) -> None:
    """Have something happen of each kind."""
    with through(server, "ana", roles="admin") as http:
        _furnish(http)


def _furnish(http: httpx.Client) -> None:
    start(http, "put", "deploy", "Deploy the shop?")
    asked(http, "deploy")
    start(http, "refund", "form")
    asked(http, "form")
    start(http, "choose", "options")
    asked(http, "options")
    start(http, "mail", "approved", "bob@example.org")
    alike = {"seconds": 3600, "same": ["/to"], "everywhere": True}
    path = f"/v1/questions/{path_of(asked(http, 'approved'))}/answer"
    http.post(path, json={"value": True, "alike": alike}).raise_for_status()
    start(http, "mail", "mail", "eve@example.org")
    asked(http, "mail")
    start(http, "order", "order", {"cents": 900, "items": ["pen", "glass", "cup"]})
    start(http, "advise", "advise", "My order came two weeks late. " * 20)
    asked(http, "advise")
    start(http, "explode", "failed")
    ended(http, "failed")
    for id in ("talk-1-a", "talk-1-b"):
        start(http, "echo", id, "Hello", session_id="talk-1")
        ended(http, id)
    made: list[tuple[str, dict[str, Any]]] = [
        ("/v1/schedules", {"id": "nightly", "workflow": "echo", "args": ["report"], "cron": "0 3 * * *"}),
        ("/v1/schedules", {"id": "weekly", "workflow": "echo", "cron": "0 3 * * MON"}),
        ("/v1/schedules/weekly/pause", {}),
        ("/v1/promises", {"id": "payment-1", "data": {"order": "o-1"}}),
        ("/v1/groups/gpu/limit", {"max_running": 2, "starts_per": {"count": 10, "seconds": 60}}),
        ("/v1/groups/gpu/pause", {}),
        ("/v1/keys", {"name": "shop", "roles": ["operator"], "act_as": True}),
        ("/v1/keys", {"name": "gpu-1", "kind": "worker", "groups": ["gpu"]}),
    ]
    for address, body in made:
        http.post(address, json=body).raise_for_status()
    for address in ("/v1/deliveries?state=dead", "/v1/audit/chain?after=5", "/v1/workflows?name=ship"):
        until(lambda address=address: http.get(address).json()["items"])
