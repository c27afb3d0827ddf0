"""An HTTP server that messages are posted to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Receiver(BaseHTTPRequestHandler):
    """Keeps the messages that are posted to it, and answers with the statuses that a test has put."""

    def do_POST(self) -> None:
        server: Any = self.server
        server.got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(server.statuses.pop(0) if server.statuses else 200)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()
        server.arrived.release()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Any]:
    """Yield a server; ``got`` are its messages, ``statuses`` the next replies, and ``arrived`` counts messages."""
    server: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.statuses, server.arrived = [], [], threading.Semaphore(0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
