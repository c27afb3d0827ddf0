"""Checks of a ``signoff server``, from the machine of a remote worker."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from signoff.doctor.findings import (
    Check,
    Verdict,
    clock,
    failure,
    latency,
    ok,
    one_line,
    printable,
    skipped,
    warning,
)
from signoff.engine.timers.timers import LATE_SECONDS
from signoff.stores.contract.wire import PATH
from signoff.version import __version__

ANSWERS: Final = 7
SLOW_SECONDS: Final = 0.2
FORBIDDEN: Final = 403
MOST_ITEMS: Final = 100
"""How many failing items of periodic jobs are listed."""


@dataclass(frozen=True)
class Server:
    """A server, and the credentials for it.

    Attributes:
        http: Sends requests to it.
        url: Its address, for messages.
        key: The worker key.
        namespace: The tenant whose work is examined.
        api_key: The key of an operator or an admin, for the routes under ``/v1``.
    """

    http: httpx.Client
    url: str
    key: str | None
    namespace: str
    api_key: str | None = None

    def greet(self) -> httpx.Response:
        """Send the request with which a remote store connects."""
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        return self.http.get(PATH, params={"namespace": self.namespace}, headers=headers)

    @property
    def is_open(self) -> bool:
        """Whether the key gives access to the namespace."""
        return self.greet().is_success


def health(server: Server) -> Iterable[Verdict]:
    try:
        response = server.http.get("/health")
    except httpx.TransportError as error:
        yield failure(
            f"no answer from {server.url} ({one_line(error)}); is it running, and is the URL right?"
        )
        return
    facts = _object(response)
    if not response.is_success or facts.get("status") != "ok":
        yield failure(f"{server.url} is not a signoff server: {_detail(response)}; check the URL")
        return
    version = facts.get("version", "unknown")
    if version != __version__:
        yield warning(
            f"its version is {version}, but this is {__version__}; a server and its workers should match"
        )
    else:
        yield ok(f"signoff {version} answers at {server.url}")


def ready(server: Server) -> Iterable[Verdict]:
    response = server.http.get("/ready")
    if response.is_success:
        yield ok("it reaches its store, and deadlines fire")
    else:
        yield failure(f"it cannot work: {_detail(response)}")


def set_aside(server: Server) -> Iterable[Verdict]:
    response = server.http.get("/metrics")
    if not response.is_success:
        yield skipped(f"its metrics are not available: {_detail(response)}")
        return
    for job, seconds in _RUNNING.findall(response.text):
        if float(seconds) > LATE_SECONDS:
            yield warning(
                f"periodic job {job!r} has not returned for {float(seconds):.0f} s; the other jobs continue"
            )
    counts = {job: float(count) for job, count in _SET_ASIDE.findall(response.text)}
    failing = [f"{count:.0f} of job {job!r}" for job, count in counts.items() if count]
    if not failing:
        yield ok("no item of a periodic job fails in this server; workers have their own in their metrics")
        return
    yield warning(f"items of periodic jobs fail and are retried: {', '.join(failing)}")
    yield from _failing_items(server)


def _failing_items(server: Server) -> Iterable[Verdict]:
    """List the failing items that the API key gives access to. The server's log has all."""
    headers = {} if server.api_key is None else {"authorization": f"Bearer {server.api_key}"}
    response = server.http.get("/v1/set-aside", params={"limit": MOST_ITEMS}, headers=headers)
    if not response.is_success:
        yield skipped(
            f"the items cannot be listed ({_detail(response)}): set SIGNOFF_KEY to an operator's API key, or see the "
            "server's log"
        )
        return
    page = _object(response)
    items: list[dict[str, Any]] = page.get("items") or []
    for item in items:
        wait = max(0.0, float(item["next_at"]) - time.time())
        yield warning(
            f"{item['job']} {item['id']!r} of namespace {item['namespace']!r} failed {item['failures']} times, "
            f"next try in {wait:.0f} s: {printable(item['error'])}"
        )
    if page.get("next") is not None:
        yield warning(f"there are more than {MOST_ITEMS}: GET /v1/set-aside lists all")
    elif not items:
        yield skipped("all of them are in other namespaces; see the server's log")


def answers(server: Server) -> Iterable[Verdict]:
    taken: list[float] = []
    for _ in range(ANSWERS):
        began_at = time.perf_counter()
        server.http.get("/health")
        taken.append(time.perf_counter() - began_at)
    yield latency(
        taken, "a response", SLOW_SECONDS, "each turn of a run waits for one: check the network path"
    )


def key(server: Server) -> Iterable[Verdict]:
    response = server.greet()
    if response.is_success:
        yield ok(f"the worker key is valid for {server.namespace!r}")
    elif server.key is None and response.status_code == FORBIDDEN:
        yield skipped("no worker key is given (--key, SIGNOFF_WORKER_KEY)")
    else:
        yield failure(f"it refuses the worker: {_detail(response)}")


def clocks(server: Server) -> Iterable[Verdict]:
    sent_at = time.time()
    response = server.greet()
    received_at = time.time()
    now = _object(response).get("now")
    inexact = (received_at - sent_at) / 2
    if not isinstance(now, float):
        now = parsedate_to_datetime(response.headers["date"]).timestamp() + 0.5  # in whole seconds
        inexact += 0.5
    yield clock(now - (sent_at + received_at) / 2, inexact, whose="the server's")


_RUNNING: Final = re.compile(r'^signoff_periodic_job_running_seconds\{job="([^"]*)"\} (\S+)$', re.MULTILINE)
_SET_ASIDE: Final = re.compile(r'^signoff_set_aside_items\{job="([^"]*)"\} (\S+)$', re.MULTILINE)

CHECKS: Mapping[str, Check[Server]] = {
    "server": health,
    "ready": ready,
    "periodic jobs": set_aside,
    "answers": answers,
    "clock": clocks,
    "worker key": key,
}


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        body: Any = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _detail(response: httpx.Response) -> str:
    return str(_object(response).get("detail") or f"{response.status_code} {response.reason_phrase}")
