"""A server and a worker as processes: on SQLite, on Postgres, or the worker through the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import httpx

from tests import worker_keys
from tests.cli.commands import ORDERS, PATIENCE_SECONDS, Running, until
from tests.postgres.databases import fresh_database

KINDS: Final = ("sqlite", "postgres", "remote")


class Deployment:
    """A server and a worker, and connections to both that were made before anything happens to them.

    Attributes:
        folder: Where they run. A step of the workflow ``add`` writes its run's id to the file ``marks`` there.
        worker_http: Of the worker's probes.
    """

    def __init__(self, folder: Path, server: Running, worker: Running, stack: ExitStack) -> None:
        self.folder = folder
        self.server = server
        self.worker = worker
        self.port: int = server.wait_for("listening")["port"]
        self.http = stack.enter_context(_kept(f"http://127.0.0.1:{self.port}"))
        self.worker_http = stack.enter_context(_kept(worker.wait_for("metrics")["url"]))
        worker.wait_for("working")

    def start(self, id: str, workflow: str = "add", argument: object = 1) -> bool:
        """Start a run. Returns whether it was acknowledged; if not, it was refused with a reason."""
        reply = self.http.post("/v1/runs", json={"workflow": workflow, "args": [argument], "id": id})
        assert reply.status_code in (200, 201, 503), reply.text
        return reply.status_code != 503

    def ready(self) -> tuple[int, str]:
        """What the server says of itself: the status and the reason."""
        reply = self.http.get("/ready")
        return reply.status_code, reply.json().get("reason", "")

    def worker_ready(self) -> tuple[int, str]:
        """What the worker says of itself."""
        reply = self.worker_http.get("/ready")
        return reply.status_code, reply.json().get("detail", "")

    def ends(self, id: str) -> bool:
        reply = self.http.get(f"/v1/runs/{id}")
        return reply.status_code == 200 and reply.json()["state"] == "succeeded"

    def marks(self) -> list[str]:
        """The runs whose step was executed, each as often as it was."""
        file = self.folder / "marks"
        return file.read_text().split() if file.exists() else []


@contextmanager
def deployed(folder: Path, kind: str, *, preamble: str = "", program: str = "") -> Iterator[Deployment]:
    """Have a server and a worker run in a folder.

    Args:
        folder: An empty one.
        kind: ``sqlite``, ``postgres`` or ``remote``: a worker that works through the server, on SQLite.
        preamble: Code that both run before they begin.
        program: Further workflows.
    """
    orders = ORDERS.replace("lambda: a + b", "lambda: mark(ctx.run_id) or a + b")
    (folder / "orders.py").write_text(preamble + orders + program)
    with ExitStack() as stack:
        store = {"SIGNOFF_STORE": stack.enter_context(fresh_database())} if kind == "postgres" else {}
        shared = {"SIGNOFF_WORKER_KEY": worker_keys.SECRET} if kind == "remote" else store
        server = stack.enter_context(Running("server", "orders:app", "--port", "0", cwd=folder, **shared))
        if kind == "remote":
            shared = {**shared, "SIGNOFF_URL": server.wait_for("listening")["url"]}
        worker = stack.enter_context(
            Running("worker", "orders:app", "--metrics-port", "0", cwd=folder, **shared)
        )
        deployment = Deployment(folder, server, worker, stack)
        until(lambda: deployment.ready() == (200, "") and deployment.worker_ready() == (200, ""))
        yield deployment


@contextmanager
def _kept(url: str) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
    with closing(
        httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS, limits=limits)
    ) as client:
        yield client
