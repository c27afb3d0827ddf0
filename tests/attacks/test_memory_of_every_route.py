"""Each route and each role: no request raises a server's memory by more than 64 MiB, measured from outside.

``test_memory`` measures what an admin and a worker write, on both stores. The routes are those of the table of rights,
so a new one fails here until ``largest_requests`` has its largest request. An operator's requests are some of an
admin's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from signoff.server import Role
from signoff.server.auth.roles import RIGHTS
from tests import worker_keys
from tests.attacks.largest_requests import LARGEST, requests_of, routes_for
from tests.attacks.served import LONG_SECONDS, MOST_KIB, STREAM_BYTES, Served, url

__all__ = ["url"]

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc"),
]

IDLE_SECONDS = 1.0
"""A stream without an event for so long has sent everything that there is."""


class Signed:
    """A server behind a proxy that signs people in."""

    def __init__(self, served: Served) -> None:
        self.memory = served.memory
        self._http = served.http

    def take(self, method: str, path: str, role: Role | None, **sent: object) -> int:
        """Send a request with a role, and read the reply. Returns the status."""
        headers = {} if role is None else {"x-user": "ana", "x-groups": "finance", "x-roles": role.value}
        if path.startswith("/v1/store"):
            headers = {"authorization": f"Bearer {worker_keys.SECRET}"}
        more = dict(sent)
        more["headers"] = {**headers, **dict(more.get("headers") or {})}  # type: ignore[call-overload]
        timeout = httpx.Timeout(LONG_SECONDS, read=IDLE_SECONDS if _is_stream(path) else LONG_SECONDS)
        size, status = 0, 200
        try:
            with self._http.stream(method, path, timeout=timeout, **more) as reply:  # type: ignore[arg-type]
                status = reply.status_code
                for part in reply.iter_raw():
                    size += len(part)
                    if _is_stream(path) and size > STREAM_BYTES:
                        break
        except httpx.ReadTimeout:
            assert _is_stream(path), path
        return status


def _is_stream(path: str) -> bool:
    return path.endswith(("events", "/changes"))


@pytest.fixture
def signed(url: str, tmp_path: Path) -> Iterator[Signed]:
    options = ("--user-header", "X-User", "--groups-header", "X-Groups", "--roles-header", "X-Roles")
    with ExitStack() as stack:
        served = Served(stack, url, tmp_path, *options)
        del served.http.headers["authorization"]
        yield Signed(served)


def test_every_route_has_its_largest_requests() -> None:
    assert LARGEST.keys() == RIGHTS.keys()
    assert all(LARGEST.values())


def test_an_admin_may_send_what_an_operator_or_a_viewer_may() -> None:
    assert {*routes_for(Role.VIEWER)} <= {*routes_for(Role.OPERATOR)} <= {*routes_for(Role.ADMIN)}
    writing = {route for route in routes_for(Role.VIEWER) if route[0] != "GET"}
    assert writing == {("POST", "/mcp")}  # each tool needs the rights of the route that it calls


@pytest.mark.long
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("way", ["reads", "writes"])
@pytest.mark.parametrize("role", [None, Role.RESPONDER, Role.ADMIN])
def test_no_request_of_any_role_takes_much_of_a_server_s_memory(
    signed: Signed, role: Role | None, way: str
) -> None:
    taken: dict[str, int] = {}
    statuses: dict[str, int] = {}
    for route in routes_for(role):
        if (route[0] == "GET") != (way == "reads"):
            continue
        for name, path, sent in requests_of(route):
            with signed.memory.rise() as risen:
                statuses[name] = signed.take(route[0], path, role, **sent)
            taken[name] = risen[0]
    print(role, sorted(taken.items(), key=lambda each: -each[1])[:8])
    assert {name: status for name, status in statuses.items() if status >= 500} == {}
    closed = {name for name, status in statuses.items() if status in (401, 403, 405)}
    closed -= {name for name in closed if name.startswith("GET /mcp")}  # always 405
    assert role in (None, Role.RESPONDER) or closed == set()  # a responder sees only what is asked of them
    assert {name: kib for name, kib in taken.items() if kib > MOST_KIB} == {}
