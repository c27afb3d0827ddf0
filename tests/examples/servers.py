"""External systems of the examples, controlled by the test: a web site, a language model, a mail server.

Each can hold its answers back, which stops a worker at a precise point.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


def until(look: Callable[[], T], seconds: float = 60.0) -> T:
    """Return what ``look`` finds as soon as it is something."""
    give_up_at = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < give_up_at, f"it did not happen within {seconds:g} s"
        time.sleep(0.02)
    return found


class Gate:
    """Lets waiting requests through, unless it is held."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self._open.wait(60)


class Server(socketserver.ThreadingTCPServer):
    """A thread for each caller. Some callers are killed in the middle of an answer."""

    daemon_threads = True
    request_queue_size = 20

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(server: socketserver.BaseServer, gate: Gate) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        gate.release()
        server.shutdown()
        thread.join()
        server.server_close()


class WebSite(Gate):
    """Serves pages and counts how often each was fetched.

    Attributes:
        pages: Status, content type and body by path.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.fetches: Counter[str] = Counter()

    def put(self, path: str, body: bytes, content_type: str = "text/html; charset=utf-8") -> str:
        """Serve a page and return its address."""
        self.pages[path] = (200, {"Content-Type": content_type}, body)
        return self.url + path


@contextmanager
def web_site() -> Iterator[WebSite]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.fetches[self.path] += 1
            site.wait()
            status, headers, body = site.pages.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    site = WebSite(f"http://127.0.0.1:{server.server_address[1]}")
    with serving(server, site):
        yield site


class Model(Gate):
    """An OpenAI-compatible endpoint that gives its replies in turn, and repeats the last one.

    Attributes:
        requests: What it was asked, as it came in.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.replies: Sequence[str] = ("A summary.",)
        self.refuses_with: int | None = None
        self.requests: list[dict[str, Any]] = []

    def reply_to(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        text = self.replies[min(len(self.requests), len(self.replies)) - 1]
        self.wait()
        return {"choices": [{"message": {"role": "assistant", "content": text}}]}


@contextmanager
def language_model() -> Iterator[Model]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v1/chat/completions"
            reply = model.reply_to(request)
            self.send_response(model.refuses_with or 200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    model = Model(f"http://127.0.0.1:{server.server_address[1]}/v1")
    with serving(server, model):
        yield model


class MailServer(Gate):
    """Takes mails by SMTP.

    Attributes:
        is_broken: Whether connections are closed at once.
        connections: The number of connections to send one.
        mails: What was sent.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.is_broken = False
        self.connections = 0
        self.mails: list[bytes] = []


@contextmanager
def mail_server() -> Iterator[MailServer]:
    class Handler(socketserver.StreamRequestHandler):
        replies: ClassVar = {b"DATA": b"354 go on", b"QUIT": b"221 bye"}

        def handle(self) -> None:
            mails.connections += 1
            mails.wait()
            if mails.is_broken:
                return
            self.wfile.write(b"220 test\r\n")
            while command := self.rfile.readline().split(maxsplit=1):
                self.wfile.write(self.replies.get(command[0].upper(), b"250 ok") + b"\r\n")
                if command[0].upper() == b"DATA":
                    mails.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                    self.wfile.write(b"250 ok\r\n")

    server = Server(("127.0.0.1", 0), Handler)
    mails = MailServer(f"smtp://127.0.0.1:{server.server_address[1]}")
    with serving(server, mails):
        yield mails
