"""A server behind a proxy that signs people in, and people who come through it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from signoff.server import Server, TrustedProxy

PROXY = TrustedProxy("X-Forwarded-User", "X-Forwarded-Groups", "X-Forwarded-Roles")


def through(
    server: Server, user: str | None = None, *, groups: str = "", roles: str = "", **more: Any
) -> httpx.Client:
    """Return a client whose requests are as the proxy passes them on."""
    said = {"X-Forwarded-User": user, "X-Forwarded-Groups": groups, "X-Forwarded-Roles": roles}
    headers = [(name.encode(), value.encode()) for name, value in said.items() if value]
    return httpx.Client(
        base_url=server.url, trust_env=False, verify=False, timeout=60, headers=headers, **more
    )


def ids(response: httpx.Response) -> list[str]:
    """The ids of what a list has."""
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.json()["items"]]


def refusals(http: httpx.Client, question: str) -> list[tuple[str | None, str]]:
    """The users refused at a question, and the errors, from the audit trail."""
    trail = http.get("/v1/audit", params={"question_id": question}).json()["items"]
    return [(event.get("by"), event["details"]["error"]) for event in trail if event["kind"] == "refused"]


def some(names: Iterable[str]) -> str:
    """Names as a header has them."""
    return ", ".join(names)
