"""Raw heads of HTTP requests."""

from __future__ import annotations


def head(length: int, *, path: str = "/v1/runs", more: str = "") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n{more}\r\n"
    ).encode()
