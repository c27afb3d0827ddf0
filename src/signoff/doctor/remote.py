"""Checks of a ``signoff server``, seen from a machine that works through it."""

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
    printable,
    said,
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
"""Items of periodic jobs that are named."""


@dataclass(frozen=True)
class Server:
    """A server, and how it is talked to.

    Attributes:
        http: Sends requests to it.
        url: Its address, for people.
        key: The worker key.
        namespace: The tenant whose work is looked at.
        api_key: The key of an operator or an admin, for the routes under ``/v1``.
    """

    http: httpx.Client
    url: str
    key: str | None
    namespace: str
    api_key: str | None = None

    def greet(self) -> httpx.Response:
        """Ask whether a remote store may work here."""
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        return self.http.get(PATH, params={"namespace": self.namespace}, headers=headers)

    @property
    def is_open(self) -> bool:
        """Whether the key opens the namespace."""
        return self.greet().is_success


def health(server: Server) -> Iterable[Verdict]:
    try:
        response = server.http.get("/health")
    except httpx.TransportError as error:
        yield failure(f"nobody answers at {server.url} ({said(error)}); is it up, and is the URL right?")
        return
    told = _object(response)
    if not response.is_success or told.get("status") != "ok":
        yield failure(
            f"what answers at {server.url} is no signoff server: {_detail(response)}; check the URL"
        )
        return
    version = told.get("version", "an older one")
    if version != __version__:
        yield warning(
            f"its version is {version}, this is {__version__}; a server and its workers should agree"
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
        yield skipped(f"its metrics are not to be had: {_detail(response)}")
        return
    for job, seconds in _RUNNING.findall(response.text):
        if float(seconds) > LATE_SECONDS:
            yield warning(
                f"periodic job {job!r} has not returned for {float(seconds):.0f} s; the other jobs continue"
            )
    counts = {job: float(count) for job, count in _SET_ASIDE.findall(response.text)}
    failing = [f"{count:.0f} of job {job!r}" for job, count in counts.items() if count]
    if not failing:
        yield ok("no item of a periodic job fails in this server; workers count their own in their metrics")
        return
    yield warning(f"items of periodic jobs fail and are tried again: {', '.join(failing)}")
    yield from _failing_items(server)


def _failing_items(server: Server) -> Iterable[Verdict]:
    """Name the items that the API key opens; all others are in the server's log."""
    headers = {} if server.api_key is None else {"authorization": f"Bearer {server.api_key}"}
    response = server.http.get("/v1/set-aside", params={"limit": MOST_ITEMS}, headers=headers)
    if not response.is_success:
        yield skipped(
            f"the items are not named here ({_detail(response)}): set SIGNOFF_KEY to an operator's API key, or look "
            "into the server's log"
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
        yield warning(f"there are more than these {MOST_ITEMS}: GET /v1/set-aside lists all")
    elif not items:
        yield skipped("none of them is of this namespace; the server's log names them")


def answers(server: Server) -> Iterable[Verdict]:
    taken: list[float] = []
    for _ in range(ANSWERS):
        began_at = time.perf_counter()
        server.http.get("/health")
        taken.append(time.perf_counter() - began_at)
    yield latency(taken, "an answer", SLOW_SECONDS, "each turn of a run waits for one: look at the way there")


def key(server: Server) -> Iterable[Verdict]:
    response = server.greet()
    if response.is_success:
        yield ok(f"the worker key is good for {server.namespace!r}")
    elif server.key is None and response.status_code == FORBIDDEN:
        yield skipped("no worker key is given (--key, SIGNOFF_WORKER_KEY)")
    else:
        yield failure(f"it does not let workers in: {_detail(response)}")


def clocks(server: Server) -> Iterable[Verdict]:
    sent_at = time.time()
    response = server.greet()
    received_at = time.time()
    told = _object(response).get("now")
    inexact = (received_at - sent_at) / 2
    if not isinstance(told, float):
        told = parsedate_to_datetime(response.headers["date"]).timestamp() + 0.5  # in whole seconds
        inexact += 0.5
    yield clock(told - (sent_at + received_at) / 2, inexact, whose="the server's")


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
        told: Any = response.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _detail(response: httpx.Response) -> str:
    return str(_object(response).get("detail") or f"{response.status_code} {response.reason_phrase}")
